"""Orders to running executions find their way and back; output is swept with its task."""

import asyncio
from typing import Any

import msgspec
import pytest

from crawlfleet.adapters.store.memory.store import MemoryStore
from crawlfleet.control.leases import execution_orders
from crawlfleet.control.state.counters import Happening
from crawlfleet.core.tasks.orders import Verb
from crawlfleet.errors import Busy, Conflict, NotFound, OutputUnavailable, RunEnded
from crawlfleet.features.crawls.service import Crawls, CrawlVerb
from crawlfleet.features.crawls.work import CrawlWorkers
from crawlfleet.model.log import Progress
from crawlfleet.model.settings import RetentionSettings
from crawlfleet.model.task import ErrorClass, RetryPolicy, Task, TaskStatus
from crawlfleet.model.wire.node_protocol import Assignment, Note, NoteBatch, OrderAnswer, ReportKind
from crawlfleet.model.wire.output import Segment, SegmentReply, SegmentUpload
from crawlfleet.model.wire.services import OUTPUT, ServiceResponse
from crawlfleet.testing.simulation.clock import run_simulated
from tests.control.stage import PlayedNode, Stage, stage

AT_ONCE = RetryPolicy(initial_delay_s=0.0)


class Kept:
    """An `OutputStore` in memory, as far as needed: threads know no simulated time."""

    def __init__(self) -> None:
        self.segments: dict[str, list[tuple[int, int]]] = {}
        self.settled: list[str] = []

    async def append(self, task_id: str, token: int, *rest: Any) -> bool:
        segment: Segment = rest[2]
        self.segments.setdefault(task_id, []).append((token, segment.sequence))
        return True

    async def figures(self, task_id: str) -> bytes | None:
        return None

    async def tasks(self) -> list[str]:
        return [*self.segments]

    async def sizes(self) -> dict[str, int]:
        return {task_id: 100 * len(segments) for task_id, segments in self.segments.items()}

    async def remove(self, task_id: str) -> None:
        del self.segments[task_id]

    async def settle(self, task_id: str) -> None:
        self.settled.append(task_id)


async def crawling(on: Stage, **fields: Any) -> tuple[PlayedNode, Assignment, Task]:
    node = await on.node()
    parameters = msgspec.Raw(b'{"url":"http://a/"}')
    task = await on.submit(task_type="web_crawl", parameters=parameters, **fields)
    work = await node.take()
    await node.report(work, ReportKind.STARTED)
    return node, work, await on.task(task)


async def answer(on: Stage, node: PlayedNode, work: Assignment, **fields: Any) -> None:
    note = Note(execution_id=work.execution_id, answers=(OrderAnswer(**fields),))
    batch = NoteBatch(session_id=node.session_id, notes=(note,))
    await on.control.service(Crawls).hear(batch, await on.control.logs.take(node.id, batch))


async def keep(on: Stage, node: PlayedNode, work: Assignment, sequence: int = 1) -> ServiceResponse:
    segment = Segment(sequence=sequence, first=sequence, counted=sequence - 1)
    return await node.request(work, OUTPUT, SegmentUpload(segment=segment))


def is_ended(response: ServiceResponse) -> bool:
    reply = msgspec.json.decode(response.payload, type=SegmentReply | None)
    return reply is not None and reply.is_ended


def test_an_order_wakes_the_node_and_its_answer_whoever_gave_it() -> None:
    async def scene() -> None:
        async with stage() as on:
            node, work, task = await crawling(on)
            polling = asyncio.create_task(node.lease(work, wait_s=20.0))
            await asyncio.sleep(0.1)
            ordering = asyncio.create_task(
                on.control.service(Crawls).order(task, CrawlVerb.PAUSE, by="people")
            )
            (order,) = (await polling).orders
            assert (order.execution_id, order.name) == (work.execution_id, "pause")
            await answer(on, node, work, number=order.number)
            await ordering
            figures = await on.control.service(Crawls).figures(task)
            assert figures is not None
            assert figures.is_paused
            await asyncio.sleep(0.1)
            assert on.heard.events[-1].kind == "crawl.paused"
            assert (await node.lease(work, wait_s=0.0)).orders == ()

    run_simulated(scene())


def test_an_order_that_got_lost_is_sent_again_with_its_number() -> None:
    async def scene() -> None:
        async with stage() as on:
            node, work, task = await crawling(on)
            ordering = asyncio.create_task(
                on.control.service(Crawls).order(task, CrawlVerb.STOP, by="people")
            )
            await asyncio.sleep(0)
            (lost,) = (await node.lease(work, wait_s=5.0)).orders
            (again,) = (await node.lease(work, wait_s=5.0)).orders
            assert again == lost
            await answer(on, node, work, number=again.number)
            await ordering

    run_simulated(scene())


def test_who_does_not_answer_is_not_waited_for_for_ever() -> None:
    async def scene() -> None:
        async with stage() as on:
            node, work, task = await crawling(on)
            with pytest.raises(Busy, match="did not answer"):
                await on.control.service(Crawls).order(task, CrawlVerb.STOP, by="people")
            assert (await node.lease(work, wait_s=0.0)).orders == ()

    run_simulated(scene())


def test_a_node_that_speaks_to_another_master_is_not_asked_here() -> None:
    async def scene() -> None:
        async with stage() as on:
            _, _, task = await crawling(on)
            await asyncio.sleep(0)
            on.control.leases._execution_orders._polled.clear()
            with pytest.raises(Conflict, match="another master"):
                await on.control.service(Crawls).order(task, CrawlVerb.STOP, by="people")

    run_simulated(scene())


def test_an_execution_that_ends_meanwhile_is_told_of() -> None:
    async def scene() -> None:
        async with stage() as on:
            node, work, task = await crawling(on)
            asking = asyncio.create_task(on.control.service(Crawls).explain(task, "http://a/"))
            await asyncio.sleep(0)
            await node.report(work, ReportKind.SUCCEEDED)
            with pytest.raises(Conflict, match="ended"):
                await asking
            with pytest.raises(Conflict, match="completed"):
                await on.control.service(Crawls).explain(await on.task(task), "http://a/")

    run_simulated(scene())


def test_not_too_many_wait_for_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution_orders, "MAX_WAITING", 1)

    async def scene() -> None:
        async with stage() as on:
            _, _, task = await crawling(on)
            first = asyncio.create_task(on.control.service(Crawls).explain(task, "http://a/"))
            await asyncio.sleep(0)
            with pytest.raises(Busy, match="already"):
                await on.control.service(Crawls).explain(task, "http://a/")
            first.cancel()

    run_simulated(scene())


def test_a_task_that_is_no_crawl_is_none() -> None:
    async def scene() -> None:
        async with stage() as on:
            task = await on.submit()
            with pytest.raises(NotFound, match="crawl"):
                await on.control.service(Crawls).get(task.id)

    run_simulated(scene())


def test_a_node_that_lost_the_crawl_cannot_write() -> None:
    kept: Any = Kept()

    async def scene() -> None:
        async with stage(output=kept) as on:
            node, work, task = await crawling(on)
            assert not (await keep(on, node, work)).refusal
            assert not (await keep(on, node, work)).refusal
            await on.control.leases.end_session(node.session_id, cause="test")
            assert "is not held" in (await keep(on, node, work, 2)).refusal
            other = await on.node("other")
            again = await other.take()
            assert again.task_id == task.id
            assert "is not held" in (await keep(on, node, work, 2)).refusal
            assert not (await keep(on, other, again)).refusal
            assert kept.segments[task.id] == [
                (work.token, 1),
                (work.token, 1),
                (again.token, 1),
            ]

    run_simulated(scene())


async def ordered(on: Stage, node: PlayedNode, work: Assignment, verb: CrawlVerb) -> None:
    """An order about the crawl, which its node follows."""
    task = await on.control.tasks.get(work.task_id)
    order = asyncio.create_task(on.control.service(Crawls).order(task, verb, by="people"))
    await asyncio.sleep(0)
    (told,) = (await node.lease(work)).orders
    await answer(on, node, work, number=told.number)
    await order


@pytest.mark.parametrize("ends", ["silence", "a failure", "a release"])
def test_a_paused_crawl_stays_paused_when_its_attempt_ends(ends: str) -> None:
    async def scene() -> None:
        async with stage(output=Kept()) as on:
            node, work, task = await crawling(on)
            await ordered(on, node, work, CrawlVerb.PAUSE)
            assert (await on.task(task)).status is TaskStatus.PROCESSING
            if ends == "silence":
                await asyncio.sleep(600)
            elif ends == "a failure":
                await node.report(work, ReportKind.FAILED, error=ErrorClass.NETWORK)
            else:
                await node.report(work, ReportKind.RELEASED)
            other = await on.node()
            await other.pass_time(600)
            assert await other.take_all() == ()
            paused = await on.task(task)
            assert (paused.status, paused.is_held) == (TaskStatus.PAUSED, False)
            told = [each for each in on.heard.events if each.kind == "task.paused"]
            assert "it stays paused" in told[-1].cause

            await on.order(Verb.RESUME, task)
            again = await other.take()
            assert again.task_id == task.id
            assert (await on.task(task)).not_before == 0.0

    run_simulated(scene())


def test_a_pause_survives_the_master_and_then_the_node() -> None:
    async def scene() -> None:
        store = MemoryStore()
        async with stage(store, output=Kept()) as on:
            node, work, task = await crawling(on)
            await ordered(on, node, work, CrawlVerb.PAUSE)
        async with stage(store, name="next", output=Kept()) as on:
            node.turn_to(on)
            await node.beat()
            assert (await on.task(task)).is_held
            await asyncio.sleep(600)
            assert (await on.task(task)).status is TaskStatus.PAUSED

    run_simulated(scene())


def test_a_crawl_that_was_resumed_goes_on_elsewhere() -> None:
    async def scene() -> None:
        async with stage(output=Kept()) as on:
            node, work, task = await crawling(on)
            await ordered(on, node, work, CrawlVerb.PAUSE)
            await ordered(on, node, work, CrawlVerb.RESUME)
            await node.report(work, ReportKind.RELEASED)
            assert (await node.take()).task_id == task.id

    run_simulated(scene())


def test_a_held_crawl_that_ends_with_what_it_has_completes() -> None:
    async def scene() -> None:
        async with stage(output=Kept()) as on:
            node, work, task = await crawling(on)
            await ordered(on, node, work, CrawlVerb.PAUSE)
            await node.report(work, ReportKind.SUCCEEDED)
            assert (await on.task(task)).status is TaskStatus.COMPLETED

    run_simulated(scene())


def test_whoever_writes_to_a_run_that_others_ended_hears_that_it_is_no_fault_of_its_own() -> None:
    class Ended(Kept):
        async def append(self, task_id: str, token: int, *rest: Any) -> bool:
            raise RunEnded("the run was cut")

    async def scene() -> None:
        async with stage(output=Ended()) as on:
            node, work, _ = await crawling(on)
            reply = await keep(on, node, work)
            assert (reply.refusal, is_ended(reply)) == ("the run was cut", True)
            await node.report(work, ReportKind.SUCCEEDED)
            reply = await keep(on, node, work)
            assert "is not held" in reply.refusal
            assert not is_ended(reply)

    run_simulated(scene())


def test_a_master_without_storage_says_so() -> None:
    async def scene() -> None:
        async with stage() as on:
            node, work, _ = await crawling(on)
            assert (await keep(on, node, work)).may_retry

    run_simulated(scene())


def test_output_that_cannot_be_removed_does_not_keep_the_rest_from_it() -> None:
    class Stuck(Kept):
        async def remove(self, task_id: str) -> None:
            if task_id == "task-stuck":
                raise OutputUnavailable("mend it")
            await super().remove(task_id)

    kept: Any = Stuck()
    kept.segments = {"task-stuck": [], "task-gone": []}

    async def scene() -> None:
        async with stage(output=kept) as on:
            assert await on.control.service(Crawls).sweep() == 1
            assert await kept.tasks() == ["task-stuck"]

    run_simulated(scene())


def test_output_of_a_crawl_that_completed_is_settled() -> None:
    kept: Any = Kept()

    async def scene() -> None:
        async with stage(output=kept) as on:
            node, work, task = await crawling(on)
            await keep(on, node, work)
            await node.report(work, ReportKind.SUCCEEDED)
            assert await on.control.service(Crawls).sweep() == 0
            assert kept.settled == [task.id]

    run_simulated(scene())


@pytest.mark.slow
def test_output_goes_with_its_task() -> None:
    kept: Any = Kept()
    retention = RetentionSettings(tasks_days=1, events_days=0)

    async def scene() -> None:
        async with stage(output=kept, retention=retention) as on:
            node, work, task = await crawling(on)
            await keep(on, node, work)
            assert await on.control.service(Crawls).sweep() == 0
            assert (await kept.tasks(), kept.settled) == ([task.id], [])
            await on.order(Verb.CANCEL, task)
            await node.report(work, ReportKind.STOPPED)
            assert await on.control.service(Crawls).sweep() == 0
            assert kept.settled == [], "it has not completed: an earlier attempt may have more"
            await asyncio.sleep(3_600)
            assert on.control.quotas.use("default").storage_mb == 100 / 1e6
            await asyncio.sleep(3 * 86_400)
            assert on.control.quotas.use("default").storage_mb == 0
            assert await kept.tasks() == []

    run_simulated(scene())


async def tell(on: Stage, node: PlayedNode, work: Assignment, **figures: Any) -> None:
    note = Note(
        execution_id=work.execution_id,
        figures=figures,
        progress=Progress(done=figures["pages"], at=asyncio.get_running_loop().time()),
    )
    batch = NoteBatch(session_id=node.session_id, notes=(note,))
    await on.control.service(Crawls).hear(batch, await on.control.logs.take(node.id, batch))


def pages_read(on: Stage) -> int:
    """In the last hour, by the master's own count."""
    happened, _ = on.control.state.counters.within(3600.0, now=on.control.state._system.now())
    return happened[Happening.PAGE]


def test_what_the_next_attempt_tells_takes_the_place_of_what_the_last_one_told() -> None:
    async def scene() -> None:
        async with stage() as on:
            node, work, task = await crawling(on, retry_policy=AT_ONCE)
            busy = {"rate_per_s": 9.0, "waiting": 150, "in_flight": 50}
            await tell(on, node, work, pages=100, items=50, done=100, known=300, **busy)
            assert pages_read(on) == 100
            await node.report(work, ReportKind.FAILED, error=ErrorClass.CRASH)
            waiting = await on.control.service(Crawls).figures(await on.task(task))
            assert waiting is not None
            assert (waiting.pages, waiting.items) == (100, 50), "nothing is gone between attempts"
            assert (waiting.rate_per_s, waiting.waiting, waiting.in_flight) == (0.0, 200, 0)

            again = await node.take()
            await node.report(again, ReportKind.STARTED)
            await tell(on, node, again, pages=120, items=60, done=120, known=300)
            figures = await on.control.service(Crawls).figures(await on.task(task))
            assert figures is not None
            assert (figures.pages, figures.items) == (120, 60)
            assert pages_read(on) == 120, "it goes on from the pages of the last one"

    run_simulated(scene())


def test_shards_that_were_tried_again_count_once() -> None:
    async def scene() -> None:
        async with stage() as on:
            node = await on.node(slots=4)
            parameters = msgspec.Raw(b'{"url":"http://a/","workers":2}')
            parent = await on.submit(
                task_type="web_crawl", parameters=parameters, retry_policy=AT_ONCE
            )
            await asyncio.sleep(0.1)
            one, other = await node.take_all()
            for work in (one, other):
                await node.report(work, ReportKind.STARTED)
            whole = {"done": 100, "known": 300, "requests": 110}
            await tell(on, node, one, pages=100, items=50, part={"pages": 70, "items": 30}, **whole)
            await tell(on, node, other, pages=90, items=45, part={"pages": 20, "items": 15})
            await node.report(one, ReportKind.FAILED, error=ErrorClass.CRASH)
            (again,) = [each for each in await node.take_all() if each not in (one, other)]
            await node.report(again, ReportKind.STARTED)
            await tell(
                on,
                node,
                again,
                pages=130,
                items=65,
                done=130,
                known=300,
                requests=140,
                part={"pages": 100, "items": 45},
            )
            figures = await on.control.service(Crawls).figures(await on.task(parent))
            assert figures is not None
            assert (figures.pages, figures.items, figures.requests) == (130, 65, 140)
            work_done = await on.control.service(CrawlWorkers).of(
                await on.task(parent), project_id=None
            )
            shares = sorted((each.pages, each.items) for each in work_done.shards)
            assert shares == [(20, 15), (100, 45)]

    run_simulated(scene())
