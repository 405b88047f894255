"""What a node holds, where an order comes at the wrong moment."""

import asyncio
from types import SimpleNamespace
from typing import Any

from crawlfleet.model.wire.node_protocol import Assignment, ReportKind, StopOrder
from crawlfleet.ports.execution import Attempt
from crawlfleet.testing.executor_suite import make_assignment
from crawlfleet.worker.session.pace import Pace
from crawlfleet.worker.session.work import SessionWork


class Said:
    """LogForwarder what is reported."""

    def __init__(self) -> None:
        self.all: list[tuple[str, ReportKind]] = []

    def say(self, about: Any, kind: ReportKind, attempt: Attempt | None = None) -> None:
        self.all.append((about.execution_id, kind))

    def say_started(self, about: Assignment) -> None:
        self.say(about, ReportKind.STARTED)


class Idle:
    """A pool whose work is nothing."""

    ahead = 0

    async def run(self, assignment: Assignment, observer: Any, *, ahead: bool = False) -> Attempt:
        return Attempt()


def test_what_is_stopped_before_its_first_step_leaves_its_slot_to_the_next() -> None:
    async def scene() -> None:
        said = Said()
        relay = SimpleNamespace(
            observe=lambda *_: SimpleNamespace(metrics=dict), end=lambda execution_id: None
        )
        held = SessionWork(pool=Idle(), reports=said, relay=relay, pace=Pace(0.0), slots=1)  # type: ignore[arg-type]
        unwanted, wanted = make_assignment("short", {}), make_assignment("short", {})
        held.begin(unwanted)
        held.begin(wanted)
        held.run_next()
        stop = StopOrder(
            execution_id=unwanted.execution_id, task_id=unwanted.task_id, token=unwanted.token
        )
        held.obey((stop,))
        async with asyncio.timeout(5):
            while len(said.all) < 2:
                await asyncio.sleep(0)
        assert said.all == [
            (unwanted.execution_id, ReportKind.STOPPED),
            (wanted.execution_id, ReportKind.SUCCEEDED),
        ]
        assert not held.running

    asyncio.run(scene())
