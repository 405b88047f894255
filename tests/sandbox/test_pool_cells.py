"""Executions in cells, as the pool runs them; at the lowest level, which every machine has."""

import asyncio
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import psutil
import pytest

from crawlfleet.core.network.egress import refused_by_lists
from crawlfleet.model.isolation import Isolation, Layer, Level
from crawlfleet.model.resources import Resources
from crawlfleet.model.settings import SandboxSettings, WorkerSettings
from crawlfleet.model.task import ErrorClass
from crawlfleet.ports.execution import Attempt
from crawlfleet.ports.sandbox import Provision
from crawlfleet.sandbox.folder import SandboxFolder
from crawlfleet.sandbox.launcher import LocalSandbox
from crawlfleet.testing.executor_suite import WatchedRun, make_assignment
from crawlfleet.worker.pool.pool import ProcessPool
from tests.support.cells import offer_of

pytestmark = pytest.mark.slow

T = TypeVar("T")


LOWEST = Isolation(level=Level.L0, layers=(Layer.RLIMITS, Layer.WATCHDOG))
USER_CODE = """
import os, subprocess, sys, time
def pid(): return os.getpid()
def parent_and_pid(): return [os.getppid(), os.getpid()]
def variables(): return dict(os.environ)
def scratch():
    with open("note.txt", "w") as file: file.write("mine")
    return [os.getcwd(), os.listdir()]
def sleep(seconds): time.sleep(seconds)
def leave_behind(seconds):
    return subprocess.Popen(["setsid", "sleep", str(seconds)], start_new_session=True).pid
def hold(mb):
    held = bytearray(mb << 20); time.sleep(20); return len(held)
def hold_together(mb):
    for _ in range(3):
        if os.fork() == 0: hold(mb)
    time.sleep(20)
def fill(mb):
    with open("large", "wb") as file:
        for _ in range(mb): file.write(bytes(1 << 20))
def die(): os._exit(7)
def open_files():
    goals = []
    for fd in os.listdir("/proc/self/fd"):
        try: goals.append(os.readlink(f"/proc/self/fd/{fd}"))
        except OSError: pass
    return goals
"""


@pytest.fixture(autouse=True)
def user_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "usercode.py").write_text(USER_CODE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("CRAWLFLEET_KEY", "secret")


def with_pool(
    folder: Path,
    scenario: Callable[[ProcessPool], Awaitable[T]],
    *,
    provide: Callable[..., Awaitable[Provision]] | None = None,
    isolation: Isolation = LOWEST,
    **sandbox: object,
) -> T:
    async def main() -> T:
        others = {*psutil.Process().children()}
        settings = WorkerSettings(
            slots=2, python_allow=("usercode:*",), sandbox=SandboxSettings(**sandbox)
        )
        place = SandboxFolder(folder / "sandbox")
        pool = ProcessPool(
            settings,
            sandbox=LocalSandbox(isolation=isolation, folder=place, check_egress=refused_by_lists),
            provide={"python": provide} if provide else None,
        )
        try:
            async with asyncio.timeout(60):
                return await scenario(pool)
        finally:
            await pool.close()
            children = {*psutil.Process().children()} - others
            assert not [child for child in children if alive(child.pid)]
            assert not list(place.cells.iterdir())

    return asyncio.run(main())


async def call(pool: ProcessPool, function: str, *args: object, **options: float) -> Attempt:
    parameters = {"function": f"usercode:{function}", "args": list(args)}
    return await pool.run(make_assignment("python", parameters, **options), WatchedRun())


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def gone_soon(pid: int) -> bool:
    until = time.monotonic() + 30
    while alive(pid) and time.monotonic() < until:
        time.sleep(0.02)
    return not alive(pid)


def test_each_execution_has_a_process_of_its_own(tmp_path: Path) -> None:
    async def scenario(pool: ProcessPool) -> list[Attempt]:
        return [await call(pool, "pid") for _ in range(3)]

    attempts = with_pool(tmp_path, scenario)
    pids = {int(bytes(attempt.data or b"0")) for attempt in attempts}
    assert len(pids) == 3
    assert not any(map(alive, pids))


def test_its_environment_is_made_from_scratch(tmp_path: Path) -> None:
    async def scenario(pool: ProcessPool) -> Attempt:
        return await call(pool, "variables")

    async def provide(assignment: object) -> Provision:
        return Provision(variables={"SHOP": "7"})

    attempt = with_pool(tmp_path, scenario, provide=provide)
    assert attempt.data is not None
    text = bytes(attempt.data).decode()
    assert '"SHOP":"7"' in text
    assert "CRAWLFLEET" not in text
    assert set(os.environ) - {"PATH", "LANG", "HOME", "PYTHONPATH", "TMPDIR"} - set(text.split('"'))


@pytest.mark.skipif(sys.platform != "linux", reason="Linux only")
def test_it_inherits_no_file_that_leads_out_of_its_cell(tmp_path: Path) -> None:
    async def scenario(pool: ProcessPool) -> Attempt:
        return await call(pool, "open_files")

    tmp_path.chmod(0o755)
    attempt = with_pool(tmp_path, scenario, isolation=offer_of())
    assert attempt.data is not None, attempt
    goals = json.loads(bytes(attempt.data))
    # Its pipes; the event loop's own sockets and pollers.
    harmless = ("pipe:", "socket:", "anon_inode:", "/proc/", "/dev/null", "/dev/urandom")
    assert goals
    assert [goal for goal in goals if not goal.startswith(harmless)] == []


def test_its_scratch_folder_is_gone_with_it(tmp_path: Path) -> None:
    async def scenario(pool: ProcessPool) -> tuple[Attempt, bool]:
        attempt = await call(pool, "scratch")
        return attempt, any((tmp_path / "sandbox" / "cells").iterdir())

    attempt, left = with_pool(tmp_path, scenario)
    assert attempt.data is not None
    assert b"note.txt" in bytes(attempt.data)
    assert not left


def test_what_it_leaves_behind_is_ended_with_it(tmp_path: Path) -> None:
    async def scenario(pool: ProcessPool) -> Attempt:
        return await call(pool, "leave_behind", 60)

    attempt = with_pool(tmp_path, scenario)
    assert gone_soon(int(bytes(attempt.data or b"0")))


def test_it_is_stopped_when_its_time_is_over(tmp_path: Path) -> None:
    async def scenario(pool: ProcessPool) -> Attempt:
        return await call(pool, "sleep", 60, timeout_s=0.5)

    attempt = with_pool(tmp_path, scenario)
    assert attempt.error is not None
    assert attempt.error.error_class is ErrorClass.TIMEOUT


def test_memory_of_all_its_processes_is_counted_together(tmp_path: Path) -> None:
    async def scenario(pool: ProcessPool) -> Attempt:
        parameters = {"function": "usercode:hold_together", "args": [60]}
        assignment = make_assignment(
            "python", parameters, allocation=Resources(memory_mb=150), timeout_s=30
        )
        return await pool.run(assignment, WatchedRun())

    attempt = with_pool(tmp_path, scenario)
    assert attempt.error is not None
    assert "MB of memory, over its limit" in attempt.error.message


def test_one_process_cannot_take_more_memory_than_the_cell_has(tmp_path: Path) -> None:
    async def scenario(pool: ProcessPool) -> Attempt:
        parameters = {"function": "usercode:hold", "args": [200]}
        assignment = make_assignment(
            "python", parameters, allocation=Resources(memory_mb=150), timeout_s=30
        )
        return await pool.run(assignment, WatchedRun())

    attempt = with_pool(tmp_path, scenario)
    assert attempt.error is not None
    assert "MemoryError" in attempt.error.message


def test_a_full_scratch_folder_is_told(tmp_path: Path) -> None:
    async def scenario(pool: ProcessPool) -> Attempt:
        return await call(pool, "fill", 30)

    attempt = with_pool(tmp_path, scenario, disk_mb=10.0)
    assert attempt.error is not None
    assert "File too large" in attempt.error.message


def test_its_exit_code_is_told(tmp_path: Path) -> None:
    async def scenario(pool: ProcessPool) -> Attempt:
        return await call(pool, "die")

    attempt = with_pool(tmp_path, scenario)
    assert attempt.error is not None
    assert attempt.error.error_class is ErrorClass.CRASH
    assert "exited with code 7" in attempt.error.message


def test_a_level_that_the_node_lacks_is_refused(tmp_path: Path) -> None:
    async def scenario(pool: ProcessPool) -> Attempt:
        parameters = {"seconds": 0}
        return await pool.run(
            make_assignment("sleep", parameters, isolation=Level.L3), WatchedRun()
        )

    attempt = with_pool(tmp_path, scenario)
    assert attempt.error is not None
    assert "L3 is demanded, but this node only offers L0" in attempt.error.message


def test_other_work_stays_in_the_pool_unless_it_demands_a_cell(tmp_path: Path) -> None:
    async def scenario(pool: ProcessPool) -> list[dict[str, float]]:
        watch = WatchedRun()
        plain = await pool.run(make_assignment("sleep", {"seconds": 0}), watch)
        confined = await pool.run(
            make_assignment("sleep", {"seconds": 0}, isolation=Level.L0), watch
        )
        assert plain.error is None
        assert confined.error is None
        return [plain.metrics, confined.metrics]

    with_pool(tmp_path, scenario)
