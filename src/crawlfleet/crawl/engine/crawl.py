"""Runs one crawl from its seeds to its end in this process; the frontier makes it resumable.

crawl = CrawlRun(parameters, frontier=frontier, sinks={"items": sink}, allow_private=False)
summary = await crawl.run(stop)
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from crawlfleet.core.crawls.empty_fields import ENOUGH_PAGES
from crawlfleet.core.crawls.figures import failed_in
from crawlfleet.core.urls.scope import ScopeRefusal
from crawlfleet.crawl.engine.build import checked, engine_of, fetcher_of, links_of
from crawlfleet.crawl.engine.committer import Committer, Member
from crawlfleet.crawl.engine.control import Reins
from crawlfleet.crawl.engine.gc import crawling
from crawlfleet.crawl.engine.processes import Crew
from crawlfleet.crawl.politeness.robots_gate import NoLedger
from crawlfleet.crawl.work import WorkFigures
from crawlfleet.model.crawl.extraction import EmptyFields
from crawlfleet.model.crawl.figures import MAX_HOSTS
from crawlfleet.model.crawl.frontier import (
    FrontierCounts,
    HostFigures,
    UrlRecord,
)
from crawlfleet.model.crawl.notes import ExecutionNotes, NoteTotals
from crawlfleet.model.crawl.parameters import CrawlParameters
from crawlfleet.ports.frontier.frontier import Frontier, UrlRecords
from crawlfleet.ports.ledger import Ledger
from crawlfleet.ports.sink import Sink
from crawlfleet.steady_clock import SteadyClock

LOOK_EVERY_S: Final = 0.05
HELD: Final = "held"
ASK_OTHERS_S: Final = 2.0
"""Interval at which a crawl asks what other executions of it have found."""


class CrawlProgress(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of a crawl."""

    counts: FrontierCounts
    """Committed counts of the whole crawl. The `totals` are committed and of the whole crawl,
    too."""
    totals: NoteTotals
    part: ExecutionNotes
    """The share of this task in the totals, where several tasks share the crawl."""
    figures: WorkFigures
    """Figures of this life of the crawl only."""
    elapsed_s: float


class UrlAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one URL in a crawl."""

    url: str
    """The URL in its canonical form."""
    record: UrlRecord | None = None
    """The frontier's record of the URL; `None` when the frontier never accepted it."""
    refused_by: str | None = None
    """The rule that excludes the URL; `None` if it is not excluded."""
    why: str = ""


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a crawl."""

    finished: bool
    """True when no work is left. Otherwise the same crawl can continue from here."""
    why: str
    pages: int
    """As was committed over all lives of the crawl, as is all but `elapsed_s`, `requests_per_s` and
    `slowest`. Of a shard, `pages`, `urls`, `failed`, `items`, `requests`, `bytes`, `retries` and
    `rejected` are its own part."""
    urls: int
    waiting: int
    outcomes: dict[str, int]
    depths: dict[int, int]
    items: int
    requests: int
    """As `model.crawl_notes.Spent` has them: never fewer than `pages`."""
    bytes: int
    retries: int
    rejected: dict[str, int]
    slowest: dict[str, float]
    """Mean seconds of a response, for the slowest hosts."""
    elapsed_s: float
    """Duration of this life of the crawl."""
    output: dict[str, Mapping[str, Any]]
    """The summary that each sink gives of itself."""
    failed: int = 0
    """URLs that gave an error instead of a page, as `pages` counts."""
    is_barren: bool = False
    """True when the crawl is finished and has no page at all."""
    requests_per_s: float = 0.0
    """Request rate in this life of the crawl."""
    empty_fields: Mapping[str, str] = {}
    """The selectors that matched nothing on any page, by their fields."""
    task_id: str = ""
    """The task of the crawl if a fleet ran it; else empty."""


class CrawlRun:
    """A crawl with its frontier and its sinks."""

    def __init__(
        self,
        parameters: CrawlParameters,
        *,
        frontier: Frontier,
        sinks: Mapping[str, Sink],
        allow_private: bool,
        round: int = 1,
        now: Callable[[], float] | None = None,
        reins: Reins | None = None,
        goes_on: bool = True,
        member: Member | None = None,
        ledger: Ledger | None = None,
        warn: Callable[[EmptyFields], None] = lambda empty: None,
    ) -> None:
        """Create a crawl. Pass `allow_private` only if both the node and the crawl allow private
        addresses.

        In a later `round` the crawl visits all earlier URLs again, with conditional requests; the
        sinks get the changed pages, and marks of pages that are gone. When a limit ends the crawl
        its output is finished, too, unless it `goes_on` some day. As a `member` it shares the
        frontier with other executions, present or earlier. A `ledger` decides when hosts may be
        visited. `warn` is called once if selectors match nothing on many pages.
        """
        self._ledger = ledger
        self._goes_on = goes_on
        self._is_shard = member is not None and member.is_shard
        self._member = member
        self._worker = member.execution_id if member else "local"
        self._reins = reins or Reins()
        self._held_s = 0.0
        self._is_open = asyncio.Event()
        self._is_over = False
        self._counts = FrontierCounts(known=0, waiting=0, leased=0, done=0, pages=0)
        """Counts of the last request to the frontier."""
        self._hosts_at_end: Sequence[HostFigures] = ()
        self._ended: CrawlProgress | None = None
        self._asked_others = 0.0
        self._parameters = parameters
        self._parts = (parameters.split_hosts or 1) if self._is_shard else 1
        """Number of parts of each host. A shard uses the number fixed when the crawl was
        divided."""
        if self._parts > 1 and ledger is None:
            raise NoLedger(
                "this crawl was begun with hosts that several workers visit at once "
                f"(`split_hosts`: {self._parts}), which only the fleet's ledger can keep within "
                "their limits, and there is none: set `ledger` at the masters, or submit the crawl "
                "anew with `split_hosts: 1`"
            )
        self._seeds, plan = checked(parameters, parts=self._parts)
        self._frontier = frontier
        self._sinks = sinks
        self._clock = SteadyClock()
        self._now: Callable[[], float] = self._clock if now is None else now
        self._began = self._now()
        self._keep_bodies = any(sink.wants_bodies for sink in sinks.values())
        self._allow_private = allow_private
        self._round = round
        self._office = Committer(frontier, sinks, round=round, member=member, plan=plan, warn=warn)

    async def run(self, stop: asyncio.Event) -> Summary:
        """Crawl until nothing is left, a limit is reached, or `stop` is set."""
        try:
            await self._office.open()
            await self._frontier.add(self._seeds, self._now())
            self._is_open.set()
            why = await self._visit(stop)
            await self._office.settle()
            await self._office.look()
            self._ended = await self.progress()
            counts = self._ended.counts
            finished = self._is_finished(counts)
            output = {}
            if finished or self._reins.is_ending or not self._goes_on:
                told = {name: await sink.finish() for name, sink in self._sinks.items()}
                output = {name: each for name, each in told.items() if each}
            self._hosts_at_end = await self._frontier.busiest(MAX_HOSTS)
            return self._summary(self._ended, output, finished=finished, why=why)
        finally:
            self._is_over = True
            self._is_open.set()
            await self._office.close()

    async def progress(self) -> CrawlProgress:
        """Return the progress of the crawl. Waits until `run` has opened it. After the end, the
        last progress is returned."""
        await self._is_open.wait()
        if self._ended is not None:
            return self._ended
        counts = self._counts if self._is_over else await self._count()
        return CrawlProgress(
            counts=counts,
            totals=self._office.totals(counts),
            part=self._office.part,
            figures=self._office.figures,
            elapsed_s=self._now() - self._began,
        )

    async def explain(self, address: str) -> UrlAnswer:
        """Return the running crawl's record of an address, or the reason why it does not visit
        it."""
        return await explained(self._parameters, self._frontier, address)

    async def hosts(self, limit: int) -> Sequence[HostFigures]:
        """The hosts with the most waiting URLs; after the end as they were then."""
        if self._is_over:
            return self._hosts_at_end[:limit]
        return await self._frontier.busiest(limit)

    async def _visit(self, stop: asyncio.Event) -> str:
        """Why it ended."""
        while True:
            why = await self._visit_unheld(stop)
            if why != HELD:
                return why
            begun = self._now()
            while self._reins.is_held and not self._reins.is_ending and not stop.is_set():
                await self._reins.wait(LOOK_EVERY_S * 10)
            self._held_s += self._now() - begun

    async def _visit_unheld(self, stop: asyncio.Event) -> str:
        over = asyncio.Event()
        engine = asyncio.create_task(self._run_engines(over), name="engines")
        stopped = asyncio.create_task(stop.wait(), name="stop")
        why = "stopped"
        try:
            while not stop.is_set() and not engine.done():
                await asyncio.wait(
                    [engine, stopped], timeout=LOOK_EVERY_S, return_when=asyncio.FIRST_COMPLETED
                )
                reason = await self._reason_to_end()
                if reason is not None:
                    why = reason
                    break
            over.set()
            await engine
        finally:
            stopped.cancel()
            if not engine.done():
                engine.cancel()
                await asyncio.wait([engine])
        return why

    async def _reason_to_end(self) -> str | None:
        """Return the reason why the crawl should end now; `None` if it should not."""
        if self._is_shard and self._now() - self._asked_others > ASK_OTHERS_S:
            self._asked_others = self._now()
            await self._office.look()
        if self._is_finished(await self._count()):
            return "finished"
        most_s = self._parameters.limits.max_seconds
        if most_s is not None and self._now() - self._began - self._held_s > most_s:
            return f"limits.max_seconds ({most_s:g}) are over"
        if self._reins.is_ending:
            return "ended early, as ordered"
        return HELD if self._reins.is_held else None

    async def _count(self) -> FrontierCounts:
        self._counts = await self._frontier.counts()
        return self._counts

    async def _run_engines(self, over: asyncio.Event) -> None:
        parameters = self._parameters
        if parameters.workers > 1 and not self._is_shard:
            crew = Crew(
                parameters,
                allow_private=self._allow_private,
                keep_bodies=self._keep_bodies,
                revisiting=self._round > 1,
                desk_of=lambda name: self._office.desk(self._mate(name)),
                gone=lambda name: self._frontier.forget(self._mate(name)),
                ledger=self._ledger,
                clock=self._clock,
            )
            await crew.run(over)
            return
        fetcher = fetcher_of(parameters, allow_private=self._allow_private)
        engine = engine_of(
            parameters,
            desk=self._office.desk(self._worker),
            fetcher=fetcher,
            keep_bodies=self._keep_bodies,
            revisiting=self._round > 1,
            now=self._now,
            ledger=self._ledger,
            parts=self._parts,
        )
        try:
            with crawling():
                await engine.run(over)
        finally:
            await fetcher.close()
        # What it was given when it was told to end it has never seen.
        await self._frontier.forget(self._worker)

    def _mate(self, name: str) -> str:
        """Return the name under which a process of this crawl works on a frontier shared with
        others."""
        return name if self._member is None else f"{self._member.execution_id}/{name}"

    def _is_finished(self, counts: FrontierCounts) -> bool:
        most = self._parameters.limits.max_pages
        return counts.outstanding == 0 or (most is not None and counts.pages >= most)

    def _empty_fields(self) -> Mapping[str, str]:
        empty = self._office.empty
        # Of a later round few pages may have been read: those that have changed.
        is_telling = self._round == 1 or empty.pages >= ENOUGH_PAGES
        return dict(empty.selectors) if is_telling else {}

    def _summary(
        self,
        ended: CrawlProgress,
        output: dict[str, Mapping[str, Any]],
        *,
        finished: bool,
        why: str,
    ) -> Summary:
        counts, whole, part, figures = ended.counts, ended.totals, ended.part, ended.figures
        is_shard = self._is_shard
        # Where an earlier version began the crawl, nobody knows what it took until then.
        spent = (part.spent if is_shard else whole.spent) or figures.spent
        elapsed_s = ended.elapsed_s
        return Summary(
            finished=finished,
            why=why,
            pages=part.pages if is_shard else counts.pages,
            urls=part.urls if is_shard else counts.known,
            waiting=counts.outstanding,
            outcomes=dict(counts.outcomes),
            depths=dict(counts.depths),
            items=part.items if is_shard else whole.items,
            failed=part.failed if is_shard else failed_in(counts.outcomes),
            requests=spent.requests,
            bytes=spent.bytes,
            retries=spent.retries,
            rejected=dict(spent.rejected),
            slowest=dict(figures.slowest(10)),
            elapsed_s=elapsed_s,
            requests_per_s=figures.requests / elapsed_s if elapsed_s > 0 else 0.0,
            output=output,
            is_barren=finished and not counts.pages,
            empty_fields=self._empty_fields(),
        )


async def explain(parameters: CrawlParameters, frontier: Frontier, address: str) -> UrlAnswer:
    """Return the record of an address in a crawl that is not running, or the reason why the crawl
    would not visit it. Opens and closes the frontier."""
    await frontier.open()
    try:
        return await explained(parameters, frontier, address)
    finally:
        await frontier.close()


async def explained(parameters: CrawlParameters, frontier: UrlRecords, address: str) -> UrlAnswer:
    """Return the record of an address, or the reason why the crawl would not visit it. The frontier
    must be open."""
    seeds, _ = checked(parameters)
    links = links_of(parameters, now=time.time())
    asked = links.seed(address)
    if isinstance(asked, ScopeRefusal):
        return UrlAnswer(url=address, refused_by=asked.rule, why=asked.message)
    record = await frontier.record(asked.id)
    if record is not None:
        return UrlAnswer(url=asked.url, record=record)
    found = links.follow(seeds[0].url, asked.url)
    if isinstance(found, ScopeRefusal):
        return UrlAnswer(url=asked.url, refused_by=found.rule, why=found.message)
    return UrlAnswer(url=asked.url, why="belongs to the crawl, but no page has led to it so far")
