"""What executions say reaches the store from their own node alone, and readers as it comes."""

import asyncio
from contextlib import ExitStack
from functools import partial
from typing import Any

import msgspec
import pytest

from crawlfleet.adapters.store.memory.store import MemoryStore
from crawlfleet.control.events.followers import MAX_FOLLOWERS_OF_KEY
from crawlfleet.control.logs import executions
from crawlfleet.control.logs.executions import LogNews
from crawlfleet.core.logs.search import LineFilter, make_filter
from crawlfleet.errors import Busy, NotFound, StoreUnavailable
from crawlfleet.model.log import Gap, LogLevel, LogLine, LogPart, Progress
from crawlfleet.model.settings import RetentionSettings
from crawlfleet.model.task import TaskStatus
from crawlfleet.model.wire.node_protocol import Assignment, Note, NoteBatch, NoteReply, ReportKind
from crawlfleet.testing.simulation.clock import EPOCH, run_simulated
from tests.control.stage import PlayedNode, Stage, stage


def line(seq: int, message: str = "", **fields: Any) -> LogLine:
    return LogLine(seq=seq, at=EPOCH, message=message or f"line {seq}", **fields)


async def note(on: Stage, node: PlayedNode, assignment: Assignment, **fields: Any) -> NoteReply:
    if lines := fields.get("lines"):
        fields["lines"] = tuple(lines)
    batch = NoteBatch(
        session_id=node.session_id,
        notes=(Note(execution_id=assignment.execution_id, **fields),),
    )
    return await on.control.logs.take(node.id, batch)


async def seen(on: Stage, assignment: Assignment, **query: Any) -> list[int]:
    found, _ = await on.control.logs.find(
        assignment.execution_id, **{"after": 0, "limit": 100, **query}
    )
    return [each.seq for each in found]


async def at_work(on: Stage, **task: Any) -> tuple[PlayedNode, Assignment]:
    node = await on.node()
    await on.submit(**task)
    assignment = await node.take()
    await node.report(assignment, ReportKind.STARTED)
    return node, assignment


def test_lines_are_kept_once_and_read_in_order() -> None:
    async def scene() -> None:
        async with stage() as on:
            node, work = await at_work(on)
            assert await note(on, node, work, lines=[line(1), line(2)]) == NoteReply()
            assert await note(on, node, work, lines=[line(2), line(3)]) == NoteReply()
            assert await seen(on, work) == [1, 2, 3]
            page, cursor = await on.control.logs.find(work.execution_id, after=0, limit=2)
            assert ([each.seq for each in page], cursor) == ([1, 2], "2")
            assert await seen(on, work, after=2) == [3]

    run_simulated(scene())


def test_a_level_hides_what_matters_less() -> None:
    async def scene() -> None:
        async with stage() as on:
            node, work = await at_work(on)
            lines = [line(n + 1, level=level) for n, level in enumerate(LogLevel)]
            await note(on, node, work, lines=lines)
            assert await seen(on, work, wanted=LineFilter(least=LogLevel.WARNING)) == [3, 4]
            assert await seen(on, work) == [1, 2, 3, 4]

    run_simulated(scene())


def test_only_the_node_that_runs_an_execution_may_write_for_it() -> None:
    async def scene() -> None:
        async with stage() as on:
            _, work = await at_work(on)
            other = await on.node("other")
            stale = NoteReply(stale=(work.execution_id,))
            assert await note(on, other, work, lines=[line(1, "forged")]) == stale
            assert await seen(on, work) == []

    run_simulated(scene())


def test_nothing_is_taken_under_another_session_or_for_what_never_was() -> None:
    async def scene() -> None:
        async with stage() as on:
            node, work = await at_work(on)
            batch = NoteBatch(
                session_id="sess-of-old",
                notes=(Note(execution_id=work.execution_id, lines=(line(1),)),),
            )
            assert (await on.control.logs.take(node.id, batch)).stale == (work.execution_id,)
            nobody = msgspec.structs.replace(work, execution_id="exec-of-nobody")
            assert (await note(on, node, nobody, lines=[line(1)])).stale == ("exec-of-nobody",)
            assert await seen(on, work) == []

    run_simulated(scene())


def test_last_lines_may_come_after_the_end_but_not_long_after() -> None:
    async def scene() -> None:
        async with stage() as on:
            node, work = await at_work(on)
            await node.report(work, ReportKind.SUCCEEDED)
            assert await note(on, node, work, lines=[line(1)]) == NoteReply()
            await asyncio.sleep(executions.LATE_S + 1)
            late = await note(on, node, work, lines=[line(2)])
            assert late.stale == (work.execution_id,)
            assert await seen(on, work) == [1]

    run_simulated(scene())


def test_an_execution_that_was_lost_with_its_session_is_not_written_for_by_the_next() -> None:
    async def scene() -> None:
        async with stage() as on:
            node, work = await at_work(on)
            await asyncio.sleep(20)
            again = await on.node("again")
            assert (await note(on, again, work, lines=[line(1)])).stale == (work.execution_id,)
            # Its own last words are welcome for a while.
            assert await note(on, node, work, lines=[line(1)]) == NoteReply()

    run_simulated(scene())


def test_lines_left_out_are_gone_and_a_line_says_so() -> None:
    async def scene() -> None:
        async with stage() as on:
            node, work = await at_work(on)
            await note(on, node, work, lines=[line(n) for n in range(1, 7)])
            gap = Gap(first=3, last=5)
            for _ in range(2):
                await note(on, node, work, lines=[line(7)], left_out=gap)
            found, _ = await on.control.logs.find(work.execution_id, after=0, limit=10)
            assert [each.seq for each in found] == [1, 2, 3, 6, 7]
            assert found[2].message.startswith("3 lines were left out")
            await note(on, node, work, left_out=Gap(first=3, last=6))
            found, _ = await on.control.logs.find(work.execution_id, after=0, limit=10)
            assert [each.seq for each in found] == [1, 2, 3, 7]
            assert found[2].message.startswith("4 lines were left out")

    run_simulated(scene())


def test_what_a_node_says_is_cut_to_size_and_never_dated_in_the_future() -> None:
    async def scene() -> None:
        async with stage() as on:
            node, work = await at_work(on)
            long = LogLine(seq=1, at=EPOCH + 1e6, message="x" * 50_000, fields={"y": "z" * 50_000})
            await note(on, node, work, lines=[long])
            ((kept,), _) = await on.control.logs.find(work.execution_id, after=0, limit=10)
            assert len(kept.message) < 3_000
            assert len(str(kept.fields)) < 100
            assert kept.at <= EPOCH + 60

    run_simulated(scene())


def test_progress_is_seen_while_it_runs_and_the_newest_wins() -> None:
    async def scene() -> None:
        async with stage() as on:
            node, work = await at_work(on)
            progress = on.control.logs.progress
            assert progress(work.execution_id) is None
            for at, done in ((2.0, 5.0), (1.0, 3.0)):
                await note(on, node, work, progress=Progress(done=done, total=10.0, at=EPOCH + at))
            now = progress(work.execution_id)
            assert now is not None
            assert (now.done, now.total) == (5.0, 10.0)
            await node.report(work, ReportKind.SUCCEEDED)
            assert progress(work.execution_id) is None
            assert progress(None) is None

    run_simulated(scene())


def test_a_store_that_cannot_keep_lines_delays_no_task() -> None:
    class NoLogs(MemoryStore):
        async def append_logs(self, parts: Any) -> None:
            raise StoreUnavailable("the disk is full of logs")

    async def scene() -> None:
        async with stage(NoLogs()) as on:
            node, work = await at_work(on)
            with pytest.raises(StoreUnavailable):
                await note(on, node, work, lines=[line(1)])
            await node.report(work, ReportKind.SUCCEEDED)
            assert (await on.control.tasks.get(work.task_id)).status is TaskStatus.COMPLETED

    run_simulated(scene())


async def follow(on: Stage, work: Assignment, heard: list[LogNews], after: int = 0) -> None:
    with on.control.logs.follow(work.execution_id, after=after) as news:
        async for each in news:
            heard += [each]


def said(heard: list[LogNews]) -> list[int]:
    return [each.seq for news in heard for each in news.lines]


def test_a_follower_hears_lines_as_they_come_and_then_the_end() -> None:
    async def scene() -> None:
        async with stage() as on:
            node, work = await at_work(on)
            await note(on, node, work, lines=[line(1), line(2)])
            heard: list[LogNews] = []
            following = asyncio.create_task(follow(on, work, heard, after=1))
            await asyncio.sleep(0.1)
            assert said(heard) == [2]
            await note(on, node, work, lines=[line(3)])
            await asyncio.sleep(0.2)
            assert said(heard) == [2, 3]
            await node.report(work, ReportKind.SUCCEEDED)
            await asyncio.sleep(0.5)
            await note(on, node, work, lines=[line(4)])
            await following
            assert said(heard) == [2, 3, 4]
            assert heard[-1].is_end
            assert [each.is_end for each in heard].count(True) == 1

    run_simulated(scene())


def test_a_follower_of_what_ended_long_ago_is_told_at_once() -> None:
    async def scene() -> None:
        async with stage() as on:
            node, work = await at_work(on)
            await note(on, node, work, lines=[line(n) for n in range(1, 2500)])
            await node.report(work, ReportKind.SUCCEEDED)
            await asyncio.sleep(100)
            heard: list[LogNews] = []
            before = asyncio.get_running_loop().time()
            await follow(on, work, heard)
            assert said(heard) == [*range(1, 2500)]
            assert asyncio.get_running_loop().time() - before < 1

    run_simulated(scene())


def test_a_master_that_stops_lets_its_followers_go_without_an_end() -> None:
    async def scene() -> None:
        async with stage() as on:
            _, work = await at_work(on)
            heard: list[LogNews] = []
            following = asyncio.create_task(follow(on, work, heard))
            await asyncio.sleep(0.1)
            on.control.dismiss()
            await asyncio.wait_for(following, 1)
            assert not any(news.is_end for news in heard)

    run_simulated(scene())


def test_there_is_a_limit_to_followers() -> None:
    async def scene() -> None:
        async with stage() as on:
            _, work = await at_work(on)
            follow = partial(on.control.logs.follow, work.execution_id, after=0)
            with ExitStack() as places:
                for _ in range(MAX_FOLLOWERS_OF_KEY):
                    places.enter_context(follow(name="ann"))
                with pytest.raises(Busy, match="with this key"), follow(name="ann"):
                    pass
                with follow(name="bob"):
                    pass
            with follow(name="ann"):
                pass

    run_simulated(scene())


def test_an_execution_is_found_alive_and_ended_and_else_not() -> None:
    async def scene() -> None:
        async with stage() as on:
            node, work = await at_work(on)
            find = on.control.logs.execution
            assert (await find(work.execution_id)).status == "running"
            await node.report(work, ReportKind.SUCCEEDED)
            assert (await find(work.execution_id)).status == "completed"
            with pytest.raises(NotFound, match="execution"):
                await find("exec-of-nobody")

    run_simulated(scene())


@pytest.mark.slow
def test_old_lines_are_removed_in_small_steps() -> None:
    async def scene() -> None:
        retention = RetentionSettings(tasks_days=0, events_days=0, logs_days=1, step=4)
        async with stage(retention=retention) as on:
            node, work = await at_work(on)
            await note(on, node, work, lines=[line(n) for n in range(1, 11)])
            for _ in range(26):
                await asyncio.sleep(3600)
            assert await seen(on, work) == []

    run_simulated(scene())


def test_lines_are_searched_by_text_expression_and_time() -> None:
    async def scene() -> None:
        async with stage() as on:
            node, work = await at_work(on)
            said = [
                line(1, "fetched", fields={"url": "https://a.example/x", "status": 503}),
                line(2, "Fetched", fields={"url": "https://b.example/y", "status": 200}),
                line(3, "took 12 s", level=LogLevel.WARNING),
                line(4, "took 7 s"),
            ]
            await asyncio.sleep(10)
            lines = [msgspec.structs.replace(each, at=EPOCH + each.seq) for each in said]
            await note(on, node, work, lines=lines)

            async def sought(text: str, *, is_regex: bool = False, **more: Any) -> list[int]:
                least = more.pop("least", LogLevel.DEBUG)
                wanted = make_filter(text, is_regex=is_regex, least=least, **more)
                return await seen(on, work, wanted=wanted)

            assert await sought("FETCHED") == [1, 2]
            assert await sought("status=503") == [1]
            assert await sought(r"took [0-9]{2,} s", is_regex=True) == [3]
            assert await sought("^fetched", is_regex=True) == [1]
            assert await sought("(?i)^fetched", is_regex=True) == [1, 2]
            assert await sought(".*", is_regex=True, least=LogLevel.WARNING) == [3]
            assert await sought("", since=EPOCH + 2, until=EPOCH + 4) == [2, 3]
            assert await sought("[0-9") == []

    run_simulated(scene())


def test_a_search_is_read_page_by_page() -> None:
    async def scene() -> None:
        async with stage() as on:
            node, work = await at_work(on)
            lines = [line(n, "even" if n % 2 == 0 else "odd") for n in range(1, 3001)]
            await note(on, node, work, lines=lines)
            wanted = make_filter("even", is_regex=False, least=LogLevel.DEBUG)
            found: list[int] = []
            cursor: str | None = "0"
            pages = 0
            while cursor is not None:
                page, cursor = await on.control.logs.find(
                    work.execution_id, after=int(cursor), limit=700, wanted=wanted
                )
                found += [each.seq for each in page]
                pages += 1
            assert found == [*range(2, 3001, 2)]
            assert pages == 3

    run_simulated(scene())


def test_a_search_is_followed() -> None:
    async def scene() -> None:
        async with stage() as on:
            node, work = await at_work(on)
            await note(on, node, work, lines=[line(1, "one"), line(2, "two")])
            wanted = make_filter("o$", is_regex=True, least=LogLevel.DEBUG)
            told: list[int] = []
            with on.control.logs.follow(work.execution_id, after=0, wanted=wanted) as news:
                async for each in news:
                    told += [said.seq for said in each.lines]
                    if told == [2]:
                        await note(on, node, work, lines=[line(3, "zero"), line(4, "four")])
                        await node.report(work, ReportKind.SUCCEEDED)
                    if each.is_end:
                        break
            assert told == [2, 3]

    run_simulated(scene())


def test_the_oldest_lines_go_when_all_logs_together_are_too_large() -> None:
    async def scene() -> None:
        retention = RetentionSettings(tasks_days=0, logs_days=0, logs_mb=0.01, step=7)
        async with stage(retention=retention) as on:
            _, work = await at_work(on)
            for number in range(1, 201):
                await on.store.append_logs([said_now(on, work, number)])
                await asyncio.sleep(10)
            await asyncio.sleep(600)
            kept = await seen(on, work, limit=1000)
            # 10 kB are 90 lines of 100 + 11 bytes each.
            assert kept == [*range(201 - len(kept), 201)]
            assert 85 <= len(kept) <= 90

    run_simulated(scene())


def said_now(on: Stage, work: Assignment, number: int) -> LogPart:
    said = LogLine(seq=number, at=on.control.now(), message=f"line {number:06}")
    return LogPart(execution_id=work.execution_id, lines=(said,))
