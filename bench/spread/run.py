"""`python -m bench.spread`: one crawl by one, two, four, eight processes, and beside its peers."""

import argparse
import os
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Final

import msgspec
from rich.console import Console

from bench import peers, sheets
from bench.crawl.floor import fetch_all
from bench.crawl.turn import Place, WrongWork
from bench.machine import add_wait, await_quiet, machine
from bench.spread import tables
from bench.spread.alone import crawl_alone
from bench.spread.contenders import CONTENDERS, Contender
from bench.spread.figures import Alone, Killed, Report, Settings, Spread, spread_of
from bench.spread.theirs import PACKAGES, VENV
from bench.spread.turn import Turn, checked, truth
from crawlfleet.model.crawl.parameters import CrawlParameters
from crawlfleet.testing.known_site import ServedSite, SiteSpec

PARTS: Final = ("latency", "host", "cpu", "kill")
ROUNDS: Final = 3
QUICK_SHARE: Final = 0.2
LEAST_MS, MAX_MS = 50.0, 200.0
HOSTS_EACH: Final = 8
"""Hosts for each process, where answers take their time."""
AT_ONCE: Final = 2
"""Requests to one of them."""
HOST_PAGES: Final = 300
CPU_AT_ONCE: Final = 16
STAYING: Final = 0.85
"""The share of links that stay on their host, as most do on most sites."""
KILLED: Final = SiteSpec(
    pages=3_000, hosts=16, page_bytes=4_000, latency_ms=MAX_MS, least_latency_ms=LEAST_MS
)
ALONE_PAGES: Final = 20_000
"""Of the site of each of those that share nothing."""


class Bench:
    """One run; contenders take turns within each round, so that they share the machine's moods."""

    def __init__(
        self, contenders: Sequence[Contender], *, rounds: int, quick: bool, console: Console
    ) -> None:
        self._contenders = contenders
        self._ours = [each for each in contenders if not each.is_peer]
        self._rounds = rounds
        self._quick = quick
        self._share = QUICK_SHARE if quick else 1.0
        self._counts = (1, 2) if quick else (1, 2, 4)
        """Processes where CPU is measured."""
        self._console = console
        self.missing: dict[str, str] = {}

    def latency(self) -> list[Spread]:
        """Twice the processes have twice the hosts to visit; are they as quick?"""
        return self._waiting(lambda processes: (HOSTS_EACH * processes, AT_ONCE))

    def host(self) -> list[Spread]:
        """All of them have one host, which allows twice the requests for twice the processes."""
        return self._waiting(lambda processes: (1, HOSTS_EACH * AT_ONCE * processes))

    def _waiting(self, site_for: Callable[[int], tuple[int, int]]) -> list[Spread]:
        """Answers take their time; so many hosts, and requests to each, for so many processes."""
        found: dict[tuple[Contender, int], list[Turn]] = defaultdict(list)
        ideal: dict[int, float] = {}
        each_pages = HOSTS_EACH * (int(HOST_PAGES * self._share) + 40)
        for number in range(self._rounds):
            for processes in (1, 2, 4) if self._quick else (1, 2, 4, 8):
                hosts, at_once = site_for(processes)
                spec = waiting_site(hosts, each_pages * processes)
                with ServedSite(spec) as site:
                    ideal[processes] = ideal_per_s(spec, at_once)
                    for each in self._ours:
                        turn = self._turn(each, site, processes, at_once, number)
                        if turn is not None:
                            found[each, processes].append(turn)
        return [
            spread_of(each.name, each.title, number, turns, ideal_per_s=ideal[number])
            for (each, number), turns in found.items()
        ]

    def cpu(self) -> tuple[list[Spread], list[Alone]]:
        """The same site for however many processes; the cost of a page is what counts. Beside it as
        many crawls at once, each with a site and a fleet of its own."""
        rates: dict[int, list[float]] = defaultdict(list)
        pages = int(ALONE_PAGES * self._share)
        with ExitStack() as stack:
            sites = [self._served(pages, STAYING, stack) for _ in range(max(self._counts))]

            def measure_alone(processes: int, number: int) -> None:
                rates[processes] += self._alone(sites[:processes], number)

            spreads = self._working(self._contenders, STAYING, measure_alone)
        return spreads, [
            Alone(processes=processes, pages=pages, per_cpu_s=statistics.median(found))
            for processes, found in rates.items()
            if found
        ]

    def anywhere(self) -> list[Spread]:
        """The same with links that lead anywhere: each process meets those of the whole site."""
        return self._working(self._ours, 0.0)

    def _working(
        self,
        contenders: Sequence[Contender],
        staying: float,
        measure_beside: Callable[[int, int], None] = lambda processes, number: None,
    ) -> list[Spread]:
        found: dict[tuple[Contender, int], list[Turn]] = defaultdict(list)
        sizes = sorted({int(each.pages * self._share) for each in contenders})
        with ExitStack() as stack:
            sites = {pages: self._served(pages, staying, stack) for pages in sizes}
            for number, processes in product(range(self._rounds), self._counts):
                measure_beside(processes, number)
                for each in contenders:
                    site = sites[int(each.pages * self._share)]
                    turn = self._turn(each, site, processes, CPU_AT_ONCE, number)
                    if turn is not None:
                        found[each, processes].append(turn)
        order = [each.name for each in contenders]
        found_in_order = sorted(found.items(), key=lambda pair: order.index(pair[0][0].name))
        return [
            spread_of(each.name, each.title, processes, turns)
            for (each, processes), turns in found_in_order
        ]

    def _served(self, pages: int, staying: float, stack: ExitStack) -> ServedSite:
        site = stack.enter_context(ServedSite(SiteSpec(pages=pages, local=staying)))
        # A site is elsewhere: here it must not interrupt those who are measured at each request.
        os.sched_setscheduler(site.pid, os.SCHED_BATCH, os.sched_param(0))
        fetch_all(Place(site))
        return site

    def kill(self) -> list[Killed]:
        """Two processes, one of which is killed in the middle, and another started."""
        spec = msgspec.structs.replace(KILLED, pages=int(KILLED.pages * max(self._share, 0.5)))
        found: dict[Contender, list[Turn]] = defaultdict(list)
        with ServedSite(spec) as site:
            for number in range(self._rounds):
                for each in self._contenders:
                    turn = self._turn(each, site, 2, AT_ONCE, number, kill_after=spec.pages // 2)
                    if turn is not None:
                        found[each].append(turn)
        return [
            Killed(
                name=each.name,
                title=each.title,
                pages=spec.pages,
                items=truth(spec).total(),
                lost=[turn.lost for turn in turns],
                again=[turn.again for turn in turns],
                items_lost=[turn.items_lost for turn in turns],
                items_again=[turn.items_again for turn in turns],
            )
            for each, turns in found.items()
        ]

    def _alone(self, sites: Sequence[ServedSite], number: int) -> list[float]:
        """Pages a CPU-second of crawls that share nothing; none if one fails."""
        with _folder() as folder:
            try:
                turns = crawl_alone(sites, folder, concurrency=CPU_AT_ONCE)
            except (WrongWork, RuntimeError, OSError, TimeoutError) as error:
                self.missing[f"{len(sites)} crawls that share nothing"] = str(error)
                return []
        rate = len(turns) / sum(1 / turn.per_cpu_s for turn in turns)
        self._say(f"round {number + 1}: {len(sites)} that share nothing: {rate:,.0f} a CPU-second")
        return [rate]

    def _turn(
        self,
        contender: Contender,
        site: ServedSite,
        processes: int,
        concurrency: int,
        number: int,
        *,
        kill_after: int | None = None,
    ) -> Turn | None:
        """One that fails is reported, and the others are measured all the same."""
        with _folder() as folder:
            try:
                turn = contender.work(site, folder, processes, concurrency, kill_after)
                if kill_after is None:
                    checked(turn)
            except (WrongWork, RuntimeError, OSError, TimeoutError) as error:
                self.missing[f"{contender.title}, {processes} processes"] = str(error)
                self._say(f"[red]{contender.title}, {processes} processes: {error}[/]")
                return None
        costs = ", ".join(
            f"{kind} {spent / turn.pages * 1e3:.3f}" for kind, spent in turn.cpu_s.items()
        )
        self._say(
            f"round {number + 1}: {contender.title}, {processes} processes: {turn.per_s:,.0f} pages"
            f" a second, {turn.per_cpu_s:,.0f} a CPU-second (CPU-ms a page: {costs})"
            + (f"; {turn.lost} lost, {turn.again} again" if kill_after is not None else "")
        )
        return turn

    def _say(self, text: str) -> None:
        self._console.print(f"[dim]{datetime.now(UTC):%H:%M:%S}[/] {text}", highlight=False)


def _knows_redis() -> bool:
    try:
        msgspec.convert({"url": "http://a.example/", "frontier": "redis"}, CrawlParameters)
    except msgspec.ValidationError:
        return False
    return True


def waiting_site(hosts: int, pages: int) -> SiteSpec:
    """A site whose hosts take their time."""
    return SiteSpec(
        pages=pages,
        hosts=hosts,
        page_bytes=4_000,
        latency_ms=MAX_MS,
        least_latency_ms=LEAST_MS,
    )


def ideal_per_s(spec: SiteSpec, at_once: int) -> float:
    """Pages a second if every host always had its requests under way."""
    mean_s = sum(map(spec.latency_s, range(spec.pages))) / spec.pages
    return spec.hosts * at_once / mean_s


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="bench-spread-", ignore_cleanup_errors=True) as name:
        yield Path(name)


def options_of(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.spread", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a fifth of the pages, one round")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures there")
    parser.add_argument("--only", nargs="+", metavar="PART", choices=PARTS, default=PARTS)
    names = [each.name for each in CONTENDERS]
    parser.add_argument("--who", nargs="+", metavar="NAME", choices=names, default=names)
    parser.add_argument("--rounds", type=int, help=f"{ROUNDS} unless told")
    add_wait(parser)
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> Report:
    options = options_of(arguments)
    console = Console(width=150)
    # So that everything is stopped, in order, when somebody stops this.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    contenders = [each for each in CONTENDERS if each.name in options.who]
    versions, missing = {}, {}
    if any(each.is_peer for each in contenders):
        try:
            versions = peers.prepare(VENV, PACKAGES)
            if not shutil.which("redis-server"):
                raise peers.Missing("redis-server is not installed; apt-get install redis-server")
        except peers.Missing as why:
            contenders = [each for each in contenders if not each.is_peer]
            missing["scrapy-redis"] = str(why)
    if not _knows_redis():
        contenders = [each for each in contenders if each.name != "redis"]
        missing["crawlfleet, Redis"] = "crawls of this version keep no frontier on Redis"
    rounds = options.rounds or (1 if options.quick else ROUNDS)
    bench = Bench(contenders, rounds=rounds, quick=options.quick, console=console)
    facts = machine(await_quiet(options.wait, console))
    begun = time.monotonic()
    latency = bench.latency() if "latency" in options.only else []
    host = bench.host() if "host" in options.only else []
    measures_cpu = "cpu" in options.only
    cpu, alone = bench.cpu() if measures_cpu else ([], [])
    anywhere = bench.anywhere() if measures_cpu else []
    killed = bench.kill() if "kill" in options.only else []
    report = Report(
        machine=facts,
        versions=versions,
        quick=options.quick,
        rounds=rounds,
        seconds=time.monotonic() - begun,
        load_after=os.getloadavg()[0],
        contenders=[
            Settings(title=each.title, settings=each.settings, counted=each.counted)
            for each in contenders
        ],
        latency=latency,
        host=host,
        cpu=cpu,
        alone=alone,
        anywhere=anywhere,
        killed=killed,
        missing=missing | bench.missing,
    )
    sheets.show(tables.sheets(report), console)
    for each, reason in report.missing.items():
        console.print(f"{each}: not measured: {reason}")
    if options.json:
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(report)))
    return report
