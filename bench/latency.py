"""How long a task waits at low load: from the client's submission to the start of its executor.

The fleet is the one that `crawlfleet up` starts, with its HTTP, its durable store and its child
processes. Beside it: one durable SQLite commit on the same disk, of which the path needs two.
"""

import argparse
import asyncio
import sqlite3
import statistics
import tempfile
import time
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table
from tests.support.local_fleet import LocalFleet, running


class Latency(msgspec.Struct, frozen=True, kw_only=True):
    """Milliseconds."""

    p50: float
    p90: float
    p99: float


def summary(seconds: list[float]) -> Latency:
    cuts = statistics.quantiles(seconds, n=100)
    return Latency(p50=cuts[49] * 1e3, p90=cuts[89] * 1e3, p99=cuts[98] * 1e3)


async def measure(fleet: LocalFleet, tasks: int) -> dict[str, Latency]:
    """Tasks one after another, each submitted when the one before has ended."""
    await fleet.until_ready(nodes=2)
    accepted, started, ended = [], [], []
    async with fleet.client() as client:
        for number in range(tasks + 20):
            begun = time.time()
            receipt = await client.submit("sleep", {"seconds": 0})
            acknowledged = time.time()
            task = await client.wait(receipt.id)
            done = time.time()
            if number < 20 or task.started_at is None:
                continue  # warm-up
            accepted.append(acknowledged - begun)
            started.append(max(task.started_at.timestamp() - begun, 0.0))
            ended.append(done - begun)
            await asyncio.sleep(0.01)
    return {
        "submit → acknowledged (durable)": summary(accepted),
        "submit → running (recorded)": summary(started),
        "submit → result at the client": summary(ended),
    }


def commit_floor(folder: Path, commits: int) -> Latency:
    """A single durable commit of one row, as bare as Python can make it."""
    connection = sqlite3.connect(folder / "floor.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, body TEXT)")
    times = []
    for _ in range(commits):
        begun = time.perf_counter()
        connection.execute("INSERT INTO t (body) VALUES ('x')")
        times.append(time.perf_counter() - begun)
    return summary(times)


def main(arguments: list[str] | None = None) -> dict[str, Latency]:
    parser = argparse.ArgumentParser(prog="bench.latency", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer tasks")
    parser.add_argument("--json", type=Path, help="also write the figures there")
    options = parser.parse_args(arguments)
    tasks = 50 if options.quick else 300
    with tempfile.TemporaryDirectory() as folder:
        fleet = LocalFleet(Path(folder) / "fleet")
        with running(fleet):
            figures = asyncio.run(measure(fleet, tasks))
        figures["floor: one SQLite commit"] = commit_floor(Path(folder), tasks)
    table = Table("latency at low load, ms", "p50", "p90", "p99", title=f"{tasks} tasks")
    for name, latency in figures.items():
        table.add_row(name, *(f"{value:.2f}" for value in msgspec.structs.astuple(latency)))
    Console().print(table)
    if options.json:
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(figures)))
    return figures


if __name__ == "__main__":
    main()
