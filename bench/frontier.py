"""What a page costs in the SQLite frontier, when few and when many URLs are known; then in the one
on Redis (`bench.frontier_redis`).

    .venv/bin/python -m bench.frontier [--quick] [--known 10000 1000000] [--json figures.json]

A round leases 400 URLs of 50 hosts and commits their visits, each with 20 links of which one is
new; every commit waits for the disk. CPU is that of the process, the event loop's and the writer's
thread together; links and visits are made beforehand. Memory is what opening the file and the
rounds add to a fresh process. The floor is bare sqlite3 that writes the same rows with
`executemany` into the same tables at the same size, and decides nothing.
"""

import argparse
import asyncio
import json
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec
import psutil
import uvloop
from rich.console import Console
from rich.table import Table

from crawlfleet.backends.frontier.numbers import queue_key
from crawlfleet.backends.frontier.sqlite import SqliteFrontier
from crawlfleet.backends.frontier.tables import PRAGMAS, SCHEMA
from crawlfleet.model.crawl import Outcome
from crawlfleet.model.frontier import (
    Commit,
    FrontierRules,
    HostCommit,
    HostLease,
    Link,
    Visit,
)

HOSTS = 50
PAGES = 400
LINKS = 20
NEW = 1
START = 1_763_193_600.0
WORKER = "bench"


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """Of one size and kind of crawl."""

    known: int
    kind: str
    commit_us: float
    """CPU of a page in commits."""
    lease_us: float
    wall_us: float
    load_s: float
    bytes_per_url: float
    file_bytes_per_url: float
    floor_us: float = 0.0


def link(number: int) -> Link:
    """The `number`-th URL; its id is as random as a fingerprint."""
    mixed = number * 0x9E3779B97F4A7C15 & 2**64 - 1
    mixed = (mixed ^ mixed >> 31) * 0xD6E8FEB86659FD93 & 2**64 - 1
    host = f"https://host-{number % HOSTS}.example"
    url = f"{host}/category-{number % 977}/product-{number}.html?ref=list"
    return Link(mixed - 2**63, url, host)


def rules(kind: str) -> FrontierRules:
    return FrontierRules(
        max_depth=1000 if kind == "limited depth" else None,
        dedup="bloom" if kind == "bloom" else "exact",
        dedup_capacity=1_000_000,
    )


def visits(lease: HostLease, links: list[list[Link]], release: bool) -> HostCommit:
    done = [Visit(one.id, Outcome.OK, 200, START, links.pop()) for one in lease.urls]
    return HostCommit(host=lease.host, token=lease.token, visits=done, release=release)


async def fill(path: Path, kind: str, known: int) -> None:
    """Make a crawl that knows so many URLs and has visited a twentieth of them."""
    frontier = SqliteFrontier(path=path, rules=rules(kind))
    await frontier.open()
    await frontier.add([link(number) for number in range(HOSTS)], START)
    number = HOSTS
    while number < known:
        leases = await frontier.lease(WORKER, hosts=HOSTS, urls=8, held={}, now=START)
        count = sum(len(lease.urls) for lease in leases)
        links = []
        for _ in range(count):
            end = min(number + 20, known)
            links.append([link(one) for one in range(number, end)])
            number = end
        parts = [visits(lease, links, release=True) for lease in leases]
        await frontier.commit(WORKER, Commit(hosts=parts))
    await frontier.close()


def make_batch(chance: random.Random, known: int, number: int) -> list[list[Link]]:
    """The links of the pages of a round; they are as fresh as those of pages just parsed."""
    first = known + number * PAGES
    batch = [[link(chance.randrange(known)) for _ in range(LINKS - NEW)] for _ in range(PAGES)]
    for page, links in enumerate(batch):
        links.insert(chance.randrange(LINKS), link(first + page))
    return batch


async def measure(path: Path, kind: str, known: int, rounds: int) -> Figures:
    """In a fresh process."""
    process = psutil.Process()
    chance = random.Random(1)
    make_batch(chance, known, 0)
    frontier = SqliteFrontier(path=path, rules=rules(kind))
    before = process.memory_info().rss
    began = time.perf_counter()
    await frontier.open()
    load = time.perf_counter() - began
    leasing = committing = 0.0
    began = time.perf_counter()
    preparing = 0.0
    urls = PAGES // HOSTS
    held: dict[str, int] = {}
    for number in range(rounds):
        cpu = time.process_time()
        leases = await frontier.lease(WORKER, hosts=HOSTS, urls=urls, held=held, now=START)
        leasing += time.process_time() - cpu
        aside = time.perf_counter()
        batch = make_batch(chance, known, number)
        held = {lease.host: urls for lease in leases}
        commit = Commit(
            hosts=[visits(lease, batch, release=False) for lease in leases],
            receipts={"pages.jsonl": {"length": 123_456}},
        )
        assert not batch
        preparing += time.perf_counter() - aside
        cpu = time.process_time()
        assert not await frontier.commit(WORKER, commit)
        committing += time.process_time() - cpu
    wall = time.perf_counter() - began - preparing
    counts = await frontier.counts()
    assert counts.known <= known + rounds * PAGES
    assert counts.known + 100 > known + rounds * PAGES
    grown = process.memory_info().rss - before
    await frontier.close()
    size = await asyncio.to_thread(path.stat)
    pages = rounds * PAGES
    return Figures(
        known=known,
        kind=kind,
        commit_us=committing / pages * 1e6,
        lease_us=leasing / pages * 1e6,
        wall_us=wall / pages * 1e6,
        load_s=load,
        bytes_per_url=grown / counts.known,
        file_bytes_per_url=size.st_size / counts.known,
    )


def measure_floor(path: Path, known: int, rounds: int) -> float:
    """CPU µs of a page in bare writes of the same rows."""
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in (*(f"PRAGMA {pragma}" for pragma in PRAGMAS), *SCHEMA):
        connection.execute(statement)

    def url_row(place: int) -> tuple[Any, ...]:
        one = link(place)
        return place, one.id, one.url, place % HOSTS, 1, 0, place // 20, START

    def key(place: int) -> int:
        return queue_key(place % HOSTS, 0, place)

    insert_url = "INSERT INTO urls VALUES (?,?,?,?,?,?,?,?)"
    connection.execute("BEGIN")
    connection.executemany(insert_url, map(url_row, range(known)))
    keys = sorted(key(place) for place in range(known))
    connection.executemany("INSERT INTO queue VALUES (?)", ((one,) for one in keys))
    connection.execute("COMMIT")
    spent = 0.0
    for number in range(rounds):
        done = range(number * PAGES, (number + 1) * PAGES)
        new = range(known + number * PAGES, known + (number + 1) * PAGES)
        rows = [url_row(place) for place in new]
        added = [(key(place),) for place in new]
        removed = [(key(place),) for place in done]
        visited = [(place, "ok", 200, START, 1, 1, None, None) for place in done]
        cpu = time.process_time()
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(insert_url, rows)
        connection.executemany("INSERT INTO queue VALUES (?)", added)
        connection.executemany("DELETE FROM queue WHERE key = ?", removed)
        connection.executemany("INSERT INTO visits VALUES (?,?,?,?,?,?,?,?)", visited)
        connection.execute("COMMIT")
        spent += time.process_time() - cpu
    connection.close()
    return spent / (rounds * PAGES) * 1e6


def in_child(*arguments: object) -> bytes:
    program = [sys.executable, "-m", "bench.frontier", *map(str, arguments)]
    return subprocess.run(program, check=True, stdout=subprocess.PIPE).stdout


def measure_all(kind: str, known: int, rounds: int) -> Figures:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "crawl.db"
        in_child("--fill", path, "--kind", kind, "--known", known)
        said = in_child("--measure", path, "--kind", kind, "--known", known, "--rounds", rounds)
        figures = msgspec.json.decode(said, type=Figures)
        floor = measure_floor(Path(folder) / "floor.db", known, rounds)
    return msgspec.structs.replace(figures, floor_us=floor)


def main(arguments: list[str] | None = None) -> list[Figures]:
    parser = argparse.ArgumentParser(prog="bench.frontier", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="200,000 URLs at most, fewer rounds")
    parser.add_argument("--known", type=int, nargs="+", default=[10_000, 1_000_000])
    parser.add_argument("--kind", default="")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--json", type=Path, help="also write the figures there")
    parser.add_argument("--fill", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.fill:
        uvloop.run(fill(options.fill, options.kind, options.known[0]))
        return []
    if options.measure:
        task = measure(options.measure, options.kind, options.known[0], options.rounds)
        os.write(1, msgspec.json.encode(uvloop.run(task)))
        return []
    if options.quick:
        options.known, options.rounds = [10_000, 200_000], 20
    kinds = [options.kind] if options.kind else ["unlimited", "limited depth", "bloom"]
    # A small crawl cannot lend more than it has waiting.
    figures = [
        measure_all(kind, known, min(options.rounds, known * 9 // 10 // PAGES))
        for kind in kinds
        for known in options.known
    ]
    show(figures)
    if options.json:
        options.json.write_text(json.dumps(msgspec.to_builtins(figures), indent=1))
    if not options.kind:
        from bench import frontier_redis  # which has its rounds from here

        frontier_redis.main(["--quick"] if options.quick else [])
    return figures


def show(figures: list[Figures]) -> None:
    table = Table(title=f"frontier: commits of {PAGES} pages with {LINKS} links, {NEW} of them new")
    for name in (
        *("crawl", "known URLs", "CPU µs a page", "of it lease", "CPU µs a link", "floor"),
        *("wall µs a page", "load s", "RAM bytes a URL", "file bytes a URL"),
    ):
        table.add_column(name, justify="left" if name == "crawl" else "right")
    for one in figures:
        cpu = one.commit_us + one.lease_us
        table.add_row(
            *(one.kind, f"{one.known:,}", f"{cpu:.1f}", f"{one.lease_us:.1f}"),
            *(f"{cpu / LINKS:.2f}", f"{one.floor_us:.1f}", f"{one.wall_us:.1f}"),
            *(f"{one.load_s:.2f}", f"{one.bytes_per_url:.0f}", f"{one.file_bytes_per_url:.0f}"),
        )
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
