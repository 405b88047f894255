"""Quotas of projects: refused, held back, explained, and never more than live leases hold."""

import asyncio
import os

import pytest

from crawlfleet.core.placement import fair_share
from crawlfleet.core.placement.tenancy import Tenancy
from crawlfleet.errors import Conflict, InvalidRequest
from crawlfleet.model.admin_requests import QuotaPatch
from crawlfleet.model.quota import Allowance, Over
from crawlfleet.model.requests import TaskRequest
from crawlfleet.model.wire.node_protocol import ReportKind
from crawlfleet.testing.simulation import Scenario, Violation, simulate
from crawlfleet.testing.simulation.clock import run_simulated
from tests.control.stage import Stage, stage

ALLOWANCES = (
    Allowance(running=2),
    Allowance(cpu_cores=3, weight=4),
    Allowance(memory_mb=2048, waiting=20, over=Over.REJECT),
    Allowance(),
)
SEEDS = 60 if os.environ.get("CRAWLFLEET_SOAK") else 3


async def limit(on: Stage, **fields: object) -> None:
    await on.control.projects.set_quotas("default", QuotaPatch(**fields), by="test")  # type: ignore[arg-type]


def test_beyond_the_quota_tasks_wait_and_explain_says_by_how_much() -> None:
    async def scene() -> None:
        async with stage() as on:
            node = await on.node(slots=4)
            await limit(on, running=1)
            first, second = await on.submit(), await on.submit()
            assignment = await node.take()
            assert assignment.task_id == first.id
            why = await on.control.queries.explain(second.id)
            (held,) = why.quotas
            assert (held.quota, held.use, held.needs, held.limit) == ("running", 1, 1, 1)
            assert "1 of 1 running tasks are used" in why.summary
            with pytest.raises(Conflict, match="quotas of the project 'default'"):
                await on.control.assigning.assign(second.id, node.id, by="test")
            await node.report(assignment, ReportKind.STARTED, ReportKind.SUCCEEDED)
            assert (await node.take()).task_id == second.id

    run_simulated(scene())


def test_a_raised_limit_lets_waiting_tasks_go_on() -> None:
    async def scene() -> None:
        async with stage() as on:
            node = await on.node(slots=4)
            await limit(on, running=0)
            task = await on.submit()
            assert (await node.lease()).assignments == ()
            await limit(on, running=None)
            assert (await node.take()).task_id == task.id

    run_simulated(scene())


def test_over_the_quota_of_waiting_tasks_nothing_is_taken_and_nothing_changed() -> None:
    async def scene() -> None:
        async with stage() as on:
            await limit(on, waiting=3)
            outcomes = await on.control.tasks.submit_batch(
                [TaskRequest(task_type="work") for _ in range(5)], by="test"
            )
            assert [each.task is not None for each in outcomes] == [True] * 3 + [False] * 2
            assert "'default' is at its quota waiting: 3 of 3" in outcomes[-1].conflict
            counts = await on.store.count_tasks("default")
            assert sum(counts.values()) == 3

    run_simulated(scene())


def test_submissions_at_the_same_moment_do_not_exceed_a_quota_together() -> None:
    async def scene() -> None:
        async with stage() as on:
            await limit(on, waiting=5)
            requests = [[TaskRequest(task_type="work")] * 2 for _ in range(10)]
            made = await asyncio.gather(
                *(on.control.tasks.submit_batch(each, by="test") for each in requests)
            )
            assert sum(each.task is not None for outcomes in made for each in outcomes) == 5

    run_simulated(scene())


def test_a_request_that_is_repeated_gets_its_task_whatever_the_quota() -> None:
    async def scene() -> None:
        async with stage() as on:
            await limit(on, waiting=1)
            request = TaskRequest(task_type="work", idempotency_key="once")
            first = await on.control.tasks.submit(request, by="test")
            again = await on.control.tasks.submit(request, by="test")
            assert (again.created, again.task) == (False, first.task)
            with pytest.raises(Conflict, match="quota waiting"):
                await on.control.tasks.submit(TaskRequest(task_type="work"), by="test")

    run_simulated(scene())


def test_a_project_that_rejects_counts_what_waits_as_taken() -> None:
    async def scene() -> None:
        async with stage() as on:
            await limit(on, cpu_cores=4, over=Over.REJECT)
            big = TaskRequest(task_type="work", min_resources={"cpu": 3})
            await on.control.tasks.submit(big, by="test")
            with pytest.raises(Conflict, match="quota cpu_cores: 3 of 4 CPU cores are used"):
                await on.control.tasks.submit(big, by="test")
            await limit(on, over=Over.QUEUE)
            await on.control.tasks.submit(big, by="test")
            with pytest.raises(Conflict, match="ask for less"):
                await on.control.tasks.submit(
                    TaskRequest(task_type="work", min_resources={"cpu": 5}), by="test"
                )

    run_simulated(scene())


def test_labels_of_kept_nodes_are_checked() -> None:
    async def scene() -> None:
        async with stage() as on:
            with pytest.raises(InvalidRequest, match=r"nodes\."):
                await limit(on, nodes={"not a name!": "x"})

    run_simulated(scene())


def simulate_all(scenario: Scenario) -> None:
    for seed in range(SEEDS):
        assert simulate(seed, scenario).by_status["completed"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("masters", [1, 2])
def test_no_quota_is_exceeded_and_use_equals_leases_whatever_fails(masters: int) -> None:
    simulate_all(Scenario(masters=masters, tasks=80, allowances=ALLOWANCES))


@pytest.mark.slow
def test_the_simulation_notices_a_lease_that_is_not_given_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Tenancy, "give_back", lambda *_: None)
    with pytest.raises(Violation, match="live leases, the master thinks"):
        simulate_all(Scenario(tasks=40, allowances=(Allowance(),)))


@pytest.mark.slow
def test_the_simulation_notices_a_quota_that_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fair_share, "room_for", lambda *_: fair_share.UNBOUNDED)
    with pytest.raises(Violation, match="more than its quota"):
        simulate_all(Scenario(tasks=60, allowances=ALLOWANCES))
