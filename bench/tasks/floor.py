"""What the databases themselves can do: claim a batch of tasks, then complete it, each durably.

One process, two commits for every batch, no HTTP, no checks: what a task queue on that database
cannot beat.
"""

import asyncio
import importlib.util
import sqlite3
import time
from pathlib import Path
from typing import Any, Final

import msgspec

BATCHES: Final = (1, 10, 100)
PAYLOAD: Final = "x" * 300
POSTGRES_CLAIM: Final = """
    UPDATE floor SET status = 1, node = 'n' WHERE id IN (
        SELECT id FROM floor WHERE status = 0 ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED
    ) RETURNING id, payload"""
SQLITE_CLAIM: Final = """
    UPDATE floor SET status = 1, node = 'n' WHERE id IN (
        SELECT id FROM floor WHERE status = 0 ORDER BY id LIMIT ?
    ) RETURNING id, payload"""


class Floor(msgspec.Struct, frozen=True, kw_only=True):
    batch: int
    per_s: float
    cpu_ms: float
    """Of the process that asks; a database server's own is not in it."""


def tasks_for(batch: int, tasks: int) -> int:
    """Enough for a second or two."""
    return min(tasks, 2_000 * batch)


def sqlite_floor(folder: Path, batch: int, tasks: int) -> Floor:
    connection = sqlite3.connect(folder / f"floor-{batch}.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute(
        "CREATE TABLE floor (id INTEGER PRIMARY KEY, payload TEXT, status INT, node TEXT)"
    )
    connection.execute("CREATE INDEX waiting ON floor (id) WHERE status = 0")
    connection.execute("BEGIN")
    connection.executemany("INSERT INTO floor VALUES (?, ?, ?, ?)", _rows(tasks))
    connection.execute("COMMIT")
    begun, cpu = time.perf_counter(), time.process_time()
    while claimed := connection.execute(SQLITE_CLAIM, (batch,)).fetchall():
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(
            "UPDATE floor SET status = 2 WHERE id = ?", [(row[0],) for row in claimed]
        )
        connection.execute("COMMIT")
    figure = _figure(batch, tasks, begun, cpu)
    connection.close()
    return figure


def postgres_floor(url: str, batch: int, tasks: int) -> Floor:
    return asyncio.run(_postgres_floor(url, batch, tasks))


def has_asyncpg() -> bool:
    return importlib.util.find_spec("asyncpg") is not None


async def _postgres_floor(url: str, batch: int, tasks: int) -> Floor:
    import asyncpg

    connection: Any = await asyncpg.connect(url)
    try:
        await connection.execute(
            "CREATE TABLE floor (id INT PRIMARY KEY, payload TEXT, status INT, node TEXT)"
        )
        await connection.execute("CREATE INDEX waiting ON floor (id) WHERE status = 0")
        await connection.copy_records_to_table("floor", records=_rows(tasks))
        await connection.execute("ANALYZE floor")
        claim = await connection.prepare(POSTGRES_CLAIM)
        complete = await connection.prepare("UPDATE floor SET status = 2 WHERE id = ANY($1)")
        begun, cpu = time.perf_counter(), time.process_time()
        while claimed := await claim.fetch(batch):
            await complete.fetch([row["id"] for row in claimed])
        return _figure(batch, tasks, begun, cpu)
    finally:
        await connection.execute("DROP TABLE IF EXISTS floor")
        await connection.close()


def _rows(tasks: int) -> list[tuple[int, str, int, None]]:
    return [(number, PAYLOAD, 0, None) for number in range(tasks)]


def _figure(batch: int, tasks: int, begun: float, cpu: float) -> Floor:
    seconds, spent = time.perf_counter() - begun, time.process_time() - cpu
    return Floor(batch=batch, per_s=tasks / seconds, cpu_ms=1e3 * spent / tasks)
