"""`web_crawl`: a whole crawl as one task, with its items as the result or in sinks."""

import asyncio
import contextlib
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, Self

import msgspec

from crawlfleet import plugins
from crawlfleet.crawl.assembly import checked
from crawlfleet.crawl.run import Crawl, Summary, rules_of
from crawlfleet.crawl.sinks import name_of, open_sink
from crawlfleet.errors import CrawlfleetError, InvalidRequest, SinkUnusable, StoreUnavailable
from crawlfleet.model.crawl import CrawlParameters
from crawlfleet.model.settings import WorkerSettings
from crawlfleet.model.task import ErrorClass
from crawlfleet.ports.execution import Context, Measured
from crawlfleet.ports.sink import PageRecord, Sink

MOST_INLINE_BYTES: Final = 950_000
"""Of items as JSON; leaves room in the 1 MB that a result may have."""
TELL_EVERY_S: Final = 1.0
INLINE: Final = "result"


class BadCrawl(CrawlfleetError):
    """The parameters are no crawl that could be begun."""

    error_class: ClassVar = ErrorClass.INVALID


class TooMuch(CrawlfleetError):
    """The items do not fit into a result."""

    error_class: ClassVar = ErrorClass.INVALID


class Inline:
    """Implements `crawlfleet.ports.sink.Sink`: keeps items by kind, for the result."""

    wants_bodies = False

    def __init__(self) -> None:
        self.items: dict[str, list[Mapping[str, Any]]] = {}
        self._bytes = 0

    async def open(self, receipt: Any | None) -> None: ...

    async def stage(self, pages: Sequence[PageRecord]) -> Any:
        for page in pages:
            for item in page.items:
                self._bytes += len(msgspec.json.encode(item.fields)) + 1
                self.items.setdefault(item.kind, []).append(item.fields)
        if self._bytes > MOST_INLINE_BYTES:
            raise TooMuch(
                f"the items have more than {MOST_INLINE_BYTES:,} bytes, too many for the result of "
                'a task: name a file in `sinks`, such as [{"url": "/data/items.jsonl"}], or set '
                "`limits.max_pages`"
            )
        return {"bytes": self._bytes}

    async def finish(self) -> Mapping[str, Any]:
        return {"bytes": self._bytes}

    async def close(self) -> None: ...


class WebCrawl:
    """Runs a crawl in this process, or with mates (`workers`)."""

    Parameters: ClassVar[type[msgspec.Struct]] = CrawlParameters

    def __init__(self, *, allow_private: bool) -> None:
        self._allow_private = allow_private

    @classmethod
    def from_settings(cls, settings: WorkerSettings) -> Self:
        return cls(allow_private=settings.allow_private)

    async def run(self, parameters: CrawlParameters, context: Context) -> Measured:
        inline = Inline()
        async with _scratch(context.task_id, lasting=bool(parameters.sinks)) as folder:
            crawl = self._crawl(parameters, inline, folder / "frontier.db")
            telling = asyncio.create_task(_tell(crawl, context), name="tell")
            try:
                summary = await crawl.run(asyncio.Event())
            finally:
                telling.cancel()
                await asyncio.wait([telling])
        await context.progress(summary.pages, summary.urls)
        if not summary.finished:
            await context.log(
                f"not finished: {summary.why}", level="warning", waiting=summary.waiting
            )
        data = {"sinks": summary.output} if parameters.sinks else inline.items
        return Measured(data=data, metrics=_metrics(summary))

    def _crawl(self, parameters: CrawlParameters, inline: Inline, frontier: Path) -> Crawl:
        open_frontier = plugins.load_one(plugins.FRONTIERS, "sqlite")
        try:
            _, plan = checked(parameters)
            sinks: dict[str, Sink] = {
                name_of(spec): open_sink(spec, plan) for spec in parameters.sinks
            }
            return Crawl(
                parameters,
                frontier=open_frontier(path=frontier, rules=rules_of(parameters)),
                sinks=sinks or {INLINE: inline},
                allow_private=self._allow_private and parameters.fetching.allow_private,
            )
        except InvalidRequest as error:
            wrong = (f"`{each.field}` {each.message}; {each.remedy}" for each in error.problems)
            raise BadCrawl(", and ".join(wrong)) from error


@contextlib.asynccontextmanager
async def _scratch(task_id: str, *, lasting: bool) -> AsyncIterator[Path]:
    """A folder for the frontier. A lasting one outlives an attempt that died, or whose disk was
    full, for the next one on this machine to go on from; but not an attempt that was stopped."""
    if not lasting:
        with tempfile.TemporaryDirectory(prefix="crawlfleet-crawl-") as name:
            yield Path(name)
        return
    folder = Path(tempfile.gettempdir()) / f"crawlfleet-crawls-{os.getuid()}" / task_id
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        yield folder
    except (SinkUnusable, StoreUnavailable):
        raise
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    shutil.rmtree(folder, ignore_errors=True)


async def _tell(crawl: Crawl, context: Context) -> None:
    """Let people know how far it has got, until cancelled."""
    while True:
        await asyncio.sleep(TELL_EVERY_S)
        progress = await crawl.progress()
        await context.progress(progress.counts.pages, progress.counts.known)
        pauses = progress.figures.pauses
        while pauses:
            pause = pauses.popleft()
            await context.log(
                "host left alone", host=pause.host, seconds=round(pause.seconds, 1), why=pause.why
            )


def _metrics(summary: Summary) -> dict[str, float]:
    return {
        "pages_crawled": summary.pages,
        "data_size": summary.bytes,
        "items": summary.items,
        "urls": summary.urls,
        "requests": summary.requests,
        "retries": summary.retries,
    }
