"""What projects use: counted once, held to quotas, told over time."""

import asyncio

import pytest

from crawlfleet.adapters.store.memory.store import MemoryStore
from crawlfleet.control import usage
from crawlfleet.errors import Conflict
from crawlfleet.features.bundles.service import Bundles
from crawlfleet.model.admin_requests import QuotaPatch
from crawlfleet.model.settings import RetentionSettings
from crawlfleet.model.usage import DAY_S, HOUR_S, UsageHour
from crawlfleet.model.wire.node_protocol import Assignment, Report, ReportBatch, ReportKind
from crawlfleet.ports.kernel_tables import usage_between
from crawlfleet.testing.simulation.clock import EPOCH, run_simulated
from crawlfleet.testing.simulation.shared import SharedMemory
from tests.control.stage import PlayedNode, Stage, stage

MIDNIGHT = (EPOCH // DAY_S + 1) * DAY_S


async def limit(on: Stage, **fields: object) -> None:
    await on.control.projects.set_quotas("default", QuotaPatch(**fields), by="test")  # type: ignore[arg-type]


async def finish(on: Stage, node: PlayedNode, work: Assignment, **metrics: float) -> None:
    report = Report(
        execution_id=work.execution_id,
        task_id=work.task_id,
        token=work.token,
        kind=ReportKind.SUCCEEDED,
        at=0.0,
        metrics=metrics,
        ran_s=0.5,
    )
    batch = ReportBatch(session_id=node.session_id, reports=(report,))
    # Sent again, it is no news.
    for _ in range(2):
        await on.control.leases.report(node.id, batch)


async def crawl(on: Stage, node: PlayedNode, pages: int) -> None:
    await on.submit(task_type="web_crawl")
    work = await node.take()
    await asyncio.sleep(0.5)
    await finish(on, node, work, pages_crawled=pages, cpu_s=0.25)


async def today(on: Stage) -> UsageHour:
    now = on.control.now()
    (row,) = await on.control.metering.report(since=now, until=now, step_s=DAY_S)
    return row


def test_a_report_is_counted_once_and_survives_the_master() -> None:
    async def scene() -> None:
        store = MemoryStore()
        async with stage(store) as on:
            node = await on.node()
            await crawl(on, node, 30)
            await crawl(on, node, 12)
            assert on.control.quotas.use("default").pages_per_day == 42
        async with stage(store) as on:
            assert on.control.quotas.use("default").pages_per_day == 42
            row = await today(on)
            assert (row.submitted, row.completed, row.attempts) == (2, 2, 2)
            assert (row.pages, row.cpu_s, row.run_s) == (42, 0.5, 1.0)

    run_simulated(scene())


def test_when_the_pages_of_the_day_are_used_up_crawls_wait_until_midnight() -> None:
    async def scene() -> None:
        async with stage(skew_s=MIDNIGHT - EPOCH - 20.0) as on:
            node = await on.node()
            await limit(on, pages_per_day=100)
            await crawl(on, node, 99)
            # What begins while there is something left goes on to its end.
            await crawl(on, node, 50)
            waits = await on.submit(task_type="web_crawl")
            other = await on.submit(task_type="work")
            work = await node.take()
            assert work.task_id == other.id
            await finish(on, node, work)
            assert (await node.lease()).assignments == ()
            why = await on.control.queries.explain(waits.id)
            (held,) = why.quotas
            assert (held.quota, held.use, held.limit) == ("pages_per_day", 149, 100)
            assert held.until is not None
            assert held.until.timestamp() == MIDNIGHT
            assert f"It goes on at {held.until:%Y-%m-%d} 00:00 UTC" in why.summary
            await asyncio.sleep(MIDNIGHT - on.control.now() - 3.0)
            node = await on.node("another")
            assert (await node.lease(wait_s=2.0)).assignments == ()
            await asyncio.sleep(MIDNIGHT - on.control.now() + 0.1)
            assert (await node.take()).task_id == waits.id
            assert on.control.quotas.use("default").pages_per_day == 0

    run_simulated(scene())


def test_a_project_that_rejects_refuses_crawls_and_takes_other_tasks() -> None:
    async def scene() -> None:
        async with stage() as on:
            node = await on.node()
            await limit(on, pages_per_day=10, over="reject")
            await crawl(on, node, 10)
            with pytest.raises(Conflict, match=r"pages_per_day: 10 of 10 .*wait until .* 00:00"):
                await on.submit(task_type="web_crawl")
            await on.submit(task_type="work")
            await limit(on, pages_per_day=11)
            await on.submit(task_type="web_crawl")

    run_simulated(scene())


def test_a_master_hears_of_pages_that_another_counted() -> None:
    async def scene() -> None:
        shared = SharedMemory(MemoryStore(), delay_s=lambda: 0.1)
        async with stage(shared.seat()) as one, stage(shared.seat()) as two:
            await limit(one, pages_per_day=10)
            node = await one.node()
            await crawl(one, node, 12)
            await asyncio.sleep(usage.LOOK_EVERY_S + 1)
            for on in (one, two):
                assert on.control.quotas.use("default").pages_per_day == 12

    run_simulated(scene())


def test_peaks_are_noted_and_an_idle_fleet_writes_nothing() -> None:
    async def scene() -> None:
        async with stage() as on:
            await asyncio.sleep(2 * HOUR_S)
            assert await on.store.find(usage_between(since=0.0, until=1e12)) == []
            node = await on.node()
            for _ in range(5):
                await on.submit()
            held = await node.take_all()
            await asyncio.sleep(usage.WRITE_EVERY_S + usage.SAMPLE_EVERY_S)
            row = await today(on)
            # The node was lost meanwhile, and its work waits again.
            assert (row.submitted, row.peak_waiting, row.peak_running) == (5, 5, len(held))
            assert row.storage_bytes is None

    run_simulated(scene())


def test_a_full_storage_lets_tasks_wait_and_bundles_be_refused() -> None:
    async def scene() -> None:
        async with stage() as on:
            node = await on.node()
            await limit(on, storage_mb=1.0)
            on.control.metering._kept = {"default": 1_000_000}
            await on.control.metering.write()
            task = await on.submit()
            assert (await node.lease()).assignments == ()
            why = await on.control.queries.explain(task.id)
            assert "1 of 1 MB of storage are used" in why.summary
            assert "when output or bundles of the project were removed" in why.summary
            with pytest.raises(Conflict, match="storage_mb"):
                on.control.service(Bundles)._need_room("default", 1)
            on.control.metering._kept = {"default": 999_999}
            await on.control.metering.write()
            on.control.state.signals.dispatch.set()
            assert (await node.take()).task_id == task.id
            assert (await today(on)).storage_bytes == 999_999

    run_simulated(scene())


class BrittleOutput:
    """Output whose size cannot be told for a while, as nobody expected."""

    def __init__(self, task_id: str) -> None:
        self.asked = 0
        self.is_broken = True
        self._task_id = task_id

    async def sizes(self) -> dict[str, int]:
        self.asked += 1
        if self.is_broken:
            raise IndexError("list index out of range")
        return {self._task_id: 2_000_000}


def test_storage_that_cannot_be_measured_is_told_once_and_stops_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scene() -> None:
        told: list[str] = []
        for voice in ("warning", "exception"):
            monkeypatch.setattr(usage.log, voice, lambda event, **_: told.append(event))
        async with stage() as on:
            node = await on.node()
            task = await on.submit()
            output = BrittleOutput(task.id)
            monkeypatch.setattr(on.control.metering, "_output", output)
            await asyncio.sleep(3 * usage.MEASURE_EVERY_S)
            assert output.asked >= 2
            assert told == ["storage is not measured"]
            assert on.control.metering.is_unmeasured
            assert on.control.leads
            assert (await today(on)).peak_waiting == 1

            output.is_broken = False
            await asyncio.sleep(2 * usage.MEASURE_EVERY_S)
            assert not on.control.metering.is_unmeasured
            assert (await today(on)).storage_bytes == 2_000_000
            node = await on.node("another")
            assert (await node.take()).task_id == task.id

    run_simulated(scene())


class HangingOutput:
    """Output that does not answer for a while."""

    def __init__(self, task_id: str) -> None:
        self.asked = 0
        self.answers = asyncio.Event()
        self._task_id = task_id

    async def sizes(self) -> dict[str, int]:
        self.asked += 1
        await self.answers.wait()
        return {self._task_id: 2_000_000}


def test_storage_that_hangs_is_unmeasured_asked_once_and_stops_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scene() -> None:
        told: list[str] = []
        monkeypatch.setattr(
            usage.log, "warning", lambda event, **fields: told.append(fields["error"])
        )
        async with stage() as on:
            task = await on.submit()
            output = HangingOutput(task.id)
            monkeypatch.setattr(on.control.metering, "_output", output)
            await asyncio.sleep(3 * usage.MEASURE_EVERY_S)
            assert output.asked == 1
            assert told == ["storage gave no answer within 60 s"]
            assert on.control.metering.is_unmeasured
            assert (await today(on)).peak_waiting == 1
            await on.submit()
            await asyncio.sleep(2 * usage.WRITE_EVERY_S + usage.ANSWER_WITHIN_S)
            assert (await today(on)).peak_waiting == 2

            output.answers.set()
            await asyncio.sleep(2 * usage.MEASURE_EVERY_S)
            assert not on.control.metering.is_unmeasured
            assert (await today(on)).storage_bytes == 2_000_000
            assert output.asked == 2

    run_simulated(scene())


def test_old_usage_is_cleared_up() -> None:
    async def scene() -> None:
        retention = RetentionSettings(tasks_days=0, events_days=0, usage_days=1 / 48)
        async with stage(retention=retention) as on:
            await on.submit()
            assert await on.store.find(usage_between(since=0.0, until=1e12))
            await asyncio.sleep(2.1 * HOUR_S)
            assert [
                row
                for row in await on.store.find(usage_between(since=0.0, until=1e12))
                if row.at < EPOCH
            ] == []

    run_simulated(scene())
