"""A node that was cut off says at once that it is alive, and does not say so in a tight circle,
nor in step with all the others.

What its pool hands back it begins later, in order.
"""

import asyncio
import random
from collections import Counter
from itertools import pairwise
from typing import Any

import msgspec

from crawlfleet.errors import MasterUnreachable
from crawlfleet.model.resources import Usage
from crawlfleet.model.wire.node_protocol import (
    Assignment,
    HeartbeatReply,
    LeaseReply,
    Registered,
    Report,
    ReportBatch,
    ReportKind,
    ReportOutcome,
    ReportReply,
    StopOrder,
)
from crawlfleet.ports.execution import Attempt, NotBegun
from crawlfleet.testing.executor_suite import make_assignment
from crawlfleet.testing.simulation.clock import SimulatedSystem, run_simulated
from crawlfleet.worker.report_journal import ReportJournal
from crawlfleet.worker.session.session import LEAST_PAUSE_S, SessionEnd, WorkSession

INTERVAL_S = 3.0
LONG_POLL_S = 20.0


class BrokenLink:
    """Takes every heartbeat, and breaks the connection that waits for work when told to."""

    def __init__(self, breaks_at: list[float]) -> None:
        self._breaks_at = breaks_at
        self.beats: list[float] = []

    async def heartbeat(self, node_id: str, heartbeat: Any) -> HeartbeatReply:
        self.beats.append(asyncio.get_running_loop().time())
        return HeartbeatReply(node_id=node_id, timestamp=0.0, status="online")

    async def lease(self, node_id: str, request: Any) -> LeaseReply:
        loop = asyncio.get_running_loop()
        if self._breaks_at and loop.time() + LONG_POLL_S > self._breaks_at[0]:
            await asyncio.sleep(max(self._breaks_at.pop(0) - loop.time(), 0.0))
            raise MasterUnreachable("the connection broke")
        await asyncio.sleep(LONG_POLL_S)
        return LeaseReply()


class OneLease(BrokenLink):
    """Has some work in its first lease, and notes the reports."""

    def __init__(self, assignments: list[Assignment]) -> None:
        super().__init__([])
        self._assignments = assignments
        self.reports: list[Report] = []

    async def lease(self, node_id: str, request: Any) -> LeaseReply:
        assignments, self._assignments = self._assignments, []
        if not assignments:
            await asyncio.sleep(LONG_POLL_S)
        return LeaseReply(assignments=tuple(assignments))

    async def report(self, node_id: str, batch: ReportBatch) -> ReportReply:
        self.reports += batch.reports
        return ReportReply(outcomes=(ReportOutcome.RECORDED,) * len(batch.reports))


class HesitantPool:
    """Can be sent two ahead, and hands them back after a while."""

    ahead = 2

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.handed_back = 0

    async def run(self, assignment: Assignment, observer: Any, *, ahead: bool = False) -> Attempt:
        if ahead:
            await asyncio.sleep(0.05)
            self.handed_back += 1
            raise NotBegun
        self.begun.append(assignment.execution_id)
        observer.started()
        await asyncio.sleep(0.1)
        return Attempt(data=msgspec.Raw(b"1"))


async def work(link: BrokenLink, until: float, pool: Any = None, *, seed: int = 0) -> None:
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    loop.call_at(until, stopping.set)

    async def measure() -> Usage:
        return Usage()

    session = WorkSession(
        link=link,  # type: ignore[arg-type]
        pool=pool,
        system=SimulatedSystem(random.Random(seed)),
        registered=Registered(
            node_id="node-1",
            registration_time=0.0,
            initial_status="online",
            session_id="sess-1",
            session_timeout_s=12.0,
            heartbeat_interval_s=INTERVAL_S,
        ),
        asked_at=loop.time(),
        measure=measure,
        slots=1,
        stop_grace_s=0.0,
        long_poll_s=LONG_POLL_S,
        stopping=stopping,
        keeper=ReportJournal(None),
    )
    assert await session.run() is SessionEnd.STOPPED


def test_a_broken_connection_is_followed_by_a_heartbeat_at_once() -> None:
    async def scene() -> None:
        start = asyncio.get_running_loop().time()
        link = BrokenLink([start + 10.0, start + 31.05])
        await work(link, until=start + 50.0)
        for broke in (start + 10.0, start + 31.05):
            after = [each for each in link.beats if each >= broke]
            assert after[0] - broke <= LEAST_PAUSE_S
        apart = [second - first for first, second in pairwise(link.beats)]
        assert max(apart) <= INTERVAL_S + 0.01

    run_simulated(scene())


def test_connections_that_break_all_the_time_do_not_make_more_of_it_than_that() -> None:
    async def scene() -> None:
        start = asyncio.get_running_loop().time()
        link = BrokenLink([start + number * 0.1 for number in range(1, 200)])
        await work(link, until=start + 10.0)
        assert len(link.beats) > 10.0 / INTERVAL_S
        assert min(b - a for a, b in pairwise(link.beats)) >= LEAST_PAUSE_S - 0.001

    run_simulated(scene())


def test_nodes_that_came_at_once_do_not_go_on_in_step() -> None:
    async def scene() -> None:
        start = asyncio.get_running_loop().time()
        links = [BrokenLink([start + 10.0]) for _ in range(100)]
        await asyncio.gather(
            *(work(link, until=start + 21.0, seed=seed) for seed, link in enumerate(links))
        )
        for begins in (start + 6.0, start + 17.0):
            beats = [each - begins for link in links for each in link.beats]
            tenths = Counter(int(each * 10) for each in beats if 0.0 <= each < INTERVAL_S)
            assert sum(tenths.values()) >= len(links)
            assert max(tenths.values()) < 20

    run_simulated(scene())


def test_what_the_pool_hands_back_is_begun_later_and_ends_once() -> None:
    async def scene() -> None:
        start = asyncio.get_running_loop().time()
        assignments = [make_assignment("work", {}) for _ in range(5)]
        link, pool = OneLease(assignments), HesitantPool()
        await work(link, until=start + 5.0, pool=pool)
        ids = sorted(each.execution_id for each in assignments)
        assert pool.handed_back
        assert sorted(pool.begun) == ids
        ended = [each.execution_id for each in link.reports if each.kind is ReportKind.SUCCEEDED]
        assert sorted(ended) == ids

    run_simulated(scene())


def test_what_the_pool_hands_back_as_the_session_ends_is_given_back() -> None:
    async def scene() -> None:
        start = asyncio.get_running_loop().time()
        assignments = [make_assignment("work", {}) for _ in range(3)]
        link, pool = OneLease(assignments), HesitantPool()
        await work(link, until=start + 0.05, pool=pool)
        last = {each.execution_id: each.kind for each in link.reports}
        assert {*last} == {each.execution_id for each in assignments}
        assert {*last.values()} <= {ReportKind.STOPPED, ReportKind.RELEASED}
        assert len(pool.begun) == 1

    run_simulated(scene())


class StaleLink(OneLease):
    """Says that an execution is nobody's while a heartbeat that lists it is under way, and then
    that its task is lost."""

    def __init__(self, assignments: list[Assignment]) -> None:
        super().__init__(assignments)
        self.listed: list[tuple[str, ...]] = []
        self._is_listed = asyncio.Event()

    async def heartbeat(self, node_id: str, heartbeat: Any) -> HeartbeatReply:
        self.listed.append(heartbeat.active_tasks)
        if heartbeat.active_tasks:
            self._is_listed.set()
        await asyncio.sleep(1.0)
        reply = await super().heartbeat(node_id, heartbeat)
        return msgspec.structs.replace(reply, lost_tasks=heartbeat.active_tasks)

    async def report(self, node_id: str, batch: ReportBatch) -> ReportReply:
        await self._is_listed.wait()
        await super().report(node_id, batch)
        return ReportReply(outcomes=(ReportOutcome.STALE,) * len(batch.reports))


class SlowToStopPool:
    """Takes its time when something is to stop."""

    ahead = 0

    def __init__(self) -> None:
        self.stopped = 0

    async def run(self, assignment: Assignment, observer: Any, *, ahead: bool = False) -> Attempt:
        observer.started()
        try:
            await asyncio.sleep(1000.0)
        finally:
            await asyncio.sleep(4 * INTERVAL_S)
            self.stopped += 1
        return Attempt()


def test_what_is_nobodys_any_more_and_slow_to_stop_does_not_end_the_session() -> None:
    async def scene() -> None:
        start = asyncio.get_running_loop().time()
        assignments = [make_assignment("work", {})]
        link, pool = StaleLink(assignments), SlowToStopPool()
        await work(link, until=start + 10 * INTERVAL_S, pool=pool)
        assert pool.stopped == 1
        assert (assignments[0].task_id,) in link.listed
        assert len(link.listed) > 6
        assert link.listed[-1] == ()

    run_simulated(scene())


class FickleLink(OneLease):
    """Gives short work first, then the same amount that is long, and notes what is asked for."""

    def __init__(self, short: list[Assignment], long: list[Assignment]) -> None:
        super().__init__(short)
        self._long = long
        self.backlogs: list[int] = []

    async def lease(self, node_id: str, request: Any) -> LeaseReply:
        self.backlogs.append(request.backlog)
        if len(self.backlogs) == 1:
            return LeaseReply(assignments=tuple(self._assignments))
        await asyncio.sleep(1.0 if self._long else 5.0)
        assignments, self._long = self._long, []
        return LeaseReply(assignments=tuple(assignments))


class Performer:
    """Does what the type of a task says: `short`, or `long`."""

    ahead = 0

    async def run(self, assignment: Assignment, observer: Any, *, ahead: bool = False) -> Attempt:
        observer.started()
        await asyncio.sleep(0.001 if assignment.task_type == "short" else 15.0)
        return Attempt()


def test_a_full_backlog_is_given_back_when_work_turns_long_and_no_more_is_asked_for() -> None:
    async def scene() -> None:
        start = asyncio.get_running_loop().time()
        short = [make_assignment("short", {}) for _ in range(500)]
        long = [make_assignment("long", {}) for _ in range(500)]
        link = FickleLink(short, long)
        await work(link, until=start + 12.0, pool=Performer())
        kinds = {
            kind: {e.execution_id for e in link.reports if e.kind is kind} for kind in ReportKind
        }
        assert kinds[ReportKind.SUCCEEDED] == {each.execution_id for each in short}
        assert kinds[ReportKind.RELEASED] == {each.execution_id for each in long[1:]}
        assert kinds[ReportKind.STOPPED] == {long[0].execution_id}
        # Of the poll under way it says nothing; the next one asks for nothing beyond the slots.
        assert link.backlogs[2] > 0
        assert {*link.backlogs[3:]} == {0}

    run_simulated(scene())


class StoppingLink(OneLease):
    """Wants one of its executions stopped, after a while."""

    def __init__(self, assignments: list[Assignment], unwanted: Assignment) -> None:
        super().__init__(assignments)
        self._stop = StopOrder(
            execution_id=unwanted.execution_id, task_id=unwanted.task_id, token=unwanted.token
        )

    async def lease(self, node_id: str, request: Any) -> LeaseReply:
        if self._assignments:
            return await super().lease(node_id, request)
        await asyncio.sleep(0.5)
        is_held = self._stop.execution_id in request.held
        return LeaseReply(stop=(self._stop,) if is_held else ())


def test_what_is_stopped_between_others_costs_none_of_them() -> None:
    async def scene() -> None:
        start = asyncio.get_running_loop().time()
        first, unwanted, *others = (
            make_assignment(kind, {}) for kind in ("short", "long", "short", "short")
        )
        link = StoppingLink([first, unwanted, *others], unwanted)
        await work(link, until=start + 5.0, pool=Performer())
        ends = [(e.execution_id, e.kind) for e in link.reports if e.kind is not ReportKind.STARTED]
        assert ends == [
            (first.execution_id, ReportKind.SUCCEEDED),
            (unwanted.execution_id, ReportKind.STOPPED),
            *((other.execution_id, ReportKind.SUCCEEDED) for other in others),
        ]

    run_simulated(scene())
