"""`python -m bench.crawl`: one site, crawled by crawlfleet and by its peers in the same run."""

import argparse
import os
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec
from rich.console import Console

from bench import peers, sheets
from bench.crawl import tables
from bench.crawl.crawlers import CRAWLERS, PACKAGES, VENV, Crawler
from bench.crawl.figures import Measured, Report, median
from bench.crawl.floor import Floor, fetch_all
from bench.crawl.profile import profiled
from bench.crawl.turn import Place, Turn, WrongWork, crawl, served
from bench.machine import add_wait, await_quiet, machine

ROUNDS: Final = 3
QUICK_SHARE: Final = 0.2


class Bench:
    """One run; sites are served once for all turns, and every page is made beforehand."""

    def __init__(
        self, crawlers: Sequence[Crawler], *, share: float, folder: Path, console: Console
    ) -> None:
        self._crawlers = crawlers
        self._share = share
        self._folder = folder
        self._console = console
        self._places: dict[int, Place] = {}
        self._count = 0
        self.turns: dict[str, list[Turn]] = {each.name: [] for each in crawlers}
        self.starts: dict[str, float] = {}
        self.missing: dict[str, str] = {}
        self.floor: Floor | None = None

    def prepare(self, stack: ExitStack) -> None:
        for pages in sorted({1, *map(self._pages, self._crawlers)}):
            self._say(f"a site of {pages:,} pages")
            place = self._places[pages] = stack.enter_context(served(pages))
            fetch_all(place)
            self.floor = fetch_all(place)  # of the largest in the end

    def run(self, rounds: int) -> None:
        """Crawlers take turns within each round, so that they share the machine's moods."""
        for crawler in self._crawlers:
            self._turn(crawler, 1)  # so that its modules are compiled, and in the disk's cache
            start = self._turn(crawler, 1)
            if start is not None:
                self.starts[crawler.name] = start.cpu_s
        for number in range(rounds):
            for crawler in self._crawlers:
                turn = self._turn(crawler, self._pages(crawler))
                if turn is not None:
                    self.turns[crawler.name].append(turn)
                    self._say(
                        f"round {number + 1}: {crawler.title}: {turn.per_cpu_s:,.0f} pages a"
                        f" CPU-second, {turn.per_s:,.0f} a second, {turn.peak_mb:.0f} MB"
                    )

    def measured(self) -> dict[str, Measured]:
        found = {}
        for crawler in self._crawlers:
            if turns := self.turns[crawler.name]:
                rates = [turn.per_cpu_s for turn in turns]
                found[crawler.name] = Measured(
                    title=crawler.title,
                    settings=crawler.settings,
                    pages=self._pages(crawler),
                    per_s=median(turns, lambda turn: turn.per_s),
                    per_cpu_s=median(turns, lambda turn: turn.per_cpu_s),
                    per_cpu_range=(min(rates), max(rates)),
                    start_cpu_s=self.starts.get(crawler.name, 0.0),
                    peak_mb=median(turns, lambda turn: turn.peak_mb),
                    server_busy=median(turns, lambda turn: turn.server_busy),
                )
        return found

    def largest(self) -> Place:
        return self._places[max(self._places)]

    def _turn(self, crawler: Crawler, pages: int) -> Turn | None:
        """A crawler that fails is reported, and the others are measured all the same."""
        self._count += 1
        try:
            return crawl(crawler, self._places[pages], self._folder / str(self._count))
        except WrongWork as error:
            self.missing[crawler.title] = str(error)
            self._say(f"[red]{crawler.title}: {error}[/]")
            return None

    def _pages(self, crawler: Crawler) -> int:
        return int(crawler.pages * self._share)

    def _say(self, text: str) -> None:
        self._console.print(f"[dim]{datetime.now(UTC):%H:%M:%S}[/] {text}", highlight=False)


def options_of(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.crawl", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a fifth of the pages, one round")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures there")
    names = [each.name for each in CRAWLERS]
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=names, default=names)
    parser.add_argument("--rounds", type=int, help=f"{ROUNDS} unless told")
    parser.add_argument("--profile", action="store_true", help="also where our own CPU goes")
    add_wait(parser)
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> Report:
    options = options_of(arguments)
    console = Console(width=150)
    # So that everything is stopped, in order, when somebody stops this.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    crawlers = [each for each in CRAWLERS if each.name in options.only]
    versions, missing = {}, {}
    try:
        versions = peers.prepare(VENV, PACKAGES)
    except peers.Missing as why:
        crawlers = [each for each in crawlers if not each.program]
        missing["all peers"] = str(why)
    rounds = options.rounds or (1 if options.quick else ROUNDS)
    with tempfile.TemporaryDirectory(prefix="bench-crawl-") as name, ExitStack() as stack:
        folder = Path(name)
        bench = Bench(
            crawlers, share=QUICK_SHARE if options.quick else 1.0, folder=folder, console=console
        )
        facts = machine(await_quiet(options.wait, console))
        begun = time.monotonic()
        bench.prepare(stack)
        bench.run(rounds)
        report = Report(
            machine=facts,
            versions=versions,
            quick=options.quick,
            rounds=rounds,
            profile=profiled(bench.largest(), folder / "profile") if options.profile else [],
            seconds=time.monotonic() - begun,
            load_after=os.getloadavg()[0],
            crawlers=bench.measured(),
            floor=bench.floor,
            missing=missing | bench.missing,
        )
    sheets.show(tables.sheets(report), console)
    for each, why in report.missing.items():
        console.print(f"{each}: not measured: {why}")
    if options.json:
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(report)))
    return report
