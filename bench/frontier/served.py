"""The frontier that the master keeps, asked over HTTP by a node that holds the task of a crawl.

The master is a real one in a process of its own; the node is played by this process, with the real
link to the master. What a real one adds is the pipe between the node and its executor. Memory is
that of the master, disk the file in its folder. The floor is that of SQLite.
"""

import tempfile
from pathlib import Path

import psutil
import uvloop
from tests.support.far_frontier import FarFrontier
from tests.support.local_fleet import LocalFleet, running
from tests.support.many_urls import fill

from bench.frontier.sqlite import measure_floor
from bench.frontier.work import Figures, rounds_of, rules, work

PATIENCE = {
    "CRAWLFLEET_SESSION_HEARTBEAT_INTERVAL_S": "60",
    "CRAWLFLEET_SESSION_TIMEOUT_S": "3600",
}


def measure(kind: str, known: int, rounds: int) -> Figures:
    """At a master of its own."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        fleet = LocalFleet(Path(name) / "fleet", workers=0, **PATIENCE)
        rounds = rounds_of(known, rounds)
        with running(fleet):
            figures = uvloop.run(_measure(fleet, kind, known, rounds))
        floor = measure_floor(Path(name) / "floor.db", known, rounds)
    return Figures(
        **figures, floor_pages_per_s=floor.per_s, floor_us=floor.us, floor_bytes=floor.bytes
    )


async def _measure(fleet: LocalFleet, kind: str, known: int, rounds: int) -> dict[str, object]:
    await fleet.until_ready()
    master = max(fleet.processes("master"), key=lambda each: each.memory_info().rss)
    frontier = FarFrontier(fleet, "bench", rules(kind), is_new=True)
    await frontier.open()
    before = master.memory_info().rss
    await fill(frontier, known)
    spent = await work(frontier, known, rounds, psutil.Process(master.pid))
    grown = master.memory_info().rss - before
    counts = await frontier.counts()
    await frontier.close()
    # With the log that SQLite has not moved into the file yet.
    files = [each for folder in fleet.folder.rglob("frontiers") for each in folder.rglob("*")]
    size = sum(each.stat().st_size for each in files if each.is_file())
    return {
        "store": "at the master, over HTTP",
        "kind": kind,
        "known": known,
        **spent.figures(),
        "memory_bytes": grown / counts.known,
        "disk_bytes": size / counts.known,
    }
