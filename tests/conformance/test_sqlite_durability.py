"""What was acknowledged survives `kill -9` at any moment, whole.

Loss of power cannot be had here; that each answer waits for the disk is checked by the setting
and, where strace may be used, by the system calls themselves.
"""

import asyncio
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from crawlfleet.backends.sqlite import SqliteStore

KILLS = 12
COMMITTER = """
import asyncio, os, sys
from crawlfleet.backends.sqlite import SqliteStore
from crawlfleet.ports.store import Change
from crawlfleet.testing.store_suite.samples import make_claim, make_event, make_execution, make_task

async def commit(store, number):
    task = make_task(number, id=f"task-{number:08}")
    attempt = make_execution(number, id=f"exec-{number:08}", task_id=task.id)
    event = make_event(task.id)
    claim = make_claim(task.id, key=task.id)
    change = Change(tasks=(task,), executions=(attempt,), events=(event,), claims=(claim,))
    committed = await store.commit([change])
    assert committed.refusals == (None,), committed
    os.write(1, f"{number}\\n".encode())

async def main(path, first, count, width):
    store = SqliteStore(path=path)
    await store.open()
    for start in range(first, first + count, width):
        await asyncio.gather(*(commit(store, n) for n in range(start, start + width)))

asyncio.run(main(sys.argv[1], *map(int, sys.argv[2:])))
"""


def start(path: Path, first: int, count: int, width: int, *prefix: str) -> subprocess.Popen[bytes]:
    arguments = [str(path), str(first), str(count), str(width)]
    return subprocess.Popen(
        [*prefix, sys.executable, "-c", COMMITTER, *arguments], stdout=subprocess.PIPE
    )


def commit_until_killed(path: Path, first: int, delay_s: float) -> list[int]:
    """The numbers that were acknowledged before the process was killed."""
    child = start(path, first, 1_000_000, 8)
    assert child.stdout is not None
    lines = [child.stdout.readline()]
    killer = threading.Timer(delay_s, child.send_signal, (signal.SIGKILL,))
    killer.start()
    lines += child.stdout.readlines()
    killer.join()
    assert child.wait(10) == -signal.SIGKILL
    child.stdout.close()
    return [int(line) for line in lines if line.endswith(b"\n")]


async def read_back(path: Path) -> set[int]:
    """The numbers that are there, each with all its parts."""
    store = SqliteStore(path=path)
    await store.open()
    try:
        tasks = {task.id async for portion in store.unfinished_tasks() for task in portion}
        attempts = {attempt.task_id for attempt in await store.live_executions()}
        events = {event.subject for event in await store.events(after=0, limit=1_000_000)}
        claims = await store._read(
            lambda connection: {
                holder for (holder,) in connection.execute("SELECT holder FROM crawler_claims")
            }
        )
    finally:
        await store.close()
    assert tasks == attempts == events == claims
    return {int(task.removeprefix("task-")) for task in tasks}


def test_acknowledged_changes_survive_kill_9_whole(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    chance = random.Random(7)
    acknowledged: set[int] = set()
    first = 0
    for _ in range(KILLS):
        acknowledged.update(commit_until_killed(path, first, chance.uniform(0, 0.15)))
        present = asyncio.run(read_back(path))
        assert acknowledged <= present
        first = max(present) + 1
    assert len(acknowledged) > KILLS


def test_process_killed_while_it_makes_the_store_leaves_a_usable_file(tmp_path: Path) -> None:
    chance = random.Random(11)
    for number in range(4):
        path = tmp_path / f"{number}.db"
        child = start(path, 0, 8, 1)
        assert child.stdout is not None
        while not path.exists() and child.poll() is None:
            pass
        threading.Event().wait(chance.uniform(0, 0.01))
        child.kill()
        child.wait(10)
        child.stdout.close()
        asyncio.run(read_back(path))


def test_writer_waits_for_the_disk_at_each_commit(tmp_path: Path) -> None:
    async def settings() -> tuple[str, int, int]:
        store = SqliteStore(path=tmp_path / "store.db")
        await store.open()
        names = ("journal_mode", "synchronous", "wal_autocheckpoint")
        values = [
            await store._write(lambda writer, name=name: writer._run(f"PRAGMA {name}").fetchone())
            for name in names
        ]
        await store.close()
        return tuple(value for (value,) in values)

    mode, synchronous, checkpoint = asyncio.run(settings())
    assert mode == "wal"
    assert synchronous == 2
    assert checkpoint > 0


def test_every_answer_comes_after_the_log_has_reached_the_disk(tmp_path: Path) -> None:
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("needs strace")
    trace = tmp_path / "trace"
    calls = "trace=fsync,fdatasync,pwrite64,write"
    child = start(tmp_path / "store.db", 0, 20, 1, strace, "-f", "-y", "-e", calls, "-o", trace)
    output, _ = child.communicate(timeout=60)
    if child.returncode != 0:
        pytest.skip("strace may not be used here")
    assert len(output.splitlines()) == 20
    dirty = answers = syncs = 0
    for line in trace.read_text().splitlines():
        if "store.db-wal>" in line and "pwrite64(" in line:
            dirty += 1
        elif "store.db-wal>" in line and re.search(r"f(data)?sync\(", line):
            dirty, syncs = 0, syncs + 1
        elif re.search(r'write\(1<[^>]*>, "\d+\\n"', line):
            answers += 1
            assert dirty == 0, f"answer {answers} was given before its fsync"
    assert answers == 20
    assert syncs >= 20
