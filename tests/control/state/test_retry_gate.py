"""What breakers learn from tasks, whose they are, and what is told of them."""

import asyncio
import random
from typing import Any

import msgspec
import pytest

from crawlfleet.adapters.store.memory.store import MemoryStore
from crawlfleet.control.breakers import BreakerEvents
from crawlfleet.control.state.fleet_state import FleetState
from crawlfleet.control.state.retry_gate import CircuitBreakers, HeldTasks, reason_for
from crawlfleet.core.quality.recording import NOT_AS_EXPECTED
from crawlfleet.core.tasks.orders import Verb
from crawlfleet.model.breaker import BreakerState
from crawlfleet.model.quality import Expectations
from crawlfleet.model.settings import BreakerSettings, Settings
from crawlfleet.model.task import ErrorClass, Task, TaskError, TaskStatus
from crawlfleet.testing.simulation.clock import SimulatedSystem, run_simulated
from tests.control.stage import stage
from tests.control.state.test_gate import BREAKING, DOWN, brought_down, told, work

SITE = ("shop", DOWN)
RULES = BreakerSettings(failures=4, tasks=2, window_s=600.0, pause_s=30.0, max_pause_s=900.0)
HOUR = 3600.0


def failed(id: str, at: float, error: ErrorClass = ErrorClass.NETWORK, **fields: Any) -> Task:
    """A task that failed, and is to be tried again."""
    plain: dict[str, Any] = {
        "project_id": "shop",
        "target": DOWN,
        "token": 1,
        "retry_count": 1,
        "error": TaskError(error_class=error, message="it broke"),
        **fields,
    }
    return Task(id=id, task_type="work", created_at=0.0, updated_at=at, **plain)


def changed(task: Task, at: float, **fields: Any) -> Task:
    return msgspec.structs.replace(task, updated_at=at, **fields)


def opened(**settings: Any) -> tuple[CircuitBreakers, HeldTasks]:
    """One that is open from 4 s on, while another task waits."""
    lines = HeldTasks()
    breakers = CircuitBreakers(msgspec.structs.replace(RULES, **settings), lines)
    for number in range(4):
        breakers.note(failed(f"t{number}", 1.0 + number), 1.0 + number)
    lines.put(reason_for(SITE), "waits")
    assert breakers.open[SITE].state is BreakerState.OPEN
    return breakers, lines


def let_through(breakers: CircuitBreakers, lines: HeldTasks, task: Task, at: float) -> Task:
    """The task once it is a node's, as the one that was let through."""
    lines.forget("waits")
    lines.put(reason_for(SITE), task.id)
    assert breakers.due(at) == [task.id]
    lines.forget(task.id)
    lines.put(reason_for(SITE), "waits")
    begun = changed(task, at, status=TaskStatus.PROCESSING, token=task.token + 1)
    breakers.note(begun, at)
    return begun


def test_what_fails_for_one_project_stops_no_other() -> None:
    async def scene() -> None:
        async with stage(breakers=BREAKING) as on:
            node = await on.node(slots=10)
            await brought_down(on, node, project_id="wild")
            held = await on.submit(project_id="wild", target=DOWN)
            free = await on.submit(project_id="calm", target=DOWN)
            await node.pass_time(2)
            assert await work(node) == [free.id]
            orders = on.control.breakers
            ((breaker, waiting),) = orders.page(all=True, project_id="wild")
            assert (breaker.project_id, waiting) == ("wild", 3)
            assert orders.page(all=True, project_id="calm") == []
            # Whoever may close another project's changes nothing for this one.
            await orders.close(DOWN, by="ann", project_id="calm")
            assert len(orders.page(all=False)) == 1
            await orders.close(DOWN, by="ann")
            await asyncio.sleep(1)
            await node.beat()
            assert held.id in await work(node)
            events = [e for e in on.heard.events if e.kind.startswith("breaker.")]
            assert [(e.kind, e.project_id) for e in events] == [
                ("breaker.opened", "wild"),
                ("breaker.closed", "calm"),
                ("breaker.closed", "wild"),
            ]

    run_simulated(scene())


@pytest.mark.parametrize("kind", [ErrorClass.ERROR, ErrorClass.CRASH, ErrorClass.TIMEOUT])
def test_tasks_that_fail_at_something_else_do_not_keep_it_open_for_ever(kind: ErrorClass) -> None:
    breakers, lines = opened()
    at = 4.0
    for number in range(3):
        assert SITE in breakers.open
        at = breakers.open[SITE].retry_at
        begun = let_through(breakers, lines, failed(f"p{number}", at), at)
        breakers.note(
            changed(
                begun,
                at,
                status=TaskStatus.PENDING,
                retry_count=2,
                error=TaskError(error_class=kind, message="it broke"),
            ),
            at,
        )
    assert SITE not in breakers.open
    assert at <= 3 * 30.0 + 4.0
    assert breakers.due(at) == ["waits"]


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({}, ErrorClass.ERROR, f"{NOT_AS_EXPECTED}: no prices"),
        ({"classes": (ErrorClass.NETWORK,)}, ErrorClass.BLOCKED, "forbidden"),
    ],
)
def test_a_failure_that_shows_that_the_site_answers_closes_it(
    settings: dict[str, Any], error: ErrorClass, message: str
) -> None:
    breakers, lines = opened(**settings)
    begun = let_through(breakers, lines, failed("p", 40.0, expectations=Expectations()), 40.0)
    end = TaskError(error_class=error, message=message)
    breakers.note(changed(begun, 41.0, status=TaskStatus.FAILED, error=end), 41.0)
    assert SITE not in breakers.open


@pytest.mark.parametrize("status", [TaskStatus.PENDING, TaskStatus.CANCELLED, TaskStatus.PAUSED])
def test_a_probe_that_is_withdrawn_makes_room_at_once_and_is_no_failure(
    status: TaskStatus,
) -> None:
    breakers, lines = opened()
    # Its error is of an attempt before.
    begun = let_through(breakers, lines, changed(failed("t1", 1.0), 40.0), 40.0)
    breakers.note(changed(begun, 45.0, status=status), 45.0)
    breaker = breakers.open[SITE]
    assert (breaker.state, breaker.failures, breaker.retry_at) == (BreakerState.OPEN, 4, 45.0)
    assert breakers.due(45.0) == ["waits"]


@pytest.mark.parametrize("verb", [Verb.CANCEL, Verb.PAUSE])
def test_a_probe_that_somebody_withdraws_is_followed_by_another(verb: Verb) -> None:
    async def scene() -> None:
        async with stage(breakers=BREAKING) as on:
            node = await on.node(slots=10)
            await brought_down(on, node)
            await on.submit(target=DOWN)
            await node.pass_time(31)
            ((breaker, _),) = on.control.breakers.page(all=False)
            assert breaker.probe is not None
            await on.order(verb, await on.control.tasks.get(breaker.probe))
            await node.pass_time(2)
            ((after, _),) = on.control.breakers.page(all=False)
            assert after.probe not in (None, breaker.probe)

    run_simulated(scene())


def test_a_long_outage_is_found_in_the_tasks_that_wait() -> None:
    breakers = CircuitBreakers(RULES, HeldTasks())
    # All failed when it began; since then one now and then, further apart than the window.
    tasks = [failed("probe", 3 * HOUR), *(failed(f"t{n}", 60.0 + n) for n in range(5))]
    breakers.learn(tasks, 3 * HOUR + 800.0)
    for task in tasks:
        breakers.note(task, 3 * HOUR + 800.0)
    breaker = breakers.open[SITE]
    assert (breaker.failures, breaker.since, breaker.failed_at) == (6, 60.0, 3 * HOUR)


def test_failures_of_an_outage_that_is_over_are_not_found() -> None:
    breakers = CircuitBreakers(RULES, HeldTasks())
    tasks = [failed(f"t{n}", 60.0 + n) for n in range(5)]
    breakers.learn(tasks, 3 * HOUR)
    for task in tasks:
        breakers.note(task, 3 * HOUR)
    assert not breakers.open
    far_apart = [failed(f"f{n}", 4 * HOUR + n * 700.0) for n in range(5)]
    breakers.learn(far_apart, 4 * HOUR + 5 * 700.0)
    assert not breakers.open


def test_one_for_which_nothing_waits_is_forgotten_after_a_while() -> None:
    async def scene() -> None:
        async with stage(breakers=msgspec.structs.replace(BREAKING, window_s=200.0)) as on:
            node = await on.node(slots=10)
            tasks = await brought_down(on, node)
            for task in tasks:
                await on.order(Verb.CANCEL, task)
            await node.pass_time(150)
            assert len(on.control.breakers.page(all=False)) == 1
            await node.pass_time(60)
            assert on.control.breakers.page(all=True) == []
            assert told(on) == ["breaker.opened", "breaker.closed"]

    run_simulated(scene())


def test_what_a_leader_could_not_tell_is_told_by_the_next_and_once() -> None:
    async def scene() -> None:
        store, system = MemoryStore(), SimulatedSystem(random.Random(0))
        await store.open()
        state = FleetState(store=store, system=system, settings=Settings(breakers=BREAKING))
        breakers, now = state.gate.breakers, system.now()
        news = BreakerEvents(store=store, state=state, system=system)

        async def after_take_over() -> list[str]:
            news.begin()
            await news.tell()
            return [event.kind for event in await store.events(after=0, limit=9, subject=DOWN)]

        for number in range(4):
            breakers.note(failed(f"t{number}", now), now)
        breakers.news.clear()  # whoever led had no time to tell
        assert await after_take_over() == ["breaker.opened"]
        assert await after_take_over() == ["breaker.opened"]
        breakers.close(SITE, now, "it answered")
        (closed,) = breakers.news
        assert await after_take_over() == ["breaker.opened", "breaker.closed"]
        # One that hears of it late takes it for news.
        breakers.news.append(closed)
        assert await after_take_over() == ["breaker.opened", "breaker.closed"]

    run_simulated(scene())
