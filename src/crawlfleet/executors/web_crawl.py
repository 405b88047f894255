"""`web_crawl`: a whole crawl as one task, with its items as the result or in sinks."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, Self, cast

import msgspec

from crawlfleet.crawl.engine.build import checked
from crawlfleet.crawl.engine.committer import Member
from crawlfleet.crawl.engine.control import Reins
from crawlfleet.crawl.engine.crawl import CrawlRun, Summary
from crawlfleet.crawl.engine.figures import Teller
from crawlfleet.crawl.engine.local import local_frontier
from crawlfleet.crawl.engine.seed_outcomes import fates_of_seeds, in_words
from crawlfleet.crawl.engine.seeds import seed_problems
from crawlfleet.crawl.fetch.secrets import NoSuchSecret, with_secrets
from crawlfleet.crawl.frontier.master import MasterFrontier, master_frontier
from crawlfleet.crawl.frontier.remote import RemoteFrontierClient, remote_frontier, where
from crawlfleet.crawl.output.sinks import name_of, on_node, open_sink, planned, sink_problems
from crawlfleet.crawl.output.upload import ItemLines, UploadSink, runs_in, stream_of
from crawlfleet.crawl.politeness.ledger_client import ledger_of
from crawlfleet.errors import (
    CrawlfleetError,
    FieldProblem,
    InvalidRequest,
    SinkUnusable,
    StoreUnavailable,
)
from crawlfleet.event_loop import alongside
from crawlfleet.executors.crawl_folder import scratch
from crawlfleet.model.crawl.extraction import EmptyFields, ExtractionPlan
from crawlfleet.model.crawl.figures import MAX_HOSTS
from crawlfleet.model.crawl.frontier import UrlRecord
from crawlfleet.model.crawl.parameters import FLEET, CrawlParameters, Outcome, SinkSpec
from crawlfleet.model.settings import WorkerSettings
from crawlfleet.model.task import ErrorClass
from crawlfleet.model.wire.output import Run
from crawlfleet.ports.execution import Context, CrawlContext, Measured, OrderHandler
from crawlfleet.ports.frontier.frontier import Frontier
from crawlfleet.ports.ledger import Ledger
from crawlfleet.ports.sink import PageRecord, Sink

MAX_INLINE_BYTES: Final = 950_000
"""Maximum size of the items as JSON; leaves room for the rest in the 1 MB that a result may
have."""
TELL_EVERY_S: Final = 1.0
INLINE: Final = "result"
STORED: Final = "fleet:items"
PAGES: Final = "fleet:pages"
ELSEWHERE: Final = ("master", "redis")
"""Frontiers that outlive the node of a crawl."""
PASSING: Final = frozenset(
    {
        Outcome.BAD_RESPONSE,
        Outcome.BLOCKED,
        Outcome.CONNECT,
        Outcome.DNS,
        Outcome.SERVER_ERROR,
        Outcome.TIMEOUT,
    }
)
"""Outcomes that may improve at another time, or from another node."""


class NothingFetched(CrawlfleetError):
    """Raised when no page of the crawl could be fetched."""

    def __init__(self, fates: Sequence[UrlRecord]) -> None:
        super().__init__("no page could be fetched: " + "; ".join(map(in_words, fates)))
        passing = [fate.outcome for fate in fates if fate.outcome in PASSING]
        self.error_class = ErrorClass.INVALID
        if passing:
            blocked = all(outcome is Outcome.BLOCKED for outcome in passing)
            self.error_class = ErrorClass.BLOCKED if blocked else ErrorClass.NETWORK


class BadCrawl(CrawlfleetError):
    """Raised when no crawl can begin with the parameters."""

    error_class: ClassVar = ErrorClass.INVALID


class TooMuch(CrawlfleetError):
    """Raised when the items do not fit into the result, and no sink keeps them."""

    error_class: ClassVar = ErrorClass.INVALID


class Inline:
    """Implements `crawlfleet.ports.sink.Sink`: keeps items by kind, for the result, for as long as
    they fit into one."""

    wants_bodies = False

    def __init__(self, *, alone: bool) -> None:
        """Set up the sink. With `alone` no other sink keeps the items, so too many of them are an
        error."""
        self.items: dict[str, list[Mapping[str, Any]]] = {}
        self.fits = True
        self._alone = alone
        self._bytes = 0

    async def open(self, receipt: Any | None) -> None:
        """Drop items that were staged after the receipt. If an earlier attempt found some of the
        items, they are not here: the result then has no items at all."""
        kept = {} if receipt is None else receipt["items"]
        self._bytes = 0 if receipt is None else receipt["bytes"]
        held = {kind: self.items.get(kind, [])[:number] for kind, number in kept.items()}
        was_whole = receipt is None or receipt.get("fits", True)
        if was_whole and all(len(held[kind]) == number for kind, number in kept.items()):
            self.items = held
        else:
            self.fits, self.items = False, {}

    async def stage(self, pages: Sequence[PageRecord]) -> Any:
        for page in pages if self.fits else ():
            for item in page.items:
                self._bytes += len(msgspec.json.encode(item.fields)) + 1
                self.items.setdefault(item.kind, []).append(item.fields)
        if self._bytes > MAX_INLINE_BYTES:
            if self._alone:
                raise TooMuch(
                    f"the items have more than {MAX_INLINE_BYTES:,} bytes, too many for the "
                    "result of a task: name a file in `sinks`, such as "
                    '[{"url": "items.jsonl"}], or set `limits.max_pages`'
                )
            self.fits, self.items = False, {}
        counts = {kind: len(items) for kind, items in self.items.items()}
        return {"bytes": self._bytes, "items": counts, "fits": self.fits}

    async def finish(self) -> Mapping[str, Any]:
        return {"bytes": self._bytes}

    async def close(self) -> None: ...


class WebCrawl:
    """Runs a crawl in this process, alone or as one of its `workers`."""

    Parameters: ClassVar[type[msgspec.Struct]] = CrawlParameters
    secrets_as_variables: ClassVar = False

    def __init__(self, *, allow_private: bool, sinks_dir: str = "") -> None:
        """Set up the executor. Sinks of tasks write below `sinks_dir`; without it they are
        refused."""
        self._allow_private = allow_private
        self._sinks_dir = sinks_dir

    @classmethod
    def from_settings(cls, settings: WorkerSettings) -> Self:
        return cls(allow_private=settings.allow_private, sinks_dir=settings.sinks_dir)

    @staticmethod
    def problems(parameters: CrawlParameters) -> Iterator[FieldProblem]:
        """Yield the problems of the seeds and the sinks."""
        yield from seed_problems(parameters)
        yield from sink_problems(parameters)

    async def run(self, parameters: CrawlParameters, context: Context) -> Measured:
        """Run the crawl. Without sinks, items go to the master's storage, and into the result if
        they fit."""
        reins, teller = Reins(), Teller()
        empty = EmptyNews()
        watched = _watched(context)
        keeper = _keeper(parameters, watched)
        async with (
            scratch(context.task_id, lasting=bool(parameters.sinks)) as folder,
            _frontier(parameters, folder, keeper) as (frontier, receipts, keeper),
        ):
            shared = None if keeper is None else frontier
            sinks, inline = await self._sinks(parameters, context, receipts, shared)
            ledger = await ledger_of(context)
            told = with_secrets(parameters, context.secrets)
            crawl = self._crawl(told, sinks, reins, frontier, keeper, ledger, empty)
            if watched is not None:
                watched.handle_orders(_orders(crawl, reins))
            async with alongside(_tell(crawl, context, teller, reins, empty), name="tell"):
                summary = await crawl.run(asyncio.Event())
            barren = summary.is_barren and not reins.is_ending
            fates = await fates_of_seeds(parameters, frontier) if barren else []
            if barren and isinstance(frontier, MasterFrontier | RemoteFrontierClient):
                # The next attempt asks the site again.
                await frontier.open()
                await frontier.discard()
        await context.progress(summary.pages, summary.urls)
        if watched is not None:
            await watched.figures(
                teller.figures(
                    await crawl.progress(),
                    await crawl.hosts(MAX_HOSTS),
                    is_paused=False,
                    is_final=True,
                    now=time.time(),
                    empty_fields=summary.empty_fields,
                )
            )
        if not summary.finished:
            await context.log(
                f"not finished: {summary.why}", level="warning", waiting=summary.waiting
            )
        if summary.empty_fields:
            await context.log(
                "selectors have caught nothing",
                level="warning",
                pages=summary.pages,
                selectors=dict(summary.empty_fields),
            )
        if fates:
            raise NothingFetched(fates)
        data = _result(inline, summary, context)
        return Measured(data=data, metrics=_metrics(summary))

    async def _sinks(
        self,
        parameters: CrawlParameters,
        context: Context,
        receipts: Mapping[str, Any],
        shared: Frontier | None,
    ) -> tuple[dict[str, Sink], Inline | None]:
        """Return the sinks of the output, and the one for the result, if any. `receipts` are those
        of the attempt that this one continues; on a `shared` frontier, those of all executions."""
        with _explaining():
            _, plan = checked(parameters)
            own = [spec for spec in parameters.sinks if not spec.url.startswith(FLEET)]
            sinks = {name_of(spec): self._sink(spec, plan, context.secrets) for spec in own}
            kept = {spec.url: stream_of(spec) for spec in parameters.sinks if spec not in own}
            if sinks and not kept:
                return sinks, None
            whole = planned(SinkSpec(url=STORED), plan)
            archive: Any = open_sink(SinkSpec(url="pages.warc"), plan)
        master = _watched(context)
        if master is None and kept:
            raise BadCrawl("this node hands over no output: name other `sinks` than `fleet:` ones")
        inline = Inline(alone=master is None)
        is_shard = master is not None and master.parent_id is not None
        if shared is not None and (is_shard or any(r.items for r in runs_in(receipts, STORED))):
            inline.fits = False  # others find something, too, so that it would not be whole
        if master is not None:
            items = UploadSink(
                master,
                "items",
                ItemLines(),
                columns=whole.columns,
                kinds=whole.kinds,
                others=_others(shared, STORED),
            )
            await items.open(receipts.get(STORED))
            try:
                await items.begin()
            except SinkUnusable as error:
                if kept:
                    raise
                await context.log("items go into the result alone", why=str(error))
                inline = Inline(alone=True)
            else:
                sinks[STORED] = items
                if "pages" in kept.values():
                    sinks[PAGES] = UploadSink(
                        master, "pages", archive.format, others=_others(shared, PAGES)
                    )
        return (sinks, None) if own else ({INLINE: inline, **sinks}, inline)

    def _sink(self, spec: SinkSpec, plan: ExtractionPlan, secrets: Mapping[str, str]) -> Sink:
        if not self._sinks_dir:
            raise BadCrawl(
                "this node has no folder for sinks of tasks: use `fleet:` sinks, or set "
                "`worker.sinks_dir` at the node"
            )
        try:
            limited = on_node(
                spec, folder=self._sinks_dir, allow_private=self._allow_private, secrets=secrets
            )
        except KeyError as error:
            raise NoSuchSecret(str(error.args[0])) from None
        return open_sink(limited, plan)

    def _crawl(
        self,
        parameters: CrawlParameters,
        sinks: Mapping[str, Sink],
        reins: Reins,
        frontier: Frontier,
        keeper: CrawlContext | None,
        ledger: Ledger | None,
        empty: "EmptyNews",
    ) -> CrawlRun:
        with _explaining():
            return CrawlRun(
                parameters,
                frontier=frontier,
                sinks=sinks,
                allow_private=self._allow_private and parameters.fetching.allow_private,
                reins=reins,
                goes_on=False,
                member=None if keeper is None else _member(keeper, frontier),
                ledger=ledger,
                warn=empty.take,
            )


class EmptyNews:
    """Collects selectors that caught nothing, and logs them once."""

    def __init__(self) -> None:
        self.found: EmptyFields | None = None
        self._is_told = False

    def take(self, empty: EmptyFields) -> None:
        self.found = empty

    async def tell(self, context: Context) -> None:
        """Log the selectors that caught nothing, once."""
        if self.found is not None and not self._is_told:
            self._is_told = True
            await context.log(
                "selectors have caught nothing so far",
                level="warning",
                pages=self.found.pages,
                selectors=dict(self.found.selectors),
            )


@contextlib.contextmanager
def _explaining() -> Iterator[None]:
    """Turn problems of the parameters into the failure of the task (`BadCrawl`)."""
    try:
        yield
    except InvalidRequest as error:
        wrong = (f"`{each.field}` {each.message}; {each.remedy}" for each in error.problems)
        raise BadCrawl(", and ".join(wrong)) from error


def _watched(context: Context) -> CrawlContext | None:
    """Return the context if the node supports the calls of crawls; `None` otherwise."""
    return cast("CrawlContext", context) if getattr(context, "stores_output", False) else None


def _keeper(parameters: CrawlParameters, watched: CrawlContext | None) -> CrawlContext | None:
    """Return the context if the master or a server keeps the frontier; `None` if this node does."""
    own = any(not spec.url.startswith(FLEET) for spec in parameters.sinks)
    if parameters.frontier in ELSEWHERE:
        if own:
            raise BadCrawl(
                f"`frontier` is `{parameters.frontier}`, so that the crawl can go on elsewhere, "
                "but what it has found so far would not be there: use `fleet:` sinks, or leave "
                "`frontier` out"
            )
        if watched is None or not watched.reaches_frontier:
            raise BadCrawl("this node passes nothing on to a frontier elsewhere; update it")
    if own or parameters.frontier == "node" or watched is None or not watched.reaches_frontier:
        return None
    return watched


def _member(keeper: CrawlContext, frontier: Frontier) -> Member:
    member = Member(keeper.execution_id, keeper.task_id, is_shard=keeper.parent_id is not None)
    if not isinstance(frontier, MasterFrontier | RemoteFrontierClient):
        return member
    return member._replace(
        take_surplus=frontier.take_surplus,
        lean=frontier.lean,
        most_step_bytes=frontier.most_step_bytes,
    )


def _others(shared: Frontier | None, sink: str) -> Callable[[], Awaitable[tuple[Run, ...]]] | None:
    if shared is None:
        return None

    async def told() -> tuple[Run, ...]:
        return runs_in(await shared.open(), sink)

    return told


@contextlib.asynccontextmanager
async def _frontier(
    parameters: CrawlParameters, folder: Path, keeper: CrawlContext | None
) -> AsyncIterator[tuple[Frontier, Mapping[str, Any], CrawlContext | None]]:
    """Open the frontier, with the receipts of the attempt that this one continues, and the context
    if another place keeps it. The receipts are needed before any output is sent: the first segment
    names the runs that it continues."""
    frontier: Frontier | None = None
    receipts: Mapping[str, Any] = {}
    if keeper is not None and (placed := await where(keeper)).url:
        frontier = remote_frontier(parameters, placed, keeper.ask_frontier)
        receipts = await frontier.open()
    elif keeper is not None:
        if parameters.frontier == "redis":
            raise BadCrawl("`frontier` is `redis`, and this master keeps no frontiers")
        frontier = master_frontier(parameters, keeper.ask_frontier)
        try:
            receipts = await frontier.open()
        except StoreUnavailable:
            # This master keeps no frontiers.
            if parameters.frontier == "master":
                raise
            frontier = keeper = None
    if frontier is None:
        frontier = local_frontier(parameters, folder / "frontier.db")
        receipts = await frontier.open()
    try:
        yield frontier, receipts, keeper
    finally:
        await frontier.close()


async def _tell(
    crawl: CrawlRun, context: Context, teller: Teller, reins: Reins, empty: EmptyNews
) -> None:
    """Report the progress of a crawl until cancelled. Failures are logged and tried again while the
    crawl goes on."""
    trouble = ""
    while True:
        await asyncio.sleep(TELL_EVERY_S)
        try:
            await _tell_once(crawl, context, teller, reins, empty)
        except Exception as error:
            told = f"{type(error).__name__}: {error}"
            if told != trouble:
                await context.log("its figures cannot be had now", level="warning", why=told)
            trouble = told


async def _tell_once(
    crawl: CrawlRun, context: Context, teller: Teller, reins: Reins, empty: EmptyNews
) -> None:
    progress = await crawl.progress()
    watched = _watched(context)
    if watched is not None and watched.parent_id is not None:
        await context.progress(progress.part.pages)  # how much there is in all is nobody's part
    else:
        await context.progress(progress.counts.pages, progress.counts.known)
    pauses = progress.figures.pauses
    while pauses:
        pause = pauses.popleft()
        teller.remember(pause)
        await context.log(
            "host left alone", host=pause.host, seconds=round(pause.seconds, 1), why=pause.why
        )
    await empty.tell(context)
    if watched is not None:
        figures = teller.figures(
            progress,
            await crawl.hosts(MAX_HOSTS),
            is_paused=reins.is_held,
            now=time.time(),
            empty_fields=empty.found.selectors if empty.found else {},
        )
        await watched.figures(figures)


def _orders(crawl: CrawlRun, reins: Reins) -> OrderHandler:
    """Return the handler of a user's commands to the crawl."""

    async def obey(name: str, arguments: Mapping[str, Any]) -> Any:
        match name:
            case "pause":
                reins.hold()
            case "resume":
                reins.release()
            case "stop":
                reins.end()
            case "explain":
                return await crawl.explain(str(arguments.get("url", "")))
            case _:
                raise BadCrawl(f"a crawl does not know the order {name!r}; update its node")
        return None

    return obey


def _result(inline: Inline | None, summary: Summary, context: Context) -> Mapping[str, Any]:
    if inline is None:
        return {"sinks": summary.output}
    if inline.fits:
        return inline.items
    crawl_id = getattr(context, "parent_id", None) or context.task_id
    return {"items": summary.items, "output": f"/api/v1/crawls/{crawl_id}/output"}


def _metrics(summary: Summary) -> dict[str, float]:
    return {
        "pages_crawled": summary.pages,
        "data_size": summary.bytes,
        "items": summary.items,
        "failed": summary.failed,
        "urls": summary.urls,
        "requests": summary.requests,
        "retries": summary.retries,
        "empty_fields": len(summary.empty_fields),
    }
