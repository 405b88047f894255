"""When the end of an execution is told, nothing of its code runs any more."""

import asyncio
import sys
import time
from pathlib import Path

import pytest

from crawlfleet.core.isolation import level_of
from crawlfleet.model.isolation import Layer, Level
from crawlfleet.model.resources import Resources
from crawlfleet.model.settings import SandboxSettings, WorkerSettings
from crawlfleet.sandbox import probe
from crawlfleet.sandbox.launcher import LocalSandbox
from crawlfleet.testing.executor_suite import WatchedRun, make_assignment
from crawlfleet.worker.pool.pool import ProcessPool
from tests.support.cells import offer_of, sandbox_in

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="Linux only")]

USER_CODE = """
import os, time
def go_on(count, folder):
    for number in range(count):
        if os.fork() == 0:
            file = os.open(f"{folder or '.'}/{number}", os.O_CREAT | os.O_WRONLY, 0o666)
            while True: os.pwrite(file, b"%020.6f" % time.monotonic(), 0)
    return count
"""
COUNT = 12
TENTH_OF_A_CORE = 0.1
SIGKILL_BIT = 1 << 8
PF_EXITING = 0x4
"""Of the flags of a process: it runs nothing of its own any more."""


class Census(WatchedRun):
    """Notes which namespace of processes the cell has."""

    def __init__(self, sandbox: LocalSandbox) -> None:
        super().__init__()
        self._sandbox = sandbox
        self.namespace = 0

    def started(self) -> None:
        super().started()
        [cell] = self._sandbox._cells
        self.namespace = _namespace(cell.get_pid())


@pytest.fixture(scope="module")
def best() -> Level:
    return level_of(frozenset(probe.detect().layers))


@pytest.fixture(autouse=True)
def user_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "usercode.py").write_text(USER_CODE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))


@pytest.mark.parametrize("writes", [False, True], ids=["scratch", "writable"])
@pytest.mark.parametrize("level", [Level.L2, Level.L3, Level.L4])
def test_forked_loops_do_not_outlive_the_report(
    tmp_path: Path, level: Level, writes: bool, best: Level
) -> None:
    if best < level:
        pytest.skip(f"only {best} here")
    offer = offer_of(level)
    has_group = bool({Layer.CGROUP_V1, Layer.CGROUP_V2} & {*offer.layers})
    shared = tmp_path / "shared"
    shared.mkdir()

    async def scenario() -> None:
        settings = WorkerSettings(
            slots=2,
            python_allow=("usercode:*",),
            sandbox=SandboxSettings(writable=(str(shared),) if writes else ()),
        )
        parameters = {"function": "usercode:go_on", "args": [COUNT, str(shared) if writes else ""]}
        given = Resources(memory_mb=400, cpu_cores=TENTH_OF_A_CORE)
        async with sandbox_in(tmp_path / "sandbox", offer) as sandbox:
            pool = ProcessPool(settings, sandbox=sandbox)
            try:
                census = Census(sandbox)
                assignment = make_assignment("python", parameters, allocation=given)
                attempt = await pool.run(assignment, census)
                told_at = time.monotonic()
                left = [pid for pid in _pids() if _namespace(pid) == census.namespace]
                running = [pid for pid in left if not _is_doomed(pid)]
                assert attempt.error is None, attempt.error
                assert bytes(attempt.data or b"") == b"%d" % COUNT
                assert census.namespace
                assert running == []
                if writes or not has_group:
                    assert left == []
            finally:
                await pool.close()
        wrote_at = [float(each.read_text() or 0) for each in shared.iterdir()]
        assert all(at < told_at for at in wrote_at)

    asyncio.run(scenario())


def _pids() -> list[int]:
    return [int(each.name) for each in Path("/proc").iterdir() if each.name.isdecimal()]


def _namespace(pid: int) -> int:
    """Of whatever is not dead."""
    try:
        return Path(f"/proc/{pid}/ns/pid").stat().st_ino
    except OSError:
        return 0


def _is_doomed(pid: int) -> bool:
    """Whether it can do nothing but end: by a signal that it has yet to see, or on its way out."""
    try:
        signals = dict(
            line.split(":\t") for line in Path(f"/proc/{pid}/status").read_text().splitlines()
        )
        flags = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[6])
    except OSError:
        return True
    waiting = int(signals["SigPnd"], 16) | int(signals["ShdPnd"], 16)
    return bool(waiting & SIGKILL_BIT or flags & PF_EXITING)
