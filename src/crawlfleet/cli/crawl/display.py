"""The display of `crawlfleet crawl`: progress while it runs, and a summary at its end."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from rich.console import Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from crawlfleet.cli.crawl.progress import Look, Sight
from crawlfleet.cli.shell.errors import say_display_lost
from crawlfleet.cli.shell.output import answer_console, facts, message_console, printable
from crawlfleet.core.crawls.empty_fields import in_words
from crawlfleet.event_loop import alongside
from crawlfleet.model.crawl.extraction import EmptyFields
from crawlfleet.model.crawl.parameters import FETCHED, CrawlParameters, Outcome

if TYPE_CHECKING:
    from crawlfleet.crawl.engine.crawl import Summary, UrlAnswer
    from crawlfleet.model.crawl.frontier import UrlRecord

REFRESH_S: Final = 0.5
RATE_OVER_S: Final = 10.0
FIRST_LINE_S: Final = 1.0
LINE_EVERY_S: Final = 5.0
"""Seconds between two progress lines without a terminal; the first comes after `FIRST_LINE_S`."""
BAR: Final = 32
LEAST_BAR: Final = 8
GAP: Final = "  "
REMEDIES: Final[Mapping[str, str]] = {
    Outcome.REFUSED: "loopback and private networks are visited with --allow-private",
    Outcome.ROBOTS: "the site's robots.txt keeps crawlers out; ask its owner",
    Outcome.PAYMENT_REQUIRED: "the site wants to be paid by crawlers; ask its owner for terms",
    Outcome.BLOCKED: "the site does not want to be crawled like this; ask its owner",
    Outcome.DNS: "check the spelling of the name",
    Outcome.CONNECT: "check the address and the port, and whether the site is up",
    Outcome.TLS: "check that the site speaks https; else begin its address with http://",
    Outcome.UNWANTED: "only HTML and JSON are read",
}
"""Advice for a crawl that fetched nothing, by the outcome of its requests."""


class Display:
    """Shows a crawl: live on a terminal, as lines elsewhere, and not at all when `quiet`."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._console = message_console()
        self._past: deque[tuple[float, int]] = deque()
        self._most: int | None = None

    def begin(self, parameters: CrawlParameters, *, resumed: bool, again: bool) -> None:
        """Announce the crawl."""
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

    def already_done(self, summary: "Summary", output: str, *, on_fleet: bool = False) -> None:
        """Say that this crawl has finished before, and which flags start another round."""
        revisit = "" if on_fleet else "--revisit looks what has changed since, "
        self.say(
            f"this crawl is finished: {summary.pages} pages, {output}; {revisit}--fresh begins anew"
        )

    @asynccontextmanager
    async def shown(self, look: Look, stop: asyncio.Event) -> AsyncIterator[None]:
        """Show how the crawl goes while this is entered. Once `stop` is set, it says that too."""
        async with alongside(self._watch(look, stop), name="display"):
            yield

    async def _watch(self, look: Look, stop: asyncio.Event) -> None:
        """Show the progress until cancelled. If the display fails, the crawl continues and a
        message says so."""
        if self._quiet:
            return
        try:
            if self._console.is_terminal:
                await self._draw(look, stop)
            else:
                await self._write_lines(look)
        except Exception as error:
            say_display_lost(error, "the crawl")

    def say(self, text: str) -> None:
        """Something beside the figures, unless it is to be quiet."""
        if not self._quiet:
            self._console.print(printable(text), highlight=False, soft_wrap=True, markup=False)

    def warn(self, empty: EmptyFields) -> None:
        """Selectors have caught nothing on many pages."""
        self.say(f"warning: {in_words(empty)}; `crawlfleet extract` tries selectors on a page")

    def end(
        self, summary: "Summary", output: str, *, next: str = "the same command goes on from here"
    ) -> None:
        """Say how the crawl ended, and if it is not finished, what to do `next`."""
        if self._quiet:
            return
        again = f", {_put_back(summary.retries)}" if summary.retries else ""
        rows = {
            "pages": f"{summary.pages:,} of {summary.urls:,} URLs",
            "items": f"{summary.items:,}",
            "requests": f"{summary.requests:,}{again}, {summary.bytes / 1e6:.1f} MB",
            "time": f"{summary.elapsed_s:.1f} s, {summary.requests_per_s:.1f} requests/s",
            "outcomes": _outcomes(summary.outcomes),
            "left out": _counts(summary.rejected),
            "caught nothing": _selectors(summary.empty_fields),
            "output": output,
        }
        self._console.print(_title(summary))
        self._console.print(facts((name, value) for name, value in rows.items() if value))
        if not summary.finished:
            self.say(next)

    def nothing_fetched(self, fates: "list[UrlRecord]") -> None:
        """Say why there was nothing to crawl; not even quiet crawls keep that to themselves."""
        from crawlfleet.crawl.engine.seed_outcomes import in_words

        for fate in fates:
            line = f"error: no page could be fetched: {in_words(fate)}"
            self._console.print(line, highlight=False, soft_wrap=True, markup=False)
            if remedy := REMEDIES.get(fate.outcome or ""):
                self._console.print(f"  → {remedy}", highlight=False, soft_wrap=True)

    async def _draw(self, look: Look, stop: asyncio.Event) -> None:
        starting = Text("  starting", style="dim")
        with Live(starting, console=self._console, refresh_per_second=4, transient=True) as live:
            await self._begin_at(look)
            while True:
                live.update(self._picture(await look(), stopping=stop.is_set()))
                await asyncio.sleep(REFRESH_S)

    async def _begin_at(self, look: Look) -> None:
        """Set the count from which the rate is measured: pages of an earlier run do not count."""
        self._rate(await look())

    async def _write_lines(self, look: Look) -> None:
        await self._begin_at(look)
        pause_s = FIRST_LINE_S
        while True:
            await asyncio.sleep(pause_s)
            pause_s = LINE_EVERY_S
            sight = await look()
            trouble, pause = _trouble(sight.outcomes), _pause(sight)
            line = (
                f"{sight.pages} pages, {self._rate(sight):.1f}/s, {sight.outstanding} waiting, "
                f"{sight.items} items{f', {trouble}' if trouble else ''}"
            )
            self.say("; ".join(filter(None, (line, pause, sight.remark))))

    def _picture(self, sight: Sight, *, stopping: bool) -> RenderableType:
        rate = self._rate(sight)
        goal = max(min(sight.known, self._most or sight.known), 1)
        figures = (
            f"{sight.pages:,} pages",
            f"{rate:,.1f}/s",
            f"{sight.outstanding:,} waiting",
            f"{sight.items:,} items",
        )
        bar = ProgressBar(total=goal, completed=min(sight.pages, goal))
        lines: list[RenderableType] = [
            self._fitted(bar, figures, _eta(goal - sight.pages, rate)),
            *(
                Text(f"  {printable(text)}", style="yellow")
                for text in (_trouble(sight.outcomes), _pause(sight), sight.remark)
                if text
            ),
        ]
        slow = [f"{host} {_span(seconds)}" for host, seconds in sight.slowest]
        if slow:
            lines.append(Text(f"  slowest: {', '.join(slow)}", style="dim"))
        if stopping:
            lines.append(Text("  stopping: finishing what is under way", style="bold yellow"))
        return Group(*lines)

    def _fitted(self, bar: ProgressBar, figures: Sequence[str], eta: str) -> RenderableType:
        """Return the figures on one line, with as much of the bar and the time left as fits."""
        room = self._console.width - len(GAP.join(figures)) - len(GAP)
        if eta and room - len(GAP + eta) >= LEAST_BAR:
            room -= len(GAP + eta)
            figures = (*figures, eta)
        line = Text(GAP.join(figures))
        if room < LEAST_BAR:
            return line
        bar.width = min(room, BAR)
        row = Table.grid(padding=(0, len(GAP)))
        row.add_row(bar, line)
        return row

    def _rate(self, sight: Sight) -> float:
        """Pages a second over the last while."""
        now = time.monotonic()
        self._past.append((now, sight.pages))
        while len(self._past) > 2 and now - self._past[0][0] > RATE_OVER_S:
            self._past.popleft()
        (begun, before), (_, pages) = self._past[0], self._past[-1]
        return (pages - before) / (now - begun) if now > begun else 0.0


def _title(summary: "Summary") -> Text:
    if summary.is_barren:
        return Text("nothing fetched", style="bold red")
    if summary.finished:
        return Text("finished", style="bold green")
    left = "1 URL waits" if summary.waiting == 1 else f"{summary.waiting:,} URLs wait"
    return Text(f"{summary.why}: {left}", style="bold yellow")


def print_explanation(explanation: "UrlAnswer") -> None:
    """Print the record of a URL, one fact a line."""
    console = answer_console()
    console.print(Text(explanation.url, style="bold"))
    record = explanation.record
    if record is None:
        rule = f" (rule `{explanation.refused_by}`)" if explanation.refused_by else ""
        console.print(Text(f"not taken in: it {explanation.why}{rule}"))
        return
    rows = {
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
    shown = ((name, Text(str(value))) for name, value in rows.items() if value is not None)
    console.print(facts(shown))


def _instant(at: float | None) -> str | None:
    return None if at is None else f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _trouble(outcomes: Mapping[str, int]) -> str:
    fine = {*FETCHED, Outcome.REDIRECT}
    return _outcomes({name: count for name, count in outcomes.items() if name not in fine})


def _pause(sight: Sight) -> str:
    """The last host that is left alone, until it is not any more."""
    return f"waiting for {sight.pause}" if sight.pause else ""


def _eta(left: int, rate: float) -> str:
    if rate <= 0 or left <= 0:
        return ""
    seconds = left / rate
    if seconds < 90:
        return f"about {seconds:.0f} s for those known"
    return f"about {seconds / 60:.0f} min for those known"


def _span(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{1000 * seconds:.0f} ms"


def _outcomes(outcomes: Mapping[str, int]) -> str:
    return _counts({str(outcome): count for outcome, count in outcomes.items()})


def _put_back(retries: int) -> str:
    return "1 URL put back" if retries == 1 else f"{retries:,} URLs put back"


def _selectors(empty: Mapping[str, str]) -> str:
    return ", ".join(f"{name} ({selector})" for name, selector in empty.items())


def _counts(counts: Mapping[str, int]) -> str:
    ranked = sorted(counts.items(), key=lambda pair: -pair[1])
    return ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in ranked)
