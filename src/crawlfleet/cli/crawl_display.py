"""What one sees while `crawlfleet crawl` runs, and at its end."""

import asyncio
import time
from collections import deque
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from crawlfleet.cli.output import answer_console
from crawlfleet.model.crawl import FETCHED, CrawlParameters, Outcome

if TYPE_CHECKING:
    from crawlfleet.crawl.run import Crawl, Explanation, Progress, Summary
    from crawlfleet.model.frontier import UrlRecord

REFRESH_S: Final = 0.5
RATE_OVER_S: Final = 10.0
LINE_EVERY_S: Final = 5.0
"""Without a terminal a line is written so often."""
SLOW_HOSTS: Final = 3
REMEDIES: Final[Mapping[str, str]] = {
    Outcome.REFUSED: "loopback and private networks are visited with --allow-private",
    Outcome.ROBOTS: "the site's robots.txt keeps crawlers out; ask its owner",
    Outcome.BLOCKED: "the site does not want to be crawled like this; ask its owner",
    Outcome.DNS: "check the spelling of the name",
    Outcome.CONNECT: "check the address and the port, and whether the site is up",
    Outcome.TLS: "check that the site speaks https; else begin its address with http://",
    Outcome.UNWANTED: "only HTML and JSON are read",
}
"""For a crawl that got nothing at all."""


class Display:
    """Live on a terminal, lines elsewhere, nothing when it is told to be quiet."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._console = Console(stderr=True)
        self._past: deque[tuple[float, int]] = deque()
        self._most: int | None = None

    def begin(self, parameters: CrawlParameters, *, resumed: bool, again: bool) -> None:
        """Say what is going to happen."""
        self._most = parameters.limits.max_pages
        if self._quiet:
            return
        seeds = parameters.seeds
        more = f" and {len(seeds) - 1} more" if len(seeds) > 1 else ""
        how = "going on with" if resumed else "revisiting" if again else "crawling"
        self._console.print(Text(f"{how} {seeds[0]}{more}", style="bold"))
        if not (parameters.selectors or parameters.structured) and any(
            spec.format != "warc" for spec in parameters.sinks
        ):
            self._console.print(
                "nothing says what to take from the pages, so that there will be no items: give "
                "--css or --structured, or keep whole pages with -o pages.warc.gz",
                style="yellow",
                soft_wrap=True,
            )

    def already_done(self, summary: "Summary", output: str) -> None:
        """The same crawl has been done before."""
        if not self._quiet:
            self._console.print(
                f"this crawl is finished: {summary.pages} pages, {output}; --revisit looks what "
                "has changed since, --fresh begins anew"
            )

    async def watch(self, crawl: "Crawl", stop: asyncio.Event) -> None:
        """Show how it goes, until cancelled."""
        if self._quiet:
            return
        # A crawl that is gone on with has pages before its first second: they are no speed.
        self._rate(await crawl.progress())
        if not self._console.is_terminal:
            await self._write_lines(crawl)
            return
        with Live(console=self._console, refresh_per_second=4, transient=True) as live:
            while True:
                await asyncio.sleep(REFRESH_S)
                progress = await crawl.progress()
                live.update(self._picture(progress, stopping=stop.is_set()))

    def end(self, summary: "Summary", output: str) -> None:
        """Say how it ended."""
        if self._quiet:
            return
        table = Table.grid(padding=(0, 2))
        rate = summary.requests / summary.elapsed_s if summary.elapsed_s else 0.0
        rows = {
            "pages": f"{summary.pages:,} of {summary.urls:,} URLs",
            "items": f"{summary.items:,}",
            "time": f"{summary.elapsed_s:.1f} s, {rate:.1f} requests/s, "
            f"{summary.bytes / 1e6:.1f} MB",
            "outcomes": _outcomes(summary.outcomes),
            "left out": _counts(summary.rejected),
            "output": output,
        }
        for name, value in rows.items():
            if value:
                table.add_row(Text(name, style="dim"), value)
        title = "finished" if summary.finished else f"{summary.why}: {summary.waiting:,} URLs wait"
        self._console.print(Text(title, style="bold green" if summary.finished else "bold yellow"))
        self._console.print(table)
        if not summary.finished:
            self._console.print("the same command goes on from here")

    def nothing_fetched(self, fates: "list[UrlRecord]") -> None:
        """Say why there was nothing to crawl; not even quiet crawls keep that to themselves."""
        from crawlfleet.crawl.fates import in_words

        for fate in fates:
            line = f"error: no page could be fetched: {in_words(fate)}"
            self._console.print(line, highlight=False, soft_wrap=True, markup=False)
            if remedy := REMEDIES.get(fate.outcome or ""):
                self._console.print(f"  → {remedy}", highlight=False, soft_wrap=True)

    async def _write_lines(self, crawl: "Crawl") -> None:
        while True:
            await asyncio.sleep(LINE_EVERY_S)
            progress = await crawl.progress()
            counts = progress.counts
            trouble = _trouble(counts.outcomes)
            self._console.print(
                f"{counts.pages} pages, {self._rate(progress):.1f}/s, "
                f"{counts.outstanding} waiting, {progress.figures.items} items"
                f"{f', {trouble}' if trouble else ''}{_pause(progress)}",
                highlight=False,
                soft_wrap=True,
            )

    def _picture(self, progress: "Progress", *, stopping: bool) -> RenderableType:
        counts, figures = progress.counts, progress.figures
        rate = self._rate(progress)
        goal = max(min(counts.known, self._most or counts.known), 1)
        bar = Table.grid(padding=(0, 2))
        bar.add_row(
            ProgressBar(total=goal, completed=min(counts.pages, goal), width=32),
            f"{counts.pages:,} pages",
            f"{rate:,.1f}/s",
            f"{counts.outstanding:,} waiting",
            f"{figures.items:,} items",
            _eta(goal - counts.pages, rate),
        )
        lines: list[RenderableType] = [bar]
        if trouble := _trouble(counts.outcomes):
            lines.append(Text(f"  {trouble}", style="yellow"))
        if pause := _pause(progress).removeprefix("; "):
            lines.append(Text(f"  {pause}", style="yellow"))
        slow = [f"{host} {seconds:.1f} s" for host, seconds in figures.slowest(SLOW_HOSTS)]
        if slow:
            lines.append(Text(f"  slowest: {', '.join(slow)}", style="dim"))
        if stopping:
            lines.append(Text("  stopping: finishing what is under way", style="bold yellow"))
        return Group(*lines)

    def _rate(self, progress: "Progress") -> float:
        """Pages a second over the last while."""
        now = time.monotonic()
        self._past.append((now, progress.counts.pages))
        while len(self._past) > 2 and now - self._past[0][0] > RATE_OVER_S:
            self._past.popleft()
        (begun, before), (_, pages) = self._past[0], self._past[-1]
        return (pages - before) / (now - begun) if now > begun else 0.0


def print_explanation(explanation: "Explanation") -> None:
    """What became of a URL, line by line."""
    console = answer_console()
    console.print(Text(explanation.url, style="bold"))
    record = explanation.record
    if record is None:
        rule = f" (rule `{explanation.refused_by}`)" if explanation.refused_by else ""
        console.print(Text(f"not taken in: it {explanation.why}{rule}"))
        return
    table = Table.grid(padding=(0, 2))
    facts = {
        "status": record.status,
        "outcome": record.outcome,
        "HTTP status": record.http_status or None,
        "note": record.note or None,
        "depth": record.depth,
        "visits": record.attempts or None,
        "visited": _instant(record.at),
        "waits until": _instant(record.due) if record.status == "waiting" else None,
        "found on": record.found_on or "nothing: it is where the crawl began",
        "found": _instant(record.found_at),
    }
    for name, value in facts.items():
        if value is not None:
            table.add_row(Text(name, style="dim"), Text(str(value)))
    console.print(table)


def _instant(at: float | None) -> str | None:
    return None if at is None else f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _trouble(outcomes: Mapping[str, int]) -> str:
    return _outcomes({name: count for name, count in outcomes.items() if name not in FETCHED})


def _pause(progress: "Progress") -> str:
    """The last host that is left alone, until it is not any more."""
    pauses = progress.figures.pauses
    if not pauses or time.time() > pauses[-1].until:
        return ""
    host, _, why, _ = pauses[-1]
    return f"; waiting for {host}: {why}"


def _eta(left: int, rate: float) -> str:
    if rate <= 0 or left <= 0:
        return ""
    seconds = left / rate
    if seconds < 90:
        return f"about {seconds:.0f} s for those known"
    return f"about {seconds / 60:.0f} min for those known"


def _outcomes(outcomes: dict[str, int]) -> str:
    return _counts({str(outcome): count for outcome, count in outcomes.items()})


def _counts(counts: dict[str, int]) -> str:
    ranked = sorted(counts.items(), key=lambda pair: -pair[1])
    return ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in ranked)
