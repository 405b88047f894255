"""What a task's life costs in the stores, beside bare drivers doing the same writes.

    .venv/bin/python -m bench.store [--quick] [--tasks 10000] [--batches 1 100 1000]

A life: insert (task, event), assign (task, execution, event), finish (task, execution, two
events); each step is one commit of a whole batch. CPU is that of the process, all threads, and
for PostgreSQL that of all its server's processes beside it; structs are made beforehand. A floor
writes rows that are ready to bind into tables with a primary key and no other index, and checks
nothing: sqlite3 by `executemany`, asyncpg by one statement for all tables of a step. Every commit
waits for the disk.
"""

import argparse
import asyncio
import random
import sqlite3
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import asyncpg
import msgspec
import psutil
import uvloop
from msgspec.structs import replace
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateTable
from tests.support.servers import PostgresServer, postgres_server

from crawlfleet.adapters.store.memory.store import MemoryStore
from crawlfleet.adapters.store.postgres import statements
from crawlfleet.adapters.store.postgres.connections import WRITING
from crawlfleet.adapters.store.postgres.store import PostgresStore
from crawlfleet.adapters.store.sql.rows import EVENT, EXECUTION, TASK, RowMap
from crawlfleet.adapters.store.sqlite.store import WRITER_PRAGMAS, SqliteStore
from crawlfleet.model.event import Event
from crawlfleet.model.ids import make_id
from crawlfleet.model.task import Execution, ExecutionStatus, Task, TaskStatus
from crawlfleet.ports.store import Change, Store

PAYLOAD = msgspec.Raw(b'{"url":"https://example.org/","note":"' + b"x" * 260 + b'"}')
RESULT = msgspec.Raw(b'{"success":true,"pages":1}')
START = 1_763_193_600.0
Step = list[Change]


def make_life(number: int, entropy: Callable[[int], bytes]) -> tuple[Change, Change, Change]:
    now = START + number / 1000
    task = Task(
        id=make_id("task", now, entropy),
        project_id="default",
        task_type="web_crawl",
        created_at=now,
        updated_at=now,
        parameters=PAYLOAD,
    )
    attempt = Execution(
        id=make_id("exec", now, entropy),
        task_id=task.id,
        node_id="node-1",
        session_id="sess-1",
        token=1,
        start_time=now,
    )
    assigned = replace(
        task,
        version=2,
        token=1,
        status=TaskStatus.ASSIGNED,
        assigned_node="node-1",
        assigned_at=now,
        execution_id=attempt.id,
    )
    completed = replace(
        assigned, version=3, status=TaskStatus.COMPLETED, completed_at=now, result=RESULT
    )
    ended = replace(attempt, version=2, status=ExecutionStatus.COMPLETED, end_time=now)

    def event(kind: str, subject: str) -> Event:
        return Event(kind=kind, subject=subject, at=now, cause="bench", to_state=kind)

    return (
        Change(tasks=(task,), events=(event("task.pending", task.id),)),
        Change(
            tasks=(assigned,),
            executions=(attempt,),
            events=(event("task.assigned", task.id),),
        ),
        Change(
            tasks=(completed,),
            executions=(ended,),
            events=(event("task.completed", task.id), event("execution.completed", attempt.id)),
        ),
    )


def make_steps(tasks: int, batch: int) -> list[Step]:
    entropy = random.Random(1).randbytes
    lives = [make_life(number, entropy) for number in range(tasks)]
    return [
        [life[step] for life in lives[start : start + batch]]
        for start in range(0, tasks, batch)
        for step in range(3)
    ]


class Meter:
    """CPU and time from its making on."""

    def __init__(self, name: str, tasks: int, server: PostgresServer | None = None) -> None:
        self._name, self._tasks = name, tasks
        self._server = psutil.Process(server.pid) if server else None
        self._began = self._read()

    def _read(self) -> tuple[float, float, float]:
        served = 0.0
        if self._server:
            for process in [self._server, *self._server.children()]:
                times = process.cpu_times()
                served += times.user + times.system
        return time.process_time(), served, time.perf_counter()

    def report(self) -> None:
        cpu, served, wall = (
            end - start for start, end in zip(self._began, self._read(), strict=True)
        )
        line = f"{self._name:<34} {cpu / self._tasks * 1e3:7.4f} CPU-ms a life"
        if self._server:
            line += f" + {served / self._tasks * 1e3:7.4f} in the server"
        print(f"{line} {self._tasks / wall:9.0f} lives/s")


async def measure(
    name: str, store: Store, steps: list[Step], server: PostgresServer | None = None
) -> None:
    await store.open()
    ids = [row.id for step in steps[::3] for change in step for row in change.tasks]
    meter = Meter(name, len(ids), server)
    for step in steps:
        committed = await store.commit(step)
        assert not any(committed.refusals)
    meter.report()
    await measure_reads(name, store, ids)
    await store.close()


async def measure_reads(name: str, store: Store, ids: list[str]) -> None:
    cpu = time.process_time()
    for start in range(0, len(ids), 100):
        await store.tasks(ids[start : start + 100])
    spent = time.process_time() - cpu
    print(f"{name:<34} {spent / len(ids) * 1e6:7.2f} CPU-us a task read, 100 at a time")


async def measure_postgres_floor(server: PostgresServer, steps: list[Step]) -> None:
    server.execute("CREATE SCHEMA floor")
    connection = await asyncpg.connect(server.url(search_path="floor"), server_settings=WRITING)
    kinds = {"tasks": TASK, "executions": EXECUTION, "events": EVENT}
    for mapping in kinds.values():
        await connection.execute(
            str(CreateTable(mapping.table).compile(dialect=postgresql.dialect()))
        )
    seq = 0
    work = []
    for step in steps:
        mappings, arrays = [], []
        for field, mapping in kinds.items():
            structs = [row for change in step for row in getattr(change, field)]
            values = mapping.encode(structs)
            if field == "events":
                values[:: len(mapping.columns)] = range(seq + 1, seq + len(structs) + 1)
                seq += len(structs)
            if structs:
                mappings.append(mapping)
                arrays += statements.by_column(mapping, values)
        work.append((statements.put(tuple(mappings)), arrays))
    meter = Meter("floor: asyncpg, rows ready", sum(map(len, steps[::3])), server)
    for statement, arrays in work:
        await connection.execute("BEGIN")
        await connection.execute(statement, *arrays)
        await connection.execute("COMMIT")
    meter.report()
    await connection.close()


def measure_sqlite_floor(path: Path, steps: list[Step]) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    for pragma in WRITER_PRAGMAS:
        connection.execute(f"PRAGMA {pragma}")
    plan: dict[str, tuple[str, str, RowMap]] = {}
    for field, mapping in (("tasks", TASK), ("executions", EXECUTION), ("events", EVENT)):
        names = [column.name for column in mapping.table.columns]
        kind = "INTEGER" if field == "events" else "TEXT"
        connection.execute(
            f"CREATE TABLE {field} ({names[0]} {kind} PRIMARY KEY, {', '.join(names[1:])})"
        )
        insert = f"INSERT INTO {field} VALUES ({', '.join('?' * len(names))})"
        update = f"UPDATE {field} SET {', '.join(f'{n}=?' for n in names[1:])} WHERE {names[0]}=?"
        plan[field] = insert, update, mapping
    batches = []
    for step in steps:
        work = []
        for field, (insert, update, mapping) in plan.items():
            structs = [row for change in step for row in getattr(change, field)]
            encoded = [mapping.encode([row]) for row in structs]
            if field == "events":
                work.append((insert, [[None, *row[1:]] for row in encoded]))
            elif structs and structs[0].version == 1:
                work.append((insert, encoded))
            else:
                work.append((update, [[*row[1:], row[0]] for row in encoded]))
        batches.append(work)
    meter = Meter("floor: sqlite3, rows ready", sum(map(len, steps[::3])))
    for work in batches:
        connection.execute("BEGIN IMMEDIATE")
        for statement, values in work:
            connection.executemany(statement, values)
        connection.execute("COMMIT")
    meter.report()
    connection.close()


async def measure_busy(store: Store, steps: list[Step]) -> None:
    """How long a commit takes while the event loop computes without a pause."""
    await store.open()
    slowest = total = 0.0
    for step in steps:
        began = time.perf_counter()
        waiting = asyncio.ensure_future(store.commit(step))
        while not waiting.done():
            sum(range(20_000))
            await asyncio.sleep(0)
        slowest = max(slowest, time.perf_counter() - began)
        total += time.perf_counter() - began
    print(f"commit beside a busy loop: mean {total / len(steps) * 1e3:.1f} ms, ", end="")
    print(f"worst {slowest * 1e3:.1f} ms")
    await store.close()


def measure_all(tasks: int, batch: int) -> None:
    steps = make_steps(tasks, batch)
    print(f"\n{tasks} tasks, {batch} to a commit")
    with tempfile.TemporaryDirectory() as name, postgres_server() as server:
        folder = Path(name)
        uvloop.run(measure("memory", MemoryStore(), steps))
        uvloop.run(measure("sqlite", SqliteStore(path=folder / "store.db"), steps))
        measure_sqlite_floor(folder / "floor.db", steps)
        uvloop.run(measure("postgresql", PostgresStore(url=server.url()), steps, server))
        uvloop.run(measure_postgres_floor(server, steps))
        uvloop.run(measure_busy(SqliteStore(path=folder / "busy.db"), steps[:60]))


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="bench.store", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer tasks, commits of 100 only")
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 100, 1000])
    options = parser.parse_args(arguments)
    if options.quick:
        options.tasks, options.batches = 2_000, [100]
    for batch in options.batches:
        # Commits of one are slow enough to be measured on fewer.
        measure_all(min(options.tasks, 500 * batch), batch)


if __name__ == "__main__":
    main()
