"""What was acknowledged survives `kill -9` at any moment, whole.

Loss of power cannot be had here; that each answer waits for the disk is checked by the setting
and, where strace may be used, by the system calls themselves.
"""

import asyncio
import os
import random
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from crawlfleet.adapters.store.sqlite.store import SqliteStore
from tests.adapters import committer

KILLS = 15


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


@pytest.mark.slow
def test_acknowledged_changes_survive_kill_9_whole(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    chance = random.Random(7)
    acknowledged: set[int] = set()
    first = 0
    for _ in range(KILLS):
        acknowledged.update(
            committer.commit_until_killed(f"sqlite:///{path}", first, chance.uniform(0, 0.1))
        )
        present = asyncio.run(read_back(path))
        assert acknowledged <= present
        first = max(present) + 1
    assert len(acknowledged) > KILLS


@pytest.mark.slow
def test_process_killed_while_it_makes_the_store_leaves_a_usable_file(tmp_path: Path) -> None:
    chance = random.Random(11)
    for number in range(8):
        path = tmp_path / f"{number}.db"
        child, _ = committer.start_child(f"sqlite:///{path}", 0)
        while not path.exists() and child.is_alive():
            time.sleep(0.0002)
        time.sleep(chance.uniform(0, 0.01))
        child.kill()
        child.join(10)
        asyncio.run(read_back(path))


def test_writer_waits_for_the_disk_at_each_commit(tmp_path: Path) -> None:
    async def settings() -> tuple[str, int, int]:
        store = SqliteStore(path=tmp_path / "store.db")
        await store.open()
        writing = store._files._writing
        names = ("journal_mode", "synchronous", "wal_autocheckpoint")
        values = [writing.execute(f"PRAGMA {name}").fetchone() for name in names]
        await store.close()
        return tuple(value for (value,) in values)

    mode, synchronous, checkpoint = asyncio.run(settings())
    assert mode == "wal"
    assert synchronous == 2
    assert checkpoint > 0


def test_every_answer_comes_after_the_log_has_reached_the_disk(tmp_path: Path) -> None:
    strace = shutil.which("strace")
    if strace is None:
        assert not os.environ.get("CI"), "install strace (Debian package strace)"
        pytest.skip("needs strace")
    trace = tmp_path / "trace"
    traced = [strace, "-f", "-y", "-e", "trace=fsync,fdatasync,pwrite64,write", "-o", trace]
    program = [sys.executable, committer.__file__, f"sqlite:///{tmp_path}/store.db", "0", "20", "1"]
    child = subprocess.run([*traced, *program], capture_output=True, timeout=60, check=False)
    if b"ptrace" in child.stderr:
        assert not os.environ.get("CI"), "strace must be allowed where everything is tested"
        pytest.skip("strace may not be used here")
    assert child.stdout.split() == [str(number).encode() for number in range(20)]
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
