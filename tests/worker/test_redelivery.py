"""A master that is away costs no finished work: it is kept, and handed in before anything else."""

import asyncio
import random
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from crawlfleet.errors import MasterFailed, MasterUnreachable, Refused
from crawlfleet.model.resources import Usage
from crawlfleet.model.wire.node_protocol import (
    Assignment,
    HeartbeatReply,
    LeaseReply,
    LeaseRequest,
    Registered,
    Registration,
    Report,
    ReportBatch,
    ReportKind,
    ReportOutcome,
    ReportReply,
)
from crawlfleet.ports.execution import Attempt, Identity
from crawlfleet.testing.simulation.clock import SimulatedSystem, run_simulated
from crawlfleet.testing.simulation.faults import KeptIdentity
from crawlfleet.worker import agent as agent_module
from crawlfleet.worker.agent import Agent
from crawlfleet.worker.report_journal import ReportJournal

RECORDED, STALE = ReportOutcome.RECORDED, ReportOutcome.STALE


class PlayedMaster:
    """Gives each session one task; answers nothing while it is away."""

    def __init__(self) -> None:
        self.is_away = False
        self.is_deaf_to_reports = False
        self.outcome = RECORDED
        self.trouble: Exception | None = None
        """What reports of the first session are answered with."""
        self.sessions = 0
        self.said: list[str] = []
        self.leases: list[float] = []
        self._given: set[str] = set()

    def _answer(self) -> None:
        if self.is_away:
            raise MasterUnreachable("away")

    async def register(self, registration: Registration, node_token: str | None) -> Registered:
        self._answer()
        self.sessions += 1
        self.said.append(f"register {registration.node_id}")
        return Registered(
            node_id="node-1",
            registration_time=0.0,
            initial_status="online",
            session_id=f"sess-{self.sessions}",
            session_timeout_s=12.0,
            heartbeat_interval_s=3.0,
            node_token=None if node_token else "secret",
        )

    async def heartbeat(self, node_id: str, heartbeat: Any) -> HeartbeatReply:
        self._answer()
        return HeartbeatReply(node_id=node_id, timestamp=0.0, status="online")

    async def lease(self, node_id: str, request: LeaseRequest) -> LeaseReply:
        self._answer()
        self.leases.append(asyncio.get_running_loop().time())
        if request.session_id in self._given:
            await asyncio.sleep(5.0)
            self._answer()
            return LeaseReply()
        self._given.add(request.session_id)
        number = request.session_id.removeprefix("sess-")
        assignment = Assignment(
            execution_id=f"exec-{number}",
            task_id=f"task-{number}",
            token=1,
            task_type="work",
            parameters=msgspec.Raw(b"{}"),
        )
        return LeaseReply(assignments=(assignment,))

    async def report(self, node_id: str, batch: ReportBatch) -> ReportReply:
        self._answer()
        if self.is_deaf_to_reports:
            await asyncio.sleep(0.3)
            raise MasterUnreachable("the store is full")
        if batch.session_id == "sess-1" and self.trouble is not None:
            raise self.trouble
        self.said += [
            f"{each.kind} {each.execution_id} {batch.session_id}" for each in batch.reports
        ]
        outcome = self.outcome if batch.session_id == "sess-1" else RECORDED
        return ReportReply(outcomes=(outcome,) * len(batch.reports))

    async def leave(self, node_id: str, session_id: str) -> None:
        self._answer()


class QuickPool:
    """Every execution takes two seconds."""

    task_types = ("work",)
    ahead = 0

    async def run(self, assignment: Assignment, observer: Any, *, ahead: bool = False) -> Attempt:
        observer.started()
        await asyncio.sleep(2.0)
        return Attempt(data=msgspec.Raw(b'"done"'))


def agent_of(master: PlayedMaster, identity: KeptIdentity, keeper: ReportJournal) -> Agent:
    async def measure() -> Usage:
        return Usage()

    return Agent(
        link=master,  # type: ignore[arg-type]
        pool=QuickPool(),  # type: ignore[arg-type]
        identity=identity,
        system=SimulatedSystem(random.Random(0)),
        registration=Registration(name="a", resources={"slots": 1}),
        measure=measure,
        stop_grace_s=0.0,
        long_poll_s=5.0,
        keeper=keeper,
    )


async def lose_the_master(master: PlayedMaster, life: Any) -> None:
    """It goes while the first task runs, and stays away until the session is over."""
    await asyncio.sleep(1.0)
    master.is_away = True
    await asyncio.sleep(300.0)
    assert not life.done()


def test_finished_work_is_handed_in_before_the_registration_that_ends_its_session() -> None:
    async def scene() -> None:
        master, identity, keeper = PlayedMaster(), KeptIdentity(), ReportJournal(None)
        agent = agent_of(master, identity, keeper)
        life = asyncio.create_task(agent.run())
        await lose_the_master(master, life)
        assert len(keeper.waiting()) == 1
        master.is_away = False
        await asyncio.sleep(9.0)
        assert master.said[:4] == [
            "register None",
            "started exec-1 sess-1",
            "succeeded exec-1 sess-1",
            "register node-1",
        ]
        assert keeper.waiting() == []
        agent.stop()
        await life

    run_simulated(scene())


def test_a_process_that_was_killed_meanwhile_hands_in_what_it_had_finished() -> None:
    async def scene() -> None:
        master, identity, keeper = PlayedMaster(), KeptIdentity(), ReportJournal(None)
        life = asyncio.create_task(agent_of(master, identity, keeper).run())
        await asyncio.sleep(1.0)
        master.is_away = True
        await asyncio.sleep(3.0)
        life.cancel()
        await asyncio.wait({life})
        master.is_away = False
        agent = agent_of(master, identity, keeper)
        life = asyncio.create_task(agent.run())
        await asyncio.sleep(1.0)
        assert master.said[:4] == [
            "register None",
            "started exec-1 sess-1",
            "succeeded exec-1 sess-1",
            "register node-1",
        ]
        agent.stop()
        await life

    run_simulated(scene())


@pytest.mark.parametrize("trouble", [Refused("revoked"), MasterFailed("a defect"), None])
def test_what_the_master_does_not_take_is_dropped_and_the_node_works_on(
    trouble: Exception | None,
) -> None:
    async def scene() -> None:
        master, identity, keeper = PlayedMaster(), KeptIdentity(), ReportJournal(None)
        agent = agent_of(master, identity, keeper)
        life = asyncio.create_task(agent.run())
        await lose_the_master(master, life)
        master.is_away, master.outcome, master.trouble = False, STALE, trouble
        await asyncio.sleep(60.0)
        assert keeper.waiting() == []
        assert "succeeded exec-2 sess-2" in master.said
        agent.stop()
        await life

    run_simulated(scene())


class FailingMaster(PlayedMaster):
    """Has a defect over some executions, or whatever it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.cannot_take: set[str] = set()

    async def report(self, node_id: str, batch: ReportBatch) -> ReportReply:
        if self.cannot_take & {each.execution_id for each in batch.reports}:
            raise MasterFailed("a defect")
        return await super().report(node_id, batch)


def finished(*executions: str) -> ReportBatch:
    return ReportBatch(
        session_id="sess-1",
        reports=tuple(
            Report(execution_id=each, task_id="task-1", token=1, kind=kind, at=1.0)
            for each in executions
            for kind in (ReportKind.STARTED, ReportKind.SUCCEEDED)
        ),
    )


def test_defects_of_the_master_do_not_add_up_over_the_life_of_a_node() -> None:
    async def scene() -> None:
        master, keeper = FailingMaster(), ReportJournal(None)
        identity = KeptIdentity()
        identity.adopt(Identity(node_id="node-1", node_token="secret"))
        agent = agent_of(master, identity, keeper)
        for number in range(12):
            await keeper.keep("node-1", finished(f"exec-{number}"))
            master.cannot_take = {f"exec-{number}"}
            await agent.hand_in()
            master.cannot_take = set()
            await agent.hand_in()
        assert keeper.waiting() == []
        taken = [said for said in master.said if said.startswith("succeeded")]
        assert taken == [f"succeeded exec-{number} sess-1" for number in range(12)]

    run_simulated(scene())


def test_one_report_that_the_master_fails_over_does_not_cost_the_others() -> None:
    async def scene() -> None:
        master, keeper = FailingMaster(), ReportJournal(None)
        identity = KeptIdentity()
        identity.adopt(Identity(node_id="node-1", node_token="secret"))
        agent = agent_of(master, identity, keeper)
        await keeper.keep("node-1", finished("exec-1", "exec-2", "exec-3"))
        master.cannot_take = {"exec-2"}
        for _ in range(5):
            await agent.hand_in()
        assert [said for said in master.said if said.startswith("succeeded")] == [
            "succeeded exec-1 sess-1",
            "succeeded exec-3 sess-1",
        ]
        assert len(keeper.waiting()) == 1, "it has come alone only once"
        for _ in range(5):
            await agent.hand_in()
        assert keeper.waiting() == []

    run_simulated(scene())


def test_it_can_be_handed_in_before_executors_are_there() -> None:
    async def scene() -> None:
        master, identity, keeper = PlayedMaster(), KeptIdentity(), ReportJournal(None)
        life = asyncio.create_task(agent_of(master, identity, keeper).run())
        await lose_the_master(master, life)
        life.cancel()
        await asyncio.wait({life})
        agent = agent_of(master, identity, keeper)
        await agent.hand_in()
        assert len(keeper.waiting()) == 1
        master.is_away = False
        await agent.hand_in()
        assert master.said[-1] == "succeeded exec-1 sess-1"
        assert keeper.waiting() == []

    run_simulated(scene())


def test_what_another_node_finished_is_not_handed_in() -> None:
    async def scene() -> None:
        master, identity, keeper = PlayedMaster(), KeptIdentity(), ReportJournal(None)
        agent = agent_of(master, identity, keeper)
        life = asyncio.create_task(agent.run())
        await lose_the_master(master, life)
        identity.adopt(Identity(node_id="node-2", node_token="other"))
        master.is_away = False
        await asyncio.sleep(9.0)
        assert "succeeded exec-1 sess-1" not in master.said
        assert keeper.waiting() == []
        agent.stop()
        await life

    run_simulated(scene())


def test_as_long_as_the_master_answers_nothing_is_kept() -> None:
    class NoDisk(ReportJournal):
        async def keep(self, node_id: str, batch: ReportBatch) -> None:
            assert not batch.reports

    async def scene() -> None:
        master = PlayedMaster()
        agent = agent_of(master, KeptIdentity(), NoDisk(None))
        life = asyncio.create_task(agent.run())
        await asyncio.sleep(30.0)
        assert "succeeded exec-1 sess-1" in master.said
        agent.stop()
        await life

    run_simulated(scene())


def test_a_node_whose_finished_work_is_not_taken_asks_for_no_more() -> None:
    async def scene() -> None:
        master, keeper = PlayedMaster(), ReportJournal(None, most_bytes=1)
        agent = agent_of(master, KeptIdentity(), keeper)
        life = asyncio.create_task(agent.run())
        await asyncio.sleep(1.0)
        master.is_deaf_to_reports = True
        await asyncio.sleep(10.0)
        asked = len(master.leases)
        await asyncio.sleep(60.0)
        assert len(master.leases) == asked
        master.is_deaf_to_reports = False
        await asyncio.sleep(10.0)
        assert len(master.leases) > asked
        assert master.sessions == 1
        agent.stop()
        await life

    run_simulated(scene())


def test_a_master_that_says_when_to_come_back_is_taken_at_its_word() -> None:
    async def scene() -> None:
        loop = asyncio.get_running_loop()
        master, tries = PlayedMaster(), list[float]()

        def busy() -> None:
            tries.append(loop.time())
            error = MasterUnreachable("too many at once")
            error.retry_after_s = 20.0
            raise error

        master._answer = busy  # type: ignore[method-assign]
        agent = agent_of(master, KeptIdentity(), ReportJournal(None))
        life = asyncio.create_task(agent.run())
        await asyncio.sleep(200.0)
        agent.stop()
        await life
        pauses = [b - a for a, b in pairwise(tries)]
        assert len(pauses) > 5
        assert all(20.0 <= pause <= 30.0 for pause in pauses)
        assert len({round(pause, 2) for pause in pauses}) > 1

    run_simulated(scene())


def test_nodes_come_back_at_different_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """After an outage a fleet must not register as one."""

    async def back_at(seed: int) -> list[float]:
        master = PlayedMaster()
        master.is_away = True
        tries: list[float] = []
        answer = master._answer

        def noted() -> None:
            tries.append(asyncio.get_running_loop().time())
            answer()

        master._answer = noted  # type: ignore[method-assign]
        agent = agent_of(master, KeptIdentity(), ReportJournal(None))
        agent._system = SimulatedSystem(random.Random(seed))
        life = asyncio.create_task(agent.run())
        await asyncio.sleep(60.0)
        agent.stop()
        await life
        return tries

    async def scene() -> None:
        all_tries = await asyncio.gather(*(back_at(seed) for seed in range(20)))
        assert len({round(tries[-1], 2) for tries in all_tries}) > 15
        for tries in all_tries:
            pauses = [b - a for a, b in pairwise(tries)]
            assert max(pauses) <= agent_module.MAX_PAUSE_S * 1.5
            assert pauses[-1] > pauses[0]

    run_simulated(scene())
