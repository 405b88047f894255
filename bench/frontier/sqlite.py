"""The frontier in an SQLite file, as a crawl on one machine has it.

Memory is what opening the file and the rounds add to a fresh process. The floor is bare sqlite3
that writes the same rows with `executemany` into the same tables at the same size, and decides
nothing: no dedup, no queue is read, no depth.
"""

import argparse
import asyncio
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import psutil
import uvloop
from tests.support.many_urls import HOSTS, PAGES, START, fill, link

from bench.frontier.work import Figures, make_batch, rounds_of, rules, work
from crawlfleet.adapters.frontier.packing import queue_key
from crawlfleet.adapters.frontier.sql import PRAGMAS, SCHEMA
from crawlfleet.adapters.frontier.sqlite import SqliteFrontier


class Floor(NamedTuple):
    per_s: float
    us: float
    bytes: float


def measure(kind: str, known: int, rounds: int) -> Figures:
    """With the frontier in a process of its own, for its memory."""
    rounds = rounds_of(known, rounds)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "crawl.db"
        _in_child("fill", path, kind, known, rounds)
        said = _in_child("measure", path, kind, known, rounds)
        figures = msgspec.json.decode(said, type=Figures)
        floor = measure_floor(Path(folder) / "floor.db", known, rounds)
    return msgspec.structs.replace(
        figures, floor_pages_per_s=floor.per_s, floor_us=floor.us, floor_bytes=floor.bytes
    )


def measure_floor(path: Path, known: int, rounds: int) -> Floor:
    """Bare writes of the same rows."""
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
    spent = wall = 0.0
    for number in range(rounds):
        done = range(number * PAGES, (number + 1) * PAGES)
        new = range(known + number * PAGES, known + (number + 1) * PAGES)
        rows = [url_row(place) for place in new]
        added = [(key(place),) for place in new]
        removed = [(key(place),) for place in done]
        visited = [(place, "ok", 200, START, 1, 1, None, None) for place in done]
        cpu, began = time.process_time(), time.perf_counter()
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(insert_url, rows)
        connection.executemany("INSERT INTO queue VALUES (?)", added)
        connection.executemany("DELETE FROM queue WHERE key = ?", removed)
        connection.executemany("INSERT INTO visits VALUES (?,?,?,?,?,?,?,?)", visited)
        connection.execute("COMMIT")
        spent += time.process_time() - cpu
        wall += time.perf_counter() - began
    connection.close()
    pages = rounds * PAGES
    return Floor(pages / wall, spent / pages * 1e6, path.stat().st_size / (known + pages))


async def _fill(path: Path, kind: str, known: int) -> None:
    frontier = SqliteFrontier(path=path, rules=rules(kind))
    await frontier.open()
    await fill(frontier, known)
    await frontier.close()


async def _measure(path: Path, kind: str, known: int, rounds: int) -> Figures:
    process = psutil.Process()
    make_batch(random.Random(1), known, 0)  # what that takes is not the frontier's memory
    frontier = SqliteFrontier(path=path, rules=rules(kind))
    before = process.memory_info().rss
    began = time.perf_counter()
    await frontier.open()
    load = time.perf_counter() - began
    spent = await work(frontier, known, rounds)
    counts = await frontier.counts()
    assert known + spent.pages - 100 < counts.known <= known + spent.pages
    grown = process.memory_info().rss - before
    await frontier.close()
    size = await asyncio.to_thread(path.stat)
    return Figures(
        store="SQLite",
        kind=kind,
        known=known,
        **spent.figures(),
        memory_bytes=grown / counts.known,
        disk_bytes=size.st_size / counts.known,
        load_s=load,
        floor_pages_per_s=0.0,
        floor_us=0.0,
        floor_bytes=0.0,
    )


def _in_child(*arguments: object) -> bytes:
    begin = "from bench.frontier.sqlite import main; main()"
    program = [sys.executable, "-c", begin, *map(str, arguments)]
    return subprocess.run(program, check=True, stdout=subprocess.PIPE).stdout


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.frontier.sqlite", description=__doc__)
    parser.add_argument("what", choices=("fill", "measure"))
    parser.add_argument("path", type=Path)
    parser.add_argument("kind")
    parser.add_argument("known", type=int)
    parser.add_argument("rounds", type=int)
    options = parser.parse_args()
    if options.what == "fill":
        uvloop.run(_fill(options.path, options.kind, options.known))
    else:
        task = _measure(options.path, options.kind, options.known, options.rounds)
        os.write(1, msgspec.json.encode(uvloop.run(task)))
