"""Many nodes in one process: real agents on the real wire, whose executors only sleep.

`Crowds` starts such processes, which read orders from their standard input, one JSON object a line,
and answer each with one: `{"do": "add", "nodes": 100}`, `{"do": "figures"}`, which also forgets
them. The environment names the master (`CROWD_URL`) and the join token (`CROWD_JOIN`).
"""

import asyncio
import json
import os
import resource
import sys
import time
from typing import Any, Final

import msgspec
import uvloop

from crawlfleet.adapters.machine import Machine
from crawlfleet.client.http.transport import Transport
from crawlfleet.client.node_link import HttpControlLink
from crawlfleet.model.resources import Usage
from crawlfleet.model.wire.node_protocol import (
    PROTOCOL,
    Assignment,
    ExecutionOrder,
    Heartbeat,
    HeartbeatReply,
    Registered,
    Registration,
    ReportBatch,
    ReportReply,
)
from crawlfleet.ports.execution import Attempt, Observer
from crawlfleet.testing.simulation.faults import KeptIdentity
from crawlfleet.worker.agent import Agent
from crawlfleet.worker.report_journal import ReportJournal

SLOTS: Final = 4
TASK_TYPE: Final = "load"


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of a task."""

    seconds: float
    submitted_at: float
    """By the clock of this machine."""


class CrowdFigures:
    """How long the master took, in seconds, by what it was asked."""

    def __init__(self) -> None:
        self.times: dict[str, list[float]] = {}
        self.done = 0

    def count(self, what: str, seconds: float) -> None:
        self.times.setdefault(what, []).append(seconds)

    def taken(self) -> dict[str, Any]:
        """What was measured since it was last asked."""
        taken = {"times": self.times, "done": self.done}
        self.times, self.done = {}, 0
        return taken


class TimedLink(HttpControlLink):
    """The link of a node, with a watch at its answers; a lease waits on purpose and has none."""

    figures: CrowdFigures

    async def register(self, registration: Registration, node_token: str | None) -> Registered:
        begun = time.perf_counter()
        registered = await super().register(registration, node_token)
        self.figures.count("register", time.perf_counter() - begun)
        return registered

    async def heartbeat(self, node_id: str, heartbeat: Heartbeat) -> HeartbeatReply:
        begun = time.perf_counter()
        reply = await super().heartbeat(node_id, heartbeat)
        self.figures.count("heartbeat", time.perf_counter() - begun)
        return reply

    async def report(self, node_id: str, batch: ReportBatch) -> ReportReply:
        begun = time.perf_counter()
        reply = await super().report(node_id, batch)
        self.figures.count("report", time.perf_counter() - begun)
        return reply


class SleepingPool:
    """An `ExecutorPool` without processes: a task sleeps for as long as it says."""

    task_types = (TASK_TYPE,)
    ahead = 0

    def __init__(self, figures: CrowdFigures) -> None:
        self._figures = figures

    async def run(
        self, assignment: Assignment, observer: Observer, *, ahead: bool = False
    ) -> Attempt:
        load = msgspec.json.decode(assignment.parameters, type=Load)
        observer.started()
        self._figures.count("submit → running", time.time() - load.submitted_at)
        await asyncio.sleep(load.seconds)
        self._figures.done += 1
        return Attempt(data=msgspec.Raw(b"null"))

    def order(self, order: ExecutionOrder) -> bool:
        return False

    async def close(self) -> None:
        """Nothing to close."""


class Crowd:
    """The nodes of this process."""

    def __init__(self) -> None:
        self._figures = CrowdFigures()
        self._lives: set[asyncio.Task[None]] = set()

    async def carry_out(self, order: dict[str, Any]) -> dict[str, Any]:
        match order["do"]:
            case "add":
                for number in range(order["nodes"]):
                    name = f"{os.getpid()}-{len(self._lives)}-{number}"
                    self._lives.add(asyncio.create_task(self._live(name)))
                return {"nodes": len(self._lives)}
            case "figures":
                for life in self._lives:
                    if life.done():
                        life.result()
                usage = resource.getrusage(resource.RUSAGE_SELF)
                return {**self._figures.taken(), "cpu_s": usage.ru_utime + usage.ru_stime}
            case other:
                raise SystemExit(f"no order {other!r}")

    async def _live(self, name: str) -> None:
        async with Transport(os.environ["CROWD_URL"]) as transport:
            kept = KeptIdentity()
            link = TimedLink(transport, join_token=os.environ["CROWD_JOIN"], keep=kept.adopt)
            link.figures = self._figures
            agent = Agent(
                link=link,
                pool=SleepingPool(self._figures),
                identity=kept,
                system=Machine(),
                registration=Registration(
                    name=name,
                    resources={"cpu": SLOTS, "memory_mb": 4096, "slots": SLOTS},
                    task_types=SleepingPool.task_types,
                    protocol=PROTOCOL,
                ),
                measure=_measure,
                stop_grace_s=1.0,
                long_poll_s=20.0,
                keeper=ReportJournal(None),
            )
            await agent.run()


async def _measure() -> Usage:
    return Usage(cpu_usage=0.2, memory_usage=0.3)


async def _serve() -> None:
    crowd = Crowd()
    reader = asyncio.StreamReader(limit=1 << 20)
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    sys.stdout.write("{}\n")
    sys.stdout.flush()
    while line := await reader.readline():
        answer = await crowd.carry_out(json.loads(line))
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    os._exit(0)  # as a machine that loses its power: nobody says good-bye


if __name__ == "__main__":
    # Thousands of sockets: as many as the system lets a process have.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    uvloop.run(_serve())
