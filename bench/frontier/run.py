"""`python -m bench.frontier`: what a page costs in each frontier, beside the bare statements."""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
from rich.console import Console
from tests.support.many_urls import LINKS, PAGES, ManyUrlsReport

from bench import sheets
from bench.frontier import redis, served, sqlite
from bench.frontier.work import KINDS, NEW, Figures
from bench.machine import Machine, add_wait, await_quiet, machine
from bench.sheets import Sheet

STORES: Final[Mapping[str, Callable[[str, int, int], Figures]]] = {
    "sqlite": sqlite.measure,
    "served": served.measure,
    "redis": redis.measure,
    "partitions": lambda kind, known, rounds: redis.measure(kind, known, rounds, 16),
}
KNOWN: Final = (10_000, 1_000_000)
QUICK_KNOWN: Final = (10_000, 100_000)
MANY: Final = (
    *(("sqlite", "exact"), ("sqlite", "bloom"), ("redis", "exact"), ("redis", "bloom")),
    *(("set", "fingerprints"), ("set", "urls")),
)


class Report(msgspec.Struct, frozen=True, kw_only=True):
    machine: Machine
    quick: bool
    seconds: float
    load_after: float
    frontiers: list[Figures] = []
    many: list[ManyUrlsReport] = []


def main(arguments: list[str] | None = None) -> Report:
    parser = argparse.ArgumentParser(prog="bench.frontier", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="100,000 URLs at most, fewer rounds")
    parser.add_argument("--only", nargs="+", choices=STORES, default=[*STORES], metavar="STORE")
    parser.add_argument("--kind", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--known", type=int, nargs="+", help="URLs; 10,000 and 1,000,000")
    parser.add_argument(
        "--many",
        type=int,
        metavar="URLS",
        help="tell so many twice (10,000,000 take half an hour), in place of all the rest",
    )
    parser.add_argument("--rounds", type=int, help="40, or 20 with --quick")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures there")
    add_wait(parser)
    options = parser.parse_args(arguments)
    console = Console(width=170)
    rounds = options.rounds or (20 if options.quick else 40)
    facts = machine(await_quiet(options.wait, console))
    begun = time.monotonic()
    figures: list[Figures] = []
    many = [_told(*each, options.many, console) for each in MANY] if options.many else []
    for known in () if options.many else options.known or (QUICK_KNOWN if options.quick else KNOWN):
        for kind in options.kind:
            for store in options.only:
                figures.append(STORES[store](kind, known, rounds))
                one = figures[-1]
                console.print(f"{one.store}, {kind}, {known:,}: {one.pages_per_s:,.0f} pages/s")
    report = Report(
        machine=facts,
        quick=options.quick,
        seconds=time.monotonic() - begun,
        load_after=os.getloadavg()[0],
        frontiers=figures,
        many=many,
    )
    sheets.show(made(report), console)
    if options.json:
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(report)))
    return report


def made(report: Report) -> list[Sheet]:
    """What was measured."""
    steps = [_steps(report.frontiers)] if report.frontiers else []
    return steps + ([_many(report.many)] if report.many else [])


def _told(store: str, dedup: str, urls: int, console: Console) -> ManyUrlsReport:
    command = [sys.executable, "-m", "tests.support.many_urls", store, dedup, str(urls)]
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    told = msgspec.json.decode(said.splitlines()[-1], type=ManyUrlsReport)
    console.print(f"{told.store}, {dedup}: {urls:,} URLs in {told.seconds:,.0f} s")
    return told


def _many(many: Sequence[ManyUrlsReport]) -> Sheet:
    head = (
        "frontier",
        "dedup",
        "new",
        "taken for known",
        "errors at the end",
        "URLs told a second",
    )
    head += ("CPU µs each", "RAM bytes a URL", "disk", "peak MB of the process", "warnings")
    rows = [
        [
            one.store,
            one.dedup,
            f"{one.new:,}",
            f"{one.urls - one.new:,}",
            f"{one.error:.1e} ({one.wrong:,} of {one.probes:,})" if one.probes else "",
            f"{2 * one.urls / one.seconds:,.0f}",
            f"{(one.cpu_s + one.server_cpu_s) / 2 / one.urls * 1e6:.1f}",
            f"{one.bytes_per_url:.0f}",
            f"{one.disk_bytes_per_url:.0f}" if one.disk_bytes_per_url else "",
            f"{one.peak_mb:,.0f}",
            str(one.warnings),
        ]
        for one in many
    ]
    return Sheet(f"{many[0].urls:,} URLs, each told twice", head, rows)


def _steps(frontiers: Sequence[Figures]) -> Sheet:
    head = ("crawl", "known URLs", "frontier", "pages a second", "links a second", "floor")
    head += ("CPU µs a page: asking", "keeping", "floor", "RAM bytes a URL", "disk", "floor")
    rows = [
        [
            one.kind,
            f"{one.known:,}",
            one.store,
            f"{one.pages_per_s:,.0f}",
            f"{one.pages_per_s * LINKS:,.0f}",
            f"{one.floor_pages_per_s:,.0f}",
            f"{one.client_us:.0f}",
            f"{one.server_us:.0f}" if one.server_us else "",
            f"{one.floor_us:.0f}",
            f"{one.memory_bytes:.0f}",
            f"{one.disk_bytes:.0f}",
            f"{one.floor_bytes:.0f}",
        ]
        for one in sorted(frontiers, key=lambda one: (one.known, one.kind))
    ]
    return Sheet(f"commits of {PAGES} pages with {LINKS} links, {NEW} of them new", head, rows)
