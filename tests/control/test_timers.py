"""What happens because time passes, or because the store does not answer."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from crawlfleet.adapters.store.memory.store import MemoryStore
from crawlfleet.control.leases import dispatch
from crawlfleet.core.tasks.orders import Verb
from crawlfleet.errors import StoreUnavailable
from crawlfleet.model.change import Change
from crawlfleet.model.settings import RecoverySettings, RetentionSettings
from crawlfleet.model.task import ErrorClass, RetryPolicy, TaskStatus
from crawlfleet.model.wire.node_protocol import ReportKind
from crawlfleet.ports.store import Committed
from crawlfleet.testing.simulation.clock import run_simulated
from tests.control.stage import stage


def test_a_silent_node_loses_its_work_after_the_timeout_and_not_before() -> None:
    async def scene() -> None:
        async with stage() as on:
            node = await on.node()
            task = await on.submit()
            await node.take()
            await asyncio.sleep(11)
            await node.beat(task.id)
            await asyncio.sleep(11)
            assert (await on.task(task)).status is TaskStatus.ASSIGNED
            await asyncio.sleep(2)
            assert (await on.task(task)).status is TaskStatus.PENDING
            assert on.control.nodes.get(node.id).status == "unresponsive"

    run_simulated(scene())


def test_after_a_restart_of_the_master_every_node_gets_a_full_timeout_to_be_heard() -> None:
    async def scene() -> None:
        store = MemoryStore()
        async with stage(store) as on:
            node = await on.node()
            task = await on.submit()
            await node.take()
        await asyncio.sleep(3600)
        async with stage(store) as on:
            await asyncio.sleep(10)
            assert (await on.task(task)).status is TaskStatus.ASSIGNED
            await asyncio.sleep(10)
            assert (await on.task(task)).status is TaskStatus.PENDING

    run_simulated(scene())


def test_after_a_restart_of_the_master_finished_work_may_come_after_its_time_limit() -> None:
    async def scene() -> None:
        store = MemoryStore()
        settings = RecoverySettings(timeout_grace_s=5.0)
        async with stage(store, recovery=settings) as on:
            node = await on.node()
            handed_in = await on.submit(timeout=30.0, max_retries=0)
            missing = await on.submit(timeout=30.0, max_retries=0)
            assignments = await node.take_all()
            for each in assignments:
                await node.report(each, ReportKind.STARTED)
        await asyncio.sleep(300)
        async with stage(store, recovery=settings) as on:
            node.turn_to(on)
            await asyncio.sleep(5)
            first = next(each for each in assignments if each.task_id == handed_in.id)
            assert await node.report(first, ReportKind.SUCCEEDED) == ["recorded"]
            assert (await on.task(missing)).status is TaskStatus.PROCESSING
            await asyncio.sleep(20)
            assert (await on.task(handed_in)).status is TaskStatus.COMPLETED
            assert (await on.task(missing)).status is not TaskStatus.PROCESSING

    run_simulated(scene())


def test_a_failed_attempt_waits_before_it_is_tried_again() -> None:
    async def scene() -> None:
        async with stage() as on:
            node = await on.node()
            await on.submit(retry_policy=RetryPolicy(initial_delay_s=5.0, jitter=0.0))
            assignment = await node.take()
            await node.report(assignment, ReportKind.FAILED, error=ErrorClass.ERROR)
            assert (await node.lease(wait_s=4.5)).assignments == ()
            assert len((await node.lease(wait_s=1.0)).assignments) == 1

    run_simulated(scene())


def test_a_time_limit_that_the_node_does_not_enforce_is_enforced_by_the_master() -> None:
    async def scene() -> None:
        async with stage(recovery=RecoverySettings(timeout_grace_s=5.0)) as on:
            node = await on.node()
            task = await on.submit(timeout=2.0, max_retries=0)
            assignment = await node.take()
            await node.report(assignment, ReportKind.STARTED)
            await asyncio.sleep(6)
            assert (await on.task(task)).status is TaskStatus.PROCESSING
            await asyncio.sleep(2)
            assert (await on.task(task)).status is TaskStatus.TIMEOUT
            assert (await node.lease(assignment)).stop

    run_simulated(scene())


@pytest.mark.slow
@pytest.mark.parametrize("by_s", [3_600.0, -3_600.0])
def test_clock_that_is_set_ends_no_task_and_no_session_early_or_late(by_s: float) -> None:
    async def scene() -> None:
        async with stage() as on:
            node = await on.node()
            task = await on.submit(timeout=160, max_retries=0)
            work = await node.take()
            await node.report(work, ReportKind.STARTED)
            await node.pass_time(20)
            on.control.system.set_by_s += by_s  # type: ignore[attr-defined]
            await node.pass_time(120)
            assert (await on.task(task)).status is TaskStatus.PROCESSING
            await node.pass_time(60)
            assert (await on.task(task)).status is TaskStatus.TIMEOUT

    run_simulated(scene())


def test_task_that_runs_while_the_clock_is_set_and_the_master_restarted_is_not_ended() -> None:
    async def scene() -> None:
        store = MemoryStore()
        async with stage(store) as on:
            node = await on.node()
            task = await on.submit(timeout=160, max_retries=0)
            work = await node.take()
            await node.report(work, ReportKind.STARTED)
            await node.pass_time(20)
        async with stage(store, skew_s=3_600.0) as on:
            node.turn_to(on)
            await node.pass_time(120)
            assert (await on.task(task)).status is TaskStatus.PROCESSING
            await node.pass_time(60)
            assert (await on.task(task)).status is TaskStatus.TIMEOUT

    run_simulated(scene())


def test_finished_tasks_are_removed_when_they_are_old() -> None:
    async def scene() -> None:
        retention = RetentionSettings(tasks_days=1, events_days=1)
        async with stage(retention=retention) as on:
            kept = await on.submit()
            gone = await on.submit()
            await on.order(Verb.CANCEL, gone)
            await asyncio.sleep(95_000)
            assert await on.store.tasks([gone.id]) == []
            assert await on.store.tasks([kept.id]) == [kept]

    run_simulated(scene())


def test_an_idle_fleet_plans_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> int:
        plans = 0
        plan = dispatch.plan

        def counted(*args: Any, **fields: Any) -> Any:
            nonlocal plans
            plans += 1
            return plan(*args, **fields)

        monkeypatch.setattr(dispatch, "plan", counted)
        async with stage() as on:
            node = await on.node()
            for _ in range(1000):
                await asyncio.sleep(3)
                await node.beat()
        return plans

    assert run_simulated(scene()) == 0


class MoodyStore(MemoryStore):
    """Sometimes fails, and does not say whether it did the work."""

    fails_before = fails_after = False

    async def commit(self, changes: Sequence[Change]) -> Committed:
        if self.fails_before:
            self.fails_before = False
            raise StoreUnavailable("the disk is away")
        committed = await super().commit(changes)
        if self.fails_after:
            self.fails_after = False
            raise StoreUnavailable("the disk is away")
        return committed


@pytest.mark.parametrize("mood", ["fails_before", "fails_after"])
def test_a_commit_with_an_unknown_outcome_is_cleared_up_from_the_store(mood: str) -> None:
    async def scene() -> None:
        store = MoodyStore()
        async with stage(store) as on:
            node = await on.node()
            setattr(store, mood, True)
            with pytest.raises(StoreUnavailable):
                await on.submit(idempotency_key="once")
            await asyncio.sleep(2)
            task = await on.submit(idempotency_key="once")
            assignment = await node.take()
            assert assignment.task_id == task.id
            await node.report(assignment, ReportKind.SUCCEEDED)
            assert (await on.task(task)).status is TaskStatus.COMPLETED
            assert await on.store.count_tasks() == {TaskStatus.COMPLETED: 1}

    run_simulated(scene())


def test_events_are_carried_in_order_and_again_after_a_crash() -> None:
    async def scene() -> None:
        store = MemoryStore()
        async with stage(store) as on:
            for _ in range(3):
                await on.submit()
            await asyncio.sleep(0.1)
            first = [event.seq for event in on.heard.events]
            assert first == sorted(first)
            assert len(first) == 3
        async with stage(store) as on:
            await on.submit()
            await asyncio.sleep(2)
            assert on.heard.events[-1].seq == first[-1] + 1

    run_simulated(scene())
