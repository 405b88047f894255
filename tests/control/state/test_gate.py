"""Tasks whose time has come and that wait all the same: for a site that is down, or for the budget
of retries. They cost nothing meanwhile, and none is lost."""

import asyncio
from typing import Any

import msgspec
import pytest

from crawlfleet.adapters.store.memory.store import MemoryStore
from crawlfleet.core.tasks.orders import Verb
from crawlfleet.errors import InvalidRequest
from crawlfleet.model.breaker import BreakerState
from crawlfleet.model.event import Event
from crawlfleet.model.settings import BreakerSettings, RecoverySettings
from crawlfleet.model.task import ErrorClass, RetryPolicy, Task, TaskStatus
from crawlfleet.model.wire.node_protocol import ReportKind
from crawlfleet.testing.simulation.clock import run_simulated
from crawlfleet.testing.simulation.shared import SharedMemory
from tests.control.stage import PlayedNode, Stage, stage
from tests.control.test_masters import two

DOWN = "down.example"
BREAKING = BreakerSettings(failures=4, tasks=2, pause_s=30.0, max_pause_s=120.0)
PATIENT = RetryPolicy(initial_delay_s=1.0, factor=1.0, jitter=0.0)


async def work(node: PlayedNode, error: ErrorClass | None = None, *, most: int = 1000) -> list[str]:
    """Let a node do all that it is given; with an error, fail at it. Which tasks these were."""
    done = []
    while len(done) < most:
        reply = await node.lease(wait_s=0.01)
        if not reply.assignments:
            break
        for given in reply.assignments:
            end = ReportKind.FAILED if error else ReportKind.SUCCEEDED
            await node.report(given, ReportKind.STARTED, end, error=error)
            done.append(given.task_id)
    return done


async def brought_down(on: Stage, node: PlayedNode, **fields: Any) -> list[Task]:
    """Tasks that failed at a site until it was taken for down."""
    tasks = [
        await on.submit(target=DOWN, max_retries=50, retry_policy=PATIENT, **fields)
        for _ in range(2)
    ]
    for _ in range(2):
        await node.pass_time(1.5)
        await work(node, ErrorClass.NETWORK)
    await asyncio.sleep(0.1)
    assert state_of(on) is BreakerState.OPEN
    return tasks


def state_of(on: Stage) -> BreakerState | None:
    found = {each.target: each.state for each, _ in on.control.breakers.page(all=True)}
    return found.get(DOWN)


def told(on: Stage) -> list[str]:
    return [each.kind for each in on.heard.events if each.kind.startswith("breaker.")]


def test_tasks_for_a_site_that_is_down_wait_and_burn_no_attempts() -> None:
    async def scene() -> None:
        async with stage(breakers=BREAKING) as on:
            node = await on.node(slots=10)
            tasks = await brought_down(on, node)
            later = [await on.submit(target=DOWN) for _ in range(5)]
            free = await on.submit()
            other = await on.submit(target="up.example")
            careless = await on.submit(target=DOWN, breaker=False)
            await node.pass_time(5)
            assert {*await work(node)} == {free.id, other.id, careless.id}
            for task in (*tasks, *later):
                seen = await on.task(task)
                assert seen.status is TaskStatus.PENDING
                assert seen.retry_count <= 2
            explained = await on.control.queries.explain(later[0].id)
            assert DOWN in explained.summary
            assert "crawlfleet breakers close" in explained.summary
            assert explained.ready_at is not None
            assert told(on) == ["breaker.opened"]
            ((breaker, waiting),) = on.control.breakers.page(all=False)
            assert (breaker.failures, waiting) == (4, 7)

    run_simulated(scene())


def test_one_task_is_let_through_after_the_pause_and_its_success_lets_all_go_on() -> None:
    async def scene() -> None:
        async with stage(breakers=BREAKING) as on:
            node = await on.node(slots=10)
            await brought_down(on, node)
            for _ in range(5):
                await on.submit(target=DOWN)
            for pause_s in (30.0, 60.0, 120.0):
                await node.pass_time(pause_s - 5)
                assert await work(node) == []
                await node.pass_time(5.5)
                assert state_of(on) is BreakerState.PROBING
                assert len(await work(node, ErrorClass.NETWORK)) == 1
                await asyncio.sleep(0.1)
                assert state_of(on) is BreakerState.OPEN
            await node.pass_time(121)
            assert len(await work(node, most=1)) == 1
            await asyncio.sleep(2)
            assert state_of(on) is None
            await node.beat()
            assert len(await work(node)) == 6
            assert told(on) == ["breaker.opened", "breaker.closed"]
            assert not on.control.state.gate.lines

    run_simulated(scene())


def test_what_waits_is_planned_for_once_and_not_again_and_again() -> None:
    async def scene() -> None:
        async with stage(breakers=BREAKING) as on:
            node = await on.node(slots=10)
            queued = [await on.submit(target=DOWN, node_type="none") for _ in range(20)]
            await brought_down(on, node)
            state = on.control.state
            # They were ready before: nobody looks at them until a plan would place them.
            assert all(task.id in state.queue for task in queued)
            many = [await on.submit(target=DOWN) for _ in range(200)]
            await asyncio.sleep(1)
            assert not any(task.id in state.queue for task in many)
            assert state.gate.counts() == {"breaker": 202, "retry_budget": 0}
            assert on.control.quotas.use("default").waiting == 222
            for task in many[:150]:
                await on.order(Verb.CANCEL, task)
            assert state.gate.counts()["breaker"] == 52

    run_simulated(scene())


def test_what_was_ready_before_is_held_back_when_it_would_be_placed() -> None:
    async def scene() -> None:
        async with stage(breakers=BREAKING) as on:
            node = await on.node(slots=2)
            await on.submit(target=DOWN, max_retries=50, retry_policy=PATIENT)
            await on.submit(target=DOWN, max_retries=50, retry_policy=PATIENT)
            held = [await on.submit(target=DOWN, priority=1) for _ in range(30)]
            free = await on.submit(priority=1)
            for _ in range(3):
                await node.beat()
                await work(node, ErrorClass.NETWORK, most=2)
                await asyncio.sleep(0.1)
                if state_of(on) is BreakerState.OPEN:
                    break
            assert state_of(on) is BreakerState.OPEN
            done = await work(node, ErrorClass.NETWORK)
            assert free.id in done
            # Only what was under way by then.
            assert len({task.id for task in held} & {*done}) <= 2
            assert state_of(on) is BreakerState.OPEN

    run_simulated(scene())


def test_somebody_may_close_it_by_hand_at_any_master() -> None:
    async def scene() -> None:
        async with two(breakers=BREAKING) as on:
            node = await on.one.node(slots=10)
            await brought_down(on.one, node)
            waiting = [await on.one.submit(target=DOWN) for _ in range(3)]
            await asyncio.sleep(2)
            assert state_of(on.other) is BreakerState.OPEN
            await on.other.control.breakers.close(DOWN, by="ann")
            await asyncio.sleep(2)
            assert state_of(on.one) is None
            await node.beat()
            assert {task.id for task in waiting} <= {*await work(node)}
            closed = [e for e in on.one.heard.events if e.kind == "breaker.closed"]
            assert [event.cause for event in closed] == ["closed by ann"]

    run_simulated(scene())


def test_a_new_leader_knows_what_is_down_from_the_tasks() -> None:
    async def scene() -> None:
        settings = BreakerSettings(failures=2, tasks=2, pause_s=30.0)
        shared = SharedMemory(MemoryStore())
        async with stage(shared.seat(), name="one", breakers=settings) as on:
            node = await on.node(slots=10)
            tasks = [
                await on.submit(
                    target=DOWN, max_retries=9, retry_policy=RetryPolicy(initial_delay_s=5.0)
                )
                for _ in range(3)
            ]
            await asyncio.sleep(0.1)
            await work(node, ErrorClass.NETWORK)
            assert state_of(on) is BreakerState.OPEN
        async with stage(shared.seat(), name="next", breakers=settings) as on:
            assert state_of(on) is BreakerState.OPEN
            node.turn_to(on)
            await node.pass_time(10)
            assert await work(node) == []
            await node.pass_time(30)
            done = []
            for _ in range(5):
                done += await work(node)
                await asyncio.sleep(1)
            assert {*done} == {task.id for task in tasks}

    run_simulated(scene())


@pytest.mark.parametrize("verb", [Verb.CANCEL, Verb.PAUSE])
def test_a_probe_that_tells_nothing_makes_room_for_another(verb: Verb) -> None:
    async def scene() -> None:
        async with stage(breakers=BREAKING) as on:
            node = await on.node(slots=10)
            await brought_down(on, node)
            for _ in range(5):
                await on.submit(target=DOWN)
            await node.pass_time(31)
            ((breaker, _),) = on.control.breakers.page(all=False)
            assert breaker.probe is not None
            probe = await on.control.tasks.get(breaker.probe)
            await on.order(verb, probe)
            await node.pass_time(35)
            ((breaker, _),) = on.control.breakers.page(all=False)
            assert breaker.probe not in (None, probe.id)

    run_simulated(scene())


def test_errors_that_do_not_speak_against_the_site_are_not_counted() -> None:
    async def scene() -> None:
        async with stage(breakers=BREAKING) as on:
            node = await on.node(slots=10)
            for _ in range(10):
                await on.submit(target=DOWN, max_retries=0)
            await asyncio.sleep(0.1)
            assert len(await work(node, ErrorClass.ERROR)) == 10
            assert state_of(on) is None

    run_simulated(scene())


def test_a_success_between_failures_begins_the_count_anew() -> None:
    async def scene() -> None:
        async with stage(breakers=BREAKING) as on:
            node = await on.node(slots=1)
            for number in range(12):
                await on.submit(target=DOWN, max_retries=0)
                await asyncio.sleep(0.1)
                await work(node, None if number % 3 == 2 else ErrorClass.NETWORK)
            assert state_of(on) is None

    run_simulated(scene())


def test_targets_come_from_the_addresses_of_a_task() -> None:
    async def scene() -> None:
        async with stage() as on:
            raw = msgspec.Raw(b'{"url": "https://www.shop.example/a"}')
            assert (await on.submit(parameters=raw)).target == "shop.example"
            assert (await on.submit(parameters=raw, target="cdn.example")).target == "cdn.example"
            assert (await on.submit(parameters=raw, breaker=False)).target is None
            assert (await on.submit()).target is None
            with pytest.raises(InvalidRequest):
                await on.submit(target="No Host")

    run_simulated(scene())


TIGHT = RecoverySettings(retry_share=0.1, retry_floor=5, fleet_retry_floor=8, retry_window_s=60.0)


def test_retries_beyond_the_budget_wait_and_none_is_lost() -> None:
    async def scene() -> None:
        async with stage(recovery=TIGHT) as on:
            node = await on.node(slots=100)
            policy = RetryPolicy(initial_delay_s=0.0, jitter=0.0)
            tasks = [await on.submit(max_retries=9, retry_policy=policy) for _ in range(50)]
            await asyncio.sleep(0.1)
            failed = await work(node, ErrorClass.ERROR)
            # Fifty first attempts, a tenth of which and five more may be tried again.
            assert len(failed) == 50 + 10
            held = [task for task in tasks if task.id in on.control.state.gate.lines]
            assert len(held) == 50
            explained = await on.control.queries.explain(held[-1].id)
            assert "has retried enough" in explained.summary
            assert "costs the task nothing" in explained.summary
            assert (await on.task(held[-1])).status is TaskStatus.PENDING
            done: list[str] = []
            for _ in range(40):
                await node.pass_time(30)
                done += await work(node)
            assert {*done} == {task.id for task in tasks}
            assert not on.control.state.gate.lines

    run_simulated(scene())


def test_first_attempts_and_lost_nodes_never_wait_for_the_budget() -> None:
    async def scene() -> None:
        async with stage(recovery=TIGHT) as on:
            node = await on.node(slots=100)
            for _ in range(60):
                await on.submit()
            await asyncio.sleep(0.1)
            assert len(await node.take_all()) == 60
            await on.control.leases.end_session(node.session_id, cause="gone")
            other = await on.node("other", slots=100)
            await asyncio.sleep(0.5)
            assert len(await other.take_all()) == 60

    run_simulated(scene())


def test_the_budget_of_one_project_is_not_that_of_another() -> None:
    async def scene() -> None:
        async with stage(recovery=TIGHT) as on:
            node = await on.node(slots=100)
            policy = RetryPolicy(initial_delay_s=0.0, jitter=0.0)
            for _ in range(20):
                await on.submit(project_id="wild", max_retries=9, retry_policy=policy)
            await asyncio.sleep(0.1)
            await work(node, ErrorClass.ERROR)
            calm = await on.submit(project_id="calm", max_retries=9, retry_policy=policy)
            await asyncio.sleep(0.1)
            assert await work(node, ErrorClass.ERROR, most=1) == [calm.id]
            await asyncio.sleep(0.1)
            assert await work(node) == [calm.id]

    run_simulated(scene())


def test_without_a_budget_everything_is_tried_again_at_once() -> None:
    async def scene() -> None:
        async with stage(recovery=RecoverySettings(retry_budget=False, retry_floor=1)) as on:
            node = await on.node(slots=100)
            policy = RetryPolicy(initial_delay_s=0.0, jitter=0.0)
            for _ in range(50):
                await on.submit(max_retries=3, retry_policy=policy)
            await asyncio.sleep(0.1)
            assert len(await work(node, ErrorClass.ERROR)) == 200

    run_simulated(scene())


def test_events_of_breakers_have_what_alerts_and_webhooks_need() -> None:
    async def scene() -> None:
        async with stage(breakers=BREAKING) as on:
            node = await on.node(slots=10)
            await brought_down(on, node)
            (event,) = [e for e in on.heard.events if e.kind == "breaker.opened"]
            assert isinstance(event, Event)
            assert event.subject == DOWN
            assert event.details["failures"] == 4

    run_simulated(scene())
