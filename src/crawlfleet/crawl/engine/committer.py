"""Commits the reports of a crawl's engines to the frontier and the sinks, and leases work to each
engine.

Output is staged before the commit that counts it. So after a kill at any point the output has each
visited page once: recovery cuts off output that no commit has counted. A step is never left half
done while the process lives: it goes on when the engine that sent it is gone, and output staged for
a refused step is cut off again.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from typing import Any, NamedTuple

import msgspec

from crawlfleet.core.crawls.empty_fields import (
    ENOUGH_PAGES,
    fields_of,
    selectors_of,
    still_empty,
)
from crawlfleet.crawl.frontier.split_commits import portions
from crawlfleet.crawl.work import EngineReport, Leased, WorkFigures
from crawlfleet.errors import SinkUnusable
from crawlfleet.model.crawl.extraction import EmptyFields, ExtractionPlan
from crawlfleet.model.crawl.frontier import Commit, FrontierCounts, HostCommit
from crawlfleet.model.crawl.notes import (
    NOTES,
    ExecutionNotes,
    NoteTotals,
    Spent,
    added,
    notes_in,
    spent_by,
)
from crawlfleet.model.crawl.parameters import ERRORS, Outcome
from crawlfleet.ports.frontier.frontier import Frontier
from crawlfleet.ports.sink import PageRecord, Sink


class Member(NamedTuple):
    """One of the executions that work, or have worked, for a crawl on one frontier."""

    execution_id: str
    task_id: str
    is_shard: bool = False
    """True when other executions may work on the same crawl. This one's notes then cover only its
    own part."""
    take_surplus: Callable[[], int] = lambda: 0
    """Return the number of hosts that this crawl should give back so that other executions get
    their share."""
    lean: Callable[[str, list[HostCommit]], list[HostCommit]] = lambda _, hosts: hosts
    """Return a worker's commits without the links that the frontier already knows."""
    most_step_bytes: int | None = None
    """Maximum size of one commit, in bytes, if the frontier has such a limit."""


def marked(name: str, execution_id: str) -> str:
    """Return the name of a receipt on a shared frontier, where each execution keeps its own."""
    return f"{name}@{execution_id}" if execution_id else name


class Committer:
    """Commits the reports of engines, one after another."""

    def __init__(
        self,
        frontier: Frontier,
        sinks: Mapping[str, Sink],
        *,
        round: int = 1,
        member: Member | None = None,
        plan: ExtractionPlan | None = None,
        warn: Callable[[EmptyFields], None] = lambda empty: None,
    ) -> None:
        """Create a committer. `warn` is called once if fields of the `plan` have no value on many
        pages. With a `member`, other executions may work on the same frontier: receipts and notes
        are kept under the id of each execution, and the totals of the crawl are added up from all
        of them."""
        self._plan = plan or ExtractionPlan()
        self._warn = warn
        self._has_warned = False
        self._member = member or Member("", "")
        self.surplus = self._member.take_surplus
        self._mark = self._member.execution_id
        self._frontier = frontier
        self._round = round
        self._sinks = sinks
        self._receipts: dict[str, Any] = {}
        self._one_at_a_time = asyncio.Lock()
        self._steps: set[asyncio.Task[Sequence[str]]] = set()
        self._broken: BaseException | None = None
        self.notes = ExecutionNotes()
        self._earlier = ExecutionNotes()
        """Notes of earlier attempts at the same task."""
        self._others = ExecutionNotes()
        """Notes of all other executions that work, or have worked, for the crawl."""
        self.widened: list[str] = []
        """Scope extensions found by any execution in any life of the crawl; the list grows at its
        end."""
        self.figures = WorkFigures()

    async def open(self) -> None:
        """Continue where the last life of the crawl ended, or begin."""
        receipts = await self._frontier.open()
        self.notes = msgspec.convert(receipts.get(marked(NOTES, self._mark)) or {}, ExecutionNotes)
        self._widen(self.notes.widened)
        self._take_others(receipts)
        if self.notes.round != self._round:
            await self._frontier.begin_round(self._round)
            self.notes = ExecutionNotes(widened=self.notes.widened, round=self._round)
        kept = {name: receipts.get(marked(name, self._mark)) for name in self._sinks}
        for name, sink in self._sinks.items():
            await sink.open(kept[name])
        self._receipts = {name: each for name, each in kept.items() if each is not None}
        if new := [name for name, each in kept.items() if each is None]:
            # From now on there is a receipt to go back to: what was staged before the first commit
            # would be taken for somebody else's.
            self._receipts |= {name: await self._stage(name, ()) for name in new}
            await self._frontier.commit("", Commit(hosts=(), receipts=self._marked(self._receipts)))

    async def look(self) -> None:
        """Load the results of the other executions of the crawl."""
        if self._mark:
            self._take_others(await self._frontier.open())

    async def close(self) -> None:
        """Finish all running steps, then close the sinks and the frontier."""
        await self.settle()
        for sink in self._sinks.values():
            await sink.close()
        await self._frontier.close()

    async def settle(self) -> None:
        """Wait for all running steps. Afterwards the sinks contain exactly the committed output."""
        if self._steps:
            await asyncio.wait(self._steps)

    @property
    def part(self) -> ExecutionNotes:
        """Return the known work of this task if it is a shard, else that of all executions of the
        crawl."""
        mine = _sum([self.notes, self._earlier])
        return mine if self._member.is_shard else _sum([mine, self._others])

    @property
    def empty(self) -> EmptyFields:
        """Return the fields that have had no value in any item, of any execution of the crawl."""
        all = _sum([self.notes, self._earlier, self._others])
        return EmptyFields(selectors_of(self._plan, all.empty or ()), all.read)

    def totals(self, counts: FrontierCounts) -> NoteTotals:
        """Return the work of all executions: as the frontier counts it, or else as far as is known
        here."""
        if counts.totals is not None:
            return counts.totals
        known = _sum([self.notes, self._earlier, self._others])
        return NoteTotals(items=known.items, spent=known.spent)

    def desk(self, worker: str) -> "LocalWorkQueue":
        return LocalWorkQueue(self._frontier, self, worker)

    async def take_in(self, worker: str, handed: EngineReport) -> Sequence[str]:
        """Stage the output of a report, then commit it. The step runs to its end even if the caller
        is cancelled."""
        step = asyncio.create_task(self._take_in(worker, handed), name="step")
        self._steps.add(step)
        step.add_done_callback(self._stepped)
        return await asyncio.shield(step)

    async def _take_in(self, worker: str, handed: EngineReport) -> Sequence[str]:
        # In turn: a receipt speaks of all that was staged.
        async with self._one_at_a_time:
            if self._broken is not None:
                raise self._broken
            try:
                return await self._carry_out(worker, handed)
            except BaseException as error:
                # What was staged and what was committed is unknown now; opening anew will tell.
                self._broken = error
                raise

    async def _carry_out(self, worker: str, handed: EngineReport) -> Sequence[str]:
        # A visitor may come back after the lease of its host was lost: its page is somebody else's.
        handed.leave_out(())
        # First: most of it is never looked at again.
        handed.hosts = self._member.lean(worker, handed.hosts)
        if handed.seeds:
            await self._frontier.add(handed.seeds, handed.at)
        lost: list[str] = []
        for number, part in enumerate(self._parts(handed)):
            if number:
                part.hosts = self._member.lean(worker, part.hosts)  # what the last one told of
            if lost:
                part.leave_out(lost)
            while refused := await self._step(worker, part):
                lost += refused
                part.leave_out(refused)
        return lost

    def _parts(self, handed: EngineReport) -> list[EngineReport]:
        """Split a report by the frontier's size limit, or else by partition. A commit concerns one
        partition; the committer commits what is staged for it before it begins the next. Values
        that hold for the whole report stay in its first part."""
        if self._member.most_step_bytes is not None:
            return portions(handed, self._member.most_step_bytes)
        frontier = self._frontier
        numbers = {frontier.partition_of(part.host) for part in handed.hosts}
        if len(numbers) < 2:
            return [handed]
        parts: list[EngineReport] = []
        for number in sorted(numbers):
            others = {h.host for h in handed.hosts if frontier.partition_of(h.host) != number}
            part = copy(handed) if not parts else EngineReport(at=handed.at, hosts=handed.hosts)
            part.pages = handed.pages
            part.leave_out(others)
            parts.append(part)
        return parts

    async def _step(self, worker: str, handed: EngineReport) -> Sequence[str]:
        """Stage and commit; or, when leases were lost, nothing but the names of those hosts."""
        receipts = {}
        if handed.pages:
            receipts = {name: await self._stage(name, handed.pages) for name in self._sinks}
        notes = self._noted(handed)
        kept = {} if notes == self.notes else {NOTES: msgspec.to_builtins(notes)}
        commit = Commit(hosts=handed.hosts, receipts=self._marked({**receipts, **kept}))
        refused = await self._frontier.commit(worker, commit)
        if refused:
            for name in receipts:
                await self._sinks[name].open(self._receipts[name])
            return refused
        self._receipts |= receipts
        self.notes = notes
        self._widen(notes.widened)
        self.figures.count(handed)
        if notes.empty and not self._has_warned:
            empty = self.empty
            if empty.selectors and empty.pages >= ENOUGH_PAGES:
                self._has_warned = True
                self._warn(empty)
        return ()

    async def _stage(self, name: str, pages: Sequence[PageRecord]) -> Any:
        try:
            return await self._sinks[name].stage(pages)
        except OSError as error:
            raise SinkUnusable(
                f"{name} cannot be written: {error.strerror or error}; make room or mend it, "
                "and start the same crawl again: it goes on from here"
            ) from error

    def _marked(self, receipts: Mapping[str, Any]) -> dict[str, Any]:
        return {marked(name, self._mark): receipt for name, receipt in receipts.items()}

    def _take_others(self, receipts: Mapping[str, Any]) -> None:
        mine = marked(NOTES, self._mark)
        told = [notes for name, notes in notes_in(receipts).items() if name not in (NOTES, mine)]
        task_id = self._member.task_id
        self._earlier = _sum([each for each in told if each.task_id == task_id])
        self._others = _sum([each for each in told if each.task_id != task_id])
        for each in told:
            self._widen(each.widened)

    def _widen(self, found: Iterable[str]) -> None:
        self.widened += [url for url in dict.fromkeys(found) if url not in self.widened]

    def _noted(self, handed: EngineReport) -> ExecutionNotes:
        known = self.notes.widened
        new = tuple(url for url in dict.fromkeys(handed.widened) if url not in known)
        visits = [visit for host in handed.hosts for visit in host.visits]
        read = sum(visit.outcome is Outcome.OK for visit in visits)
        empty = self.notes.empty
        if empty is None and read:
            empty = fields_of(self._plan)
        if empty:
            items = (item for page in handed.pages for item in page.items)
            empty = still_empty(self._plan, empty, items)
        return ExecutionNotes(
            items=self.notes.items + sum(len(page.items) for page in handed.pages),
            pages=self.notes.pages + sum(visit.counts for visit in visits),
            urls=self.notes.urls + len(visits),
            failed=self.notes.failed + sum(visit.outcome in ERRORS for visit in visits),
            read=self.notes.read + read,
            empty=empty,
            spent=self._spent(handed),
            widened=known + new,
            round=self.notes.round,
            task_id=self._member.task_id,
        )

    def _spent(self, handed: EngineReport) -> Spent | None:
        """Return the total cost including these pages. It is `None` for a crawl begun by an earlier
        version, which did not note its cost: new notes would pass for the whole."""
        before = spent_by([self.notes])
        if before is None:
            return None
        measures = handed.measures.values()
        spent = Spent(
            requests=sum(each.requests for each in measures),
            bytes=sum(each.bytes for each in measures),
            retries=sum(len(host.retries) for host in handed.hosts),
            rejected=handed.rejected,
        )
        return added(before, spent)

    def _stepped(self, step: asyncio.Task[Sequence[str]]) -> None:
        self._steps.discard(step)
        if not step.cancelled():
            step.exception()  # is told to whoever waits, and to all who come later


def _sum(notes: Iterable[ExecutionNotes]) -> ExecutionNotes:
    """Add up the notes of several executions."""
    done = [*notes]
    known = [each.empty for each in done if each.empty is not None]
    return ExecutionNotes(
        items=sum(each.items for each in done),
        pages=sum(each.pages for each in done),
        urls=sum(each.urls for each in done),
        failed=sum(each.failed for each in done),
        read=sum(each.read for each in done),
        empty=tuple(name for name in known[0] if all(name in each for each in known))
        if known
        else None,
        spent=spent_by(done),
    )


class LocalWorkQueue:
    """Implements `Desk` in the process that has the frontier."""

    def __init__(self, frontier: Frontier, office: Committer, worker: str) -> None:
        self._frontier = frontier
        self._office = office
        self._worker = worker

    async def lease(self, *, hosts: int, urls: int, held: Mapping[str, int], now: float) -> Leased:
        leases = await self._frontier.lease(
            self._worker, hosts=hosts, urls=urls, held=held, now=now
        )
        return Leased(
            leases=leases,
            widened=tuple(self._office.widened),
            surplus=self._office.surplus(),
        )

    async def hand_in(self, handed: EngineReport) -> Sequence[str]:
        return await self._office.take_in(self._worker, handed)
