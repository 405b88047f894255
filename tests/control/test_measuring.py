"""While items are measured: nobody else waits, no time limit counts, and no master ends by it."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from crawlfleet.adapters.store.memory.store import MemoryStore
from crawlfleet.control import quality as measuring
from crawlfleet.control.tasks.shard_parents import ShardParents
from crawlfleet.errors import StoreUnavailable
from crawlfleet.features.workflows.service import Workflows
from crawlfleet.model.quality import Decision
from crawlfleet.model.task import TaskStatus
from crawlfleet.model.wire.node_protocol import (
    Assignment,
    Report,
    ReportBatch,
    ReportKind,
    ReportOutcome,
)
from crawlfleet.ports.kernel_tables import MEASURED_RUNS, old_measured_runs, surplus_measured_runs
from crawlfleet.ports.tables import Query, equal
from crawlfleet.testing.simulation.clock import run_simulated
from tests.control.stage import PlayedNode, Stage, stage
from tests.control.test_masters import two
from tests.control.test_quality import (
    GOOD,
    POOR,
    PRICES,
    Kept,
    beat,
    crawled,
    expect,
    finish,
    flow,
    newest,
    quality,
)
from tests.features.workflows.test_service import start, states

RECORDED, STALE, LATER = ReportOutcome.RECORDED, ReportOutcome.STALE, ReportOutcome.LATER
STARTED, SUCCEEDED = ReportKind.STARTED, ReportKind.SUCCEEDED


class Slow(Kept):
    """Takes a minute to be read."""

    async def read(self, *names: Any, **options: Any) -> AsyncIterator[bytes]:
        await asyncio.sleep(60)
        async for piece in super().read(*names, **options):
            yield piece


def said(work: Assignment, kind: ReportKind) -> Report:
    return Report(
        execution_id=work.execution_id,
        task_id=work.task_id,
        token=work.token,
        kind=kind,
        at=0.0,
    )


async def tell(
    node: PlayedNode, *reports: Report, knows_later: bool = True
) -> tuple[ReportOutcome, ...]:
    batch = ReportBatch(session_id=node.session_id, reports=reports, knows_later=knows_later)
    return (await node._control.leases.report(node.id, batch)).outcomes


async def two_tasks(on: Stage, node: PlayedNode) -> tuple[Assignment, Assignment]:
    """One that is measured, and one that is not."""
    measured = await on.submit(expectations=PRICES)
    await on.submit()
    one, other = await node.take_all()
    return (one, other) if one.task_id == measured.id else (other, one)


def test_what_is_measured_for_long_holds_up_no_other_report() -> None:
    async def scene() -> None:
        kept: Any = Slow(*GOOD)
        async with stage(output=kept) as on:
            node = await on.node()
            slow, quick = await two_tasks(on, node)
            beating = asyncio.create_task(beat(node, await on.control.tasks.get(slow.task_id)))
            loop = asyncio.get_running_loop()
            began = loop.time()
            reports = (said(slow, STARTED), said(slow, SUCCEEDED), said(quick, SUCCEEDED))
            assert await tell(node, *reports) == (RECORDED, LATER, RECORDED)
            assert loop.time() - began <= measuring.SHORT_WAIT_S + 1
            done = await on.control.tasks.get(quick.task_id)
            assert done.status is TaskStatus.COMPLETED
            again = await tell(node, said(slow, SUCCEEDED))
            while again == (LATER,):
                again = await tell(node, said(slow, SUCCEEDED))
            assert again == (RECORDED,)
            beating.cancel()
            ended = await on.control.tasks.get(slow.task_id)
            assert ended.status is TaskStatus.COMPLETED
            assert kept.reads == 1
            assert ended.result is not None
            # Measuring is not the work of the node.
            assert msgspec.json.decode(ended.result)["metrics"]["processing_time"] < 5

    run_simulated(scene())


def test_of_a_node_that_does_not_know_better_the_rest_is_recorded_before_it_asks_again() -> None:
    async def scene() -> None:
        kept: Any = Slow(*GOOD)
        async with stage(output=kept) as on:
            node = await on.node()
            slow, quick = await two_tasks(on, node)
            beating = asyncio.create_task(beat(node, await on.control.tasks.get(slow.task_id)))
            reports = (said(slow, SUCCEEDED), said(quick, SUCCEEDED))
            with pytest.raises(StoreUnavailable, match="ask again"):
                await tell(node, *reports, knows_later=False)
            done = await on.control.tasks.get(quick.task_id)
            assert done.status is TaskStatus.COMPLETED
            await asyncio.sleep(60)
            assert await tell(node, *reports, knows_later=False) == (RECORDED, STALE)
            beating.cancel()

    run_simulated(scene())


@pytest.mark.parametrize("follower", [False, True])
def test_no_time_limit_counts_while_a_finished_task_is_measured(follower: bool) -> None:
    async def scene() -> None:
        kept: Any = Slow(*GOOD)
        async with two(output=kept) as on:
            await asyncio.sleep(0.1)
            master = on.other if follower else on.one
            assert master.control.leads is not follower
            node = await master.node()
            task = await master.submit(expectations=PRICES, timeout=15)
            await asyncio.sleep(0.1)
            work = await node.take()
            beating = asyncio.create_task(beat(node, task))
            assert await tell(node, said(work, STARTED)) == (RECORDED,)
            await asyncio.sleep(10)
            outcome = await tell(node, said(work, SUCCEEDED))
            while outcome == (LATER,):
                await asyncio.sleep(1)
                outcome = await tell(node, said(work, SUCCEEDED))
            beating.cancel()
            assert outcome == (RECORDED,)
            ended = await master.task(task)
            assert (ended.status, ended.retry_count) == (TaskStatus.COMPLETED, 0)

    run_simulated(scene())


def test_what_a_node_does_not_hold_is_not_measured_for_it() -> None:
    async def scene() -> None:
        kept: Any = Kept(*POOR)
        async with stage(output=kept) as on:
            node = await on.node()
            await on.submit(expectations=PRICES)
            work = await node.take()
            other = await on.node("m")
            assert await tell(other, said(work, SUCCEEDED)) == (STALE,)
            batch = ReportBatch(session_id="sess-none", reports=(said(work, SUCCEEDED),))
            assert (await on.control.leases.report(node.id, batch)).outcomes == (STALE,)
            assert kept.reads == 0

    run_simulated(scene())


def test_a_task_that_expects_something_does_not_end_unmeasured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scene() -> None:
        async with stage() as on:
            node = await on.node()
            task = await on.submit(expectations=PRICES)
            work = await node.take()

            async def nothing(*_: Any, **__: Any) -> dict[str, Any]:
                return {}

            with monkeypatch.context() as patch:
                # As when its lease came to be known after the others were measured.
                patch.setattr(on.control.quality.measuring, "reported", nothing)
                assert await tell(node, said(work, SUCCEEDED)) == (LATER,)
            assert (await on.task(task)).status is not TaskStatus.COMPLETED
            assert await tell(node, said(work, SUCCEEDED)) == (RECORDED,)
            assert quality(await on.task(task))["verdict"]

    run_simulated(scene())


def test_measuring_that_fails_for_a_moment_spoils_nothing() -> None:
    class Failing(MemoryStore):
        broken = True

        async def find(self, query: Query[Any]) -> list[Any]:
            if self.broken and query.table is MEASURED_RUNS:
                raise StoreUnavailable("gone")
            return await super().find(query)

    async def scene() -> None:
        store = Failing()
        async with stage(store) as on:
            node = await on.node()
            task = await on.submit(expectations=expect(series="s", drift={"items": 0.1}))
            work = await node.take()
            assert await tell(node, said(work, SUCCEEDED)) == (LATER,)
            store.broken = False
            assert await tell(node, said(work, SUCCEEDED)) == (RECORDED,)
            assert (await on.task(task)).status is TaskStatus.COMPLETED

    run_simulated(scene())


async def split(on: Stage, node: PlayedNode, task_type: str, **metrics: float) -> Any:
    """A task that was split, after all of its shards ended with these figures."""
    urls = [f"https://h{number}.example/" for number in range(40)]
    parameters = msgspec.Raw(msgspec.json.encode({"urls": urls, "shards": 2}))
    expected = expect(pages={"min": 1})
    task = await on.submit(task_type=task_type, parameters=parameters, expectations=expected)
    await asyncio.sleep(0.1)
    for work in await node.take_all():
        await finish(node, work, {"pages": [], "errors": []}, **metrics)
    await asyncio.sleep(0.1)
    return await on.task(task)


@pytest.mark.parametrize("figure", [1.5e308, 1e300])
def test_figures_that_nobody_can_count_with_end_no_master(figure: float) -> None:
    async def scene() -> None:
        async with stage() as on:
            node = await on.node(slots=9)
            task = await split(on, node, "http_fetch", fetched=figure, failed=figure, items=figure)
            assert task.status is TaskStatus.COMPLETED
            assert (await newest(on, task)).profile.pages is None
            assert task.result is not None
            assert msgspec.json.decode(task.result)["metrics"]["fetched"] >= figure
            sane = await split(on, node, "http_fetch", fetched=3)
            assert (await newest(on, sane)).profile.pages == 6

    run_simulated(scene())


def test_a_split_task_that_cannot_be_gathered_costs_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scene() -> None:
        async with stage() as on:
            node = await on.node(slots=9)

            async def broken(*_: Any) -> Any:
                raise ValueError("a defect")

            with monkeypatch.context() as patch:
                patch.setattr(on.control.quality.measuring, "judge", broken)
                task = await split(on, node, "http_fetch", fetched=3)
                assert task.status is TaskStatus.WAITING
            assert (await split(on, node, "http_fetch", fetched=3)).status is TaskStatus.COMPLETED

    run_simulated(scene())


def test_what_is_heard_of_a_task_while_it_is_measured_is_looked_at_again() -> None:
    class Watched(ShardParents):
        looks = 0

        async def gather(self, parent_id: str, *, measured: bool = False) -> bool:
            self.looks += 1
            if self.looks == 1:
                self._unmeasured[parent_id] = None  # as when a shard ends meanwhile
            if self.looks == 2:
                raise StoreUnavailable("gone")
            return True

    async def scene() -> None:
        nothing: Any = None
        gathering = Watched(store=nothing, state=nothing, system=nothing)
        gathering._unmeasured["task-1"] = None
        with pytest.raises(StoreUnavailable):
            await gathering.measure()
        assert gathering.looks == 2
        await gathering.measure()
        assert gathering.looks == 3

    run_simulated(scene())


def test_what_is_held_stays_held_however_long_it_takes() -> None:
    async def scene() -> None:
        store = MemoryStore()
        async with stage(store) as on:
            node = await on.node(slots=9)
            run = await start(on, flow())
            (task,) = await crawled(on, node, run, [])
            later = on.control.now() + 1e9
            assert await store.remove(old_measured_runs(before=later, limit=9)) == 0
            assert await store.remove(surplus_measured_runs(keep=0, limit=9)) == 0
            # Even if it is lost in some other way.
            lost = MEASURED_RUNS.where(equal("id", (await newest(on, task)).id))
            assert await store.remove(lost) == 1
        async with stage(store, name="second") as on:
            await asyncio.sleep(0.1)
            assert (await states(on, run))["crawl"] == "held"
            plan, rows = await on.control.service(Workflows).standing(run)
            assert "what was measured is gone" in rows[plan.places["crawl"]].reason

    run_simulated(scene())


def test_of_many_held_tasks_only_those_are_read_that_are_named() -> None:
    class Watched(MemoryStore):
        read = 0

        async def find(self, query: Query[Any]) -> list[Any]:
            found = await super().find(query)
            if query.table is MEASURED_RUNS:
                self.read = max(self.read, len(found))
            return found

    async def scene() -> None:
        store = Watched()
        async with stage(store) as on:
            node = await on.node(slots=20)
            run = await start(on, flow(for_each=[*range(12)]))
            tasks = await crawled(on, node, run, [])
            assert len(tasks) == 12
            assert (await states(on, run))["crawl"] == "held"
            assert store.read == 3
            plan, rows = await on.control.service(Workflows).standing(run)
            assert "and 9 more" in rows[plan.places["crawl"]].reason
            await on.control.quality.decide(tasks[7].id, Decision.REJECTED, by="ann")
            await asyncio.sleep(0.1)
            assert (await states(on, run))["crawl"] == "failed"

    run_simulated(scene())
