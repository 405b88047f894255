"""What is counted: each commit once, by what it means, and forgotten after an hour."""

import asyncio

from crawlfleet.control.state.counters import Counters, Distribution, Happening
from crawlfleet.core.tasks.orders import Verb
from crawlfleet.model.change import Change
from crawlfleet.model.task import ErrorClass, RetryPolicy, Task
from crawlfleet.model.wire.node_protocol import ReportKind
from crawlfleet.testing.simulation.clock import run_simulated
from tests.control.stage import stage


def made(count: int) -> list[Change]:
    task = Task(id="task-1", project_id="p", task_type="t", created_at=0, updated_at=0)
    return [Change(tasks=(task,))] * count


def test_a_window_holds_what_happened_in_it() -> None:
    tally = Counters(since=0)
    tally.count(made(2), at=100.5)
    tally.count(made(3), at=100.9)
    tally.count(made(1), at=160.0)

    assert tally.within(60, now=160.2)[0] == {Happening.SUBMITTED: 6}
    assert tally.within(30, now=160.2)[0] == {Happening.SUBMITTED: 1}
    assert tally.totals == {Happening.SUBMITTED: 6}


def test_an_hour_is_remembered_and_no_more() -> None:
    tally = Counters(since=0)
    for second in range(10_000):
        tally.count(made(1), at=float(second))

    assert tally.within(1e9, now=9_999.0)[0][Happening.SUBMITTED] == 3_601
    assert tally.totals[Happening.SUBMITTED] == 10_000


def test_a_distribution_puts_a_value_under_the_first_bound_that_holds_it() -> None:
    distribution = Distribution([1, 5])
    for value in (0.5, 1, 3, 5, 7):
        distribution.observe(value)

    assert distribution.counts == [2, 2, 1]
    assert distribution.sum == 16.5


def test_the_life_of_tasks_is_counted() -> None:
    async def scene() -> None:
        async with stage() as on:
            node = await on.node()
            await on.submit()
            failing = await on.submit(retry_policy=RetryPolicy(initial_delay_s=0.0))
            good, bad = (await node.lease()).assignments
            if good.task_id == failing.id:
                good, bad = bad, good
            await node.report(good, ReportKind.STARTED, ReportKind.SUCCEEDED)
            await node.report(bad, ReportKind.FAILED, error=ErrorClass.NETWORK)
            await asyncio.sleep(1)
            await on.order(Verb.CANCEL, failing)

            found = await on.control.queries.statistics()
            minute = found.throughput["minute"]
            assert (minute.submitted, minute.assigned) == (2, 3)
            assert (minute.completed, minute.failed, minute.cancelled) == (1, 0, 1)
            assert found.failures == {"network": 1}
            assert found.nodes == {"online": 1}
            assert found.tasks == {"completed": 1, "cancelled": 1}

    run_simulated(scene())


def test_the_age_of_what_waits_is_told() -> None:
    async def scene() -> None:
        async with stage() as on:
            assert (await on.control.queries.statistics()).oldest_ready_s is None
            task = await on.submit()
            await asyncio.sleep(7)
            await on.submit()
            assert (await on.control.queries.statistics()).oldest_ready_s == 7.0
            await on.order(Verb.CANCEL, task)
            assert (await on.control.queries.statistics()).oldest_ready_s == 0.0

    run_simulated(scene())
