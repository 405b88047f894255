"""What a task's life costs in the store, beside bare sqlite3 doing the same writes.

    .venv/bin/python bench/store.py [tasks] [batch]

A life: insert (task, event), assign (task, execution, event), finish (task, execution, two
events); each step is one commit of a whole batch. CPU is that of the process, all threads;
structs are made beforehand. The floor writes rows that are ready to bind, by `executemany` into
tables with a primary key and no other index, and checks nothing.
"""

import asyncio
import random
import sqlite3
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
from msgspec.structs import replace

from crawlfleet.backends.memory import MemoryStore
from crawlfleet.backends.sql.rows import EVENT, EXECUTION, TASK, RowMap
from crawlfleet.backends.sqlite import WRITER_PRAGMAS, SqliteStore
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


def report(name: str, tasks: int, cpu: float, wall: float) -> None:
    print(f"{name:<34} {cpu / tasks * 1e3:7.4f} CPU-ms a life {tasks / wall:9.0f} lives/s")


async def measure(name: str, store: Store, tasks: int, steps: list[Step]) -> None:
    await store.open()
    cpu, wall = time.process_time(), time.perf_counter()
    for step in steps:
        committed = await store.commit(step)
        assert not any(committed.refusals)
    report(name, tasks, time.process_time() - cpu, time.perf_counter() - wall)
    ids = [row.id for step in steps[::3] for change in step for row in change.tasks]
    await measure_reads(name, store, ids)
    await store.close()


async def measure_reads(name: str, store: Store, ids: list[str]) -> None:
    cpu = time.process_time()
    for start in range(0, len(ids), 100):
        await store.tasks(ids[start : start + 100])
    spent = time.process_time() - cpu
    print(f"{name:<34} {spent / len(ids) * 1e6:7.2f} CPU-us a task read, 100 at a time")


def measure_floor(path: Path, tasks: int, steps: list[Step]) -> None:
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
    cpu = wall = 0.0
    for step in steps:
        work = []
        for field, (insert, update, mapping) in plan.items():
            structs = [row for change in step for row in getattr(change, field)]
            encoded = [mapping.encode(row) for row in structs]
            if field == "events":
                work.append((insert, [[None, *row[1:]] for row in encoded]))
            elif structs and structs[0].version == 1:
                work.append((insert, encoded))
            else:
                work.append((update, [[*row[1:], row[0]] for row in encoded]))
        began, clock = time.process_time(), time.perf_counter()
        connection.execute("BEGIN IMMEDIATE")
        for statement, values in work:
            connection.executemany(statement, values)
        connection.execute("COMMIT")
        cpu += time.process_time() - began
        wall += time.perf_counter() - clock
    connection.close()
    report("floor: sqlite3, rows ready", tasks, cpu, wall)


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


def main() -> None:
    tasks = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    batch = int(sys.argv[2]) if len(sys.argv) > 2 else 100
    steps = make_steps(tasks, batch)
    runs: list[Callable[[Path], Awaitable[None] | None]] = [
        lambda folder: measure("memory", MemoryStore(), tasks, steps),
        lambda folder: measure("sqlite", SqliteStore(path=folder / "store.db"), tasks, steps),
        lambda folder: measure_busy(SqliteStore(path=folder / "store.db"), steps[:60]),
        lambda folder: measure_floor(folder / "floor.db", tasks, steps),
    ]
    for run in runs:
        with tempfile.TemporaryDirectory() as folder:
            running = run(Path(folder))
            if running is not None:
                asyncio.run(running)


if __name__ == "__main__":
    main()
