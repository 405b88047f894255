"""The logs of executions and how far each has got, while they run and afterwards.

A node may write only for executions that are its own: those that live in the session it speaks
for, and for a while those that have just ended there, since their last lines travel apart from
their end. Lines are durable before they are confirmed. They take no part in commits: a log that
cannot be written delays no task.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import msgspec

from crawlfleet.control.events.followers import FollowerSlots
from crawlfleet.control.state.fleet_state import FleetState
from crawlfleet.core.logs.notebook import left_out_line, levels_from, trim
from crawlfleet.core.logs.search import ALL, LineFilter
from crawlfleet.core.tasks.lease import Lease
from crawlfleet.errors import NotFound
from crawlfleet.model.crawl.frontier import FrontierCounts
from crawlfleet.model.log import LogLevel, LogLine, LogPart, Progress
from crawlfleet.model.task import LIVE_EXECUTION, Execution, Shard
from crawlfleet.model.wire.node_protocol import Note, NoteBatch, NoteReply
from crawlfleet.ports.store import Store
from crawlfleet.ports.system import System

LATE_S: Final = 60.0
"""A node may send the last lines of an execution for so long after its end."""
SETTLED_S: Final = 2.0
"""A follower takes a log for complete this long after the execution's end."""
PORTION: Final = 1000
HEARTBEAT_S: Final = 15.0
LOOK_S: Final = 1.0
"""A follower looks this often for lines that another master stored."""
PAUSE_S: Final = 0.05
CRAWL: Final = "web_crawl"
"""The task type whose progress counts pages."""
SEARCH_S: Final = 0.5
"""Maximum duration of a search for lines; then it returns the lines found and its position."""
TURN_S: Final = 0.02
"""A search yields to the event loop after this long."""
MAX_FOLLOWED_S: Final = 900.0
"""A follower's stream ends after this; to go on it connects and authenticates again."""

ProgressHearer = Callable[[Sequence[tuple[str, Progress]]], Awaitable[None]]


class LogNews(msgspec.Struct, frozen=True, kw_only=True):
    """New lines, perhaps none, and whether they were the last."""

    lines: Sequence[LogLine] = ()
    position: int
    is_end: bool = False


class Logs:
    """Stores the log lines and progress that nodes report of executions, and reads them."""

    def __init__(
        self,
        *,
        store: Store,
        state: FleetState,
        system: System,
    ) -> None:
        self._counts: Callable[[str], FrontierCounts | None] = lambda _: None
        self._progress_hearers: list[ProgressHearer] = []
        self._store = store
        self._state = state
        self._system = system
        self._progress: dict[str, tuple[float, Progress]] = {}
        """Last progress by execution, with the node's own time, which orders its reports."""
        self._pages: dict[str, int] = {}
        """Number of pages that a crawl has read, by task, at its last report of progress."""
        self._places = FollowerSlots("logs")
        self._followers: dict[str, set[asyncio.Event]] = {}
        self._dismissed = False

    def count_pages_by(self, counts: Callable[[str], FrontierCounts | None]) -> None:
        """Register `counts`: it returns the counts of a crawl with several executions."""
        self._counts = counts

    def on_progress(self, hear: ProgressHearer) -> None:
        """Call `hear` with the progress that nodes report, by execution."""
        self._progress_hearers.append(hear)

    async def take(self, node_id: str, batch: NoteBatch) -> NoteReply:
        """Store the notes of the node's own executions; repeating a batch changes nothing."""
        now = self._system.now()
        stale: list[str] = []
        parts: list[LogPart] = []
        moved: list[tuple[str, Progress]] = []
        if batch.session_id not in self._state.sessions:
            # Another master may just have opened it.
            await self._state.refresh.nodes([node_id])
        for note in batch.notes:
            if not await self._is_writer(node_id, batch.session_id, note.execution_id, now):
                stale.append(note.execution_id)
                continue
            if note.progress is not None:
                self._remember(note.execution_id, note.progress, now)
                moved.append((note.execution_id, note.progress))
            if note.lines or note.left_out is not None:
                parts.append(_part(note, now))
        if parts:
            await self._store.append_logs(parts)
            for part in parts:
                self._wake(part.execution_id)
        if moved:
            for hear in self._progress_hearers:
                await hear(moved)
        return NoteReply(stale=tuple(stale))

    def progress(self, execution_id: str | None) -> Progress | None:
        """Return the last progress of a live execution; `None` if it reported none."""
        if execution_id is None or execution_id not in self._state.leases:
            return None
        return self._progress.get(execution_id, (0.0, None))[1]

    def sum_up(self, task_id: str, shards: Sequence[Shard]) -> Progress | None:
        """Return the joint progress of a task's shards; `None` if none of them has reported any.
        For a crawl, whose shards share one frontier, the counts of the frontier are its progress.
        """
        if (counts := self._counts(task_id)) is not None:
            return Progress(done=counts.pages, total=counts.known, at=self._system.now())
        told = [each for each in map(self._shard_progress, shards) if each is not None]
        if not told:
            return None
        totals = [each.total for each in told if each.total is not None]
        return Progress(
            done=sum(each.done for each in told),
            # As long as some have not begun, nobody knows how much there is in all.
            total=sum(totals) if len(totals) == len(shards) else None,
            at=max(each.at for each in told) or self._system.now(),
        )

    def _shard_progress(self, shard: Shard) -> Progress | None:
        if (live := self.progress(shard.execution_id)) is not None:
            return live
        if "progress_done" not in shard.metrics:
            return None
        return Progress(
            done=shard.metrics["progress_done"], total=shard.metrics.get("progress_total")
        )

    async def execution(self, execution_id: str) -> Execution:
        """The execution, or `NotFound`."""
        lease = self._state.leases.get(execution_id)
        found = lease.execution if lease else await self._store.execution(execution_id)
        if found is None:
            raise NotFound("execution", execution_id)
        return found

    async def newest_execution(self, task_id: str) -> Execution | None:
        """The last attempt at a task, if there was one."""
        attempts = await self._store.executions(task_id)
        return attempts[-1] if attempts else None

    async def find(
        self, execution_id: str, *, after: int, limit: int, wanted: LineFilter = ALL
    ) -> tuple[list[LogLine], str | None]:
        """Return a page of lines in order, and where the next one begins.

        A search ends after a while: then it returns fewer lines, perhaps none, and the position
        from which to go on.
        """
        lines, position, is_more = await self._look(execution_id, after, limit, wanted)
        return lines, str(position) if is_more else None

    async def _look(
        self, execution_id: str, after: int, limit: int, wanted: LineFilter
    ) -> tuple[list[LogLine], int, bool]:
        """Return matching lines, the position reached, and whether there may be more."""
        if wanted.is_search:
            return await self._search(execution_id, after, limit, wanted)
        found = await self._store.logs(
            execution_id, after=after, limit=limit + 1, levels=_levels(wanted.least)
        )
        page = found[:limit]
        return page, page[-1].seq if page else after, len(found) > limit

    async def _search(
        self, execution_id: str, after: int, limit: int, wanted: LineFilter
    ) -> tuple[list[LogLine], int, bool]:
        loop = asyncio.get_running_loop()
        until = loop.time() + SEARCH_S
        found: list[LogLine] = []
        while True:
            lines = await self._store.logs(
                execution_id, after=after, limit=PORTION, levels=_levels(wanted.least)
            )
            is_end = len(lines) < PORTION
            turn = loop.time() + TURN_S
            for line in lines:
                after = line.seq
                if wanted.takes(line):
                    found.append(line)
                if len(found) == limit or loop.time() > until:
                    return found, after, not is_end or line is not lines[-1]
                if loop.time() > turn:
                    await asyncio.sleep(0)
                    turn = loop.time() + TURN_S
            if is_end:
                return found, after, False

    @contextmanager
    def follow(
        self, execution_id: str, *, after: int, wanted: LineFilter = ALL, name: str = ""
    ) -> Iterator[AsyncGenerator[LogNews, None]]:
        """Stream new lines for as long as the block is entered, until the execution has ended.

        An item without lines comes every few seconds when there are none. Raises `Busy` when there
        are too many followers, or too many with this name.
        """
        with self._places.take(name):
            news = asyncio.Event()
            self._followers.setdefault(execution_id, set()).add(news)
            try:
                yield self._news(execution_id, after, wanted, news)
            finally:
                self._followers[execution_id].discard(news)
                if not self._followers[execution_id]:
                    del self._followers[execution_id]

    def dismiss(self) -> None:
        """End all followers, because the master stops; they connect to the next master."""
        self._dismissed = True
        for execution_id in [*self._followers]:
            self._wake(execution_id)

    async def _news(
        self, execution_id: str, position: int, wanted: LineFilter, news: asyncio.Event
    ) -> AsyncGenerator[LogNews, None]:
        loop = asyncio.get_running_loop()
        until, told = loop.time() + MAX_FOLLOWED_S, loop.time()
        yield LogNews(position=position)
        while not self._dismissed and loop.time() < until:
            news.clear()
            # Whether it is over is asked before the lines, so that none can come in between.
            over = await self._is_over(execution_id)
            lines, position, is_more = await self._look(execution_id, position, PORTION, wanted)
            if lines:
                told = loop.time()
                yield LogNews(lines=lines, position=position)
            if is_more:
                continue
            if over:
                yield LogNews(position=position, is_end=True)
                return
            if loop.time() - told > HEARTBEAT_S:
                told = loop.time()
                yield LogNews(position=position)
            try:
                async with asyncio.timeout(LOOK_S):
                    await news.wait()
                await asyncio.sleep(PAUSE_S)
            except TimeoutError:
                continue

    async def _is_over(self, execution_id: str) -> bool:
        """Return whether no more lines of an execution are expected."""
        if execution_id in self._state.leases:
            return False
        execution = await self._store.execution(execution_id)
        if execution is None:
            return True
        ended = execution.status not in LIVE_EXECUTION
        return ended and self._system.now() - (execution.end_time or 0.0) > SETTLED_S

    async def _is_writer(
        self, node_id: str, session_id: str, execution_id: str, now: float
    ) -> bool:
        lease = self._state.leases.get(execution_id)
        if lease is not None:
            mine = lease.execution.node_id == node_id and lease.execution.session_id == session_id
            return mine and session_id in self._state.sessions
        ended = await self._store.execution(execution_id)
        if ended is None or ended.node_id != node_id or ended.session_id != session_id:
            return False
        return ended.end_time is None or now - ended.end_time <= LATE_S

    def _remember(self, execution_id: str, progress: Progress, now: float) -> None:
        known = self._progress.get(execution_id)
        if execution_id not in self._state.leases or (known and known[0] > progress.at):
            return
        if len(self._progress) > 2 * len(self._state.leases) + PORTION:
            living = self._state.leases
            self._progress = {id: each for id, each in self._progress.items() if id in living}
        seen = msgspec.structs.replace(progress, at=min(progress.at, now))
        self._progress[execution_id] = progress.at, seen
        lease = self._state.leases[execution_id]
        if lease.task.task_type == CRAWL and (pages := self._new_pages(lease, int(progress.done))):
            self._state.counters.note_pages(lease.task.project_id, pages, at=now)

    def _new_pages(self, lease: Lease, done: int) -> int:
        """Return how many pages a crawl has read since its last report. An attempt that goes on
        from an earlier one reports the pages of both.
        """
        before = self._pages.pop(lease.task.id, None)
        if before is None:
            is_first = not (lease.task.retry_count or lease.task.loss_count)
            is_ours = lease.execution.start_time >= self._state.counters.since
            before = 0 if is_first and is_ours else done
        self._pages[lease.task.id] = done
        while len(self._pages) > 2 * len(self._state.leases) + PORTION:
            del self._pages[next(iter(self._pages))]
        return max(done - before, 0)

    def _wake(self, execution_id: str) -> None:
        for news in self._followers.get(execution_id, ()):
            news.set()


def _levels(least: LogLevel) -> tuple[LogLevel, ...]:
    return () if least is LogLevel.DEBUG else levels_from(least)


def _part(note: Note, now: float) -> LogPart:
    """Return the part of a note to store: too long lines are cut, and none is refused."""
    lines = [_kept(line, now) for line in note.lines]
    gap = note.left_out
    if gap is not None:
        lines = [line for line in lines if not gap.first <= line.seq <= gap.last]
        lines.append(left_out_line(gap, at=now))
    return LogPart(execution_id=note.execution_id, lines=tuple(lines), left_out=gap)


def _kept(line: LogLine, now: float) -> LogLine:
    message, fields, _ = trim(line.message, line.fields)
    return LogLine(
        seq=line.seq, at=min(line.at, now), level=line.level, message=message, fields=fields
    )
