"""Cells that are made ahead, as the pool uses them: once, with what the task was given."""

import asyncio
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from crawlfleet.core.isolation import level_of
from crawlfleet.core.network.egress import refused_by_lists
from crawlfleet.model.isolation import Isolation, Layer, Level
from crawlfleet.model.resources import Resources
from crawlfleet.model.settings import SandboxSettings, WorkerSettings
from crawlfleet.ports.execution import Attempt
from crawlfleet.ports.sandbox import CellOrder
from crawlfleet.sandbox import probe
from crawlfleet.sandbox.folder import SandboxFolder
from crawlfleet.sandbox.launcher import LocalSandbox
from crawlfleet.testing.executor_suite import WatchedRun, make_assignment
from crawlfleet.worker.pool.pool import ProcessPool
from tests.support.cells import Ear, look_around, offer_of, sandbox_in

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="Linux only")]

USER_CODE = """
import os, socket, time
def birth():
    with open("/proc/self/stat") as file: born = int(file.read().rpartition(")")[2].split()[19])
    return born / os.sysconf("SC_CLK_TCK")
def look():
    processes = sorted(each for each in os.listdir("/proc") if each.isdecimal())
    found = os.listdir(), os.listdir("/dev/shm"), processes
    for place in ("note", "/tmp/note", "/dev/shm/note"):
        with open(place, "w") as file: file.write("secret")
    return [birth(), *found]
def hold(mb): return len(b"1" * (mb << 20))
def spin(seconds):
    began, spent = time.monotonic(), time.process_time()
    while time.monotonic() - began < seconds: pass
    return [birth(), (time.process_time() - spent) / (time.monotonic() - began)]
def fork_all():
    count = 0
    try:
        while count < 100:
            if os.fork() == 0: time.sleep(100)
            count += 1
    except OSError: pass
    return [birth(), count]
def hear_again(port, size):
    began = time.monotonic()
    with socket.create_connection(("127.0.0.1", 3128)) as way:
        way.sendall(b"CONNECT 127.0.0.1:%d HTTP/1.1\\r\\n\\r\\n" % port)
        assert way.recv(1 << 16).startswith(b"HTTP/1.1 200 ")
        way.sendall(bytes(size))
        way.shutdown(socket.SHUT_WR)
        while data := way.recv(1 << 16): size -= len(data)
    return [birth(), size, time.monotonic() - began]
"""
PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def best() -> Isolation:
    return offer_of(level_of(frozenset(probe.detect().layers)))


@pytest.fixture(autouse=True)
def user_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "usercode.py").write_text(USER_CODE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))


def uptime_s() -> float:
    return float(Path("/proc/uptime").read_text().split()[0])


async def until_there_are(sandbox: LocalSandbox, spares: int) -> None:
    def made() -> int:
        stock = sandbox._prepared._stock
        return sum(each.making.done() for each in stock)

    until = time.monotonic() + PATIENCE_S
    while made() < spares and time.monotonic() < until:
        await asyncio.sleep(0.01)
    assert made() == spares
    await asyncio.sleep(0.05)  # the kernel tells births by hundredths of a second


async def run(
    pool: ProcessPool, function: str, *args: object, mb: float = 200, **others: Any
) -> Attempt:
    parameters = {"function": f"usercode:{function}", "args": list(args)}
    allocation = Resources(memory_mb=mb, **others.pop("given", {}))
    assignment = make_assignment("python", parameters, allocation=allocation, **others)
    return await pool.run(assignment, WatchedRun())


def test_each_is_used_once_and_holds_what_its_task_was_given(
    tmp_path: Path, best: Isolation
) -> None:
    if best.level < Level.L2:
        pytest.skip(f"only {best.level} here")
    folder = tmp_path / "sandbox"

    async def scenario() -> None:
        sandbox = LocalSandbox(
            isolation=best,
            folder=SandboxFolder(folder),
            check_egress=refused_by_lists,
            spare_cells=2,
        )
        settings = WorkerSettings(
            slots=2, python_allow=("usercode:*",), sandbox=SandboxSettings(disk_mb=16)
        )
        pool = ProcessPool(settings, sandbox=sandbox)
        try:
            for _ in range(2):
                assert (await run(pool, "look", mb=200)).error is None
            await until_there_are(sandbox, 2)
            for _ in range(3):
                asked_at = uptime_s()
                attempt = await run(pool, "look", mb=200)
                assert attempt.error is None, attempt.error
                born, *found = msgspec.json.decode(attempt.data or b"")
                assert born < asked_at
                assert found == [[], [], ["1", "2"]]  # the supervisor, and the work
                await until_there_are(sandbox, 2)
            if Layer.CGROUP_V1 in best.layers or Layer.CGROUP_V2 in best.layers:
                # The same plan, with another limit.
                died = await run(pool, "hold", 100, mb=64)
                assert died.error is not None
                assert "used more than its 64 MB of memory" in died.error.message
            await sandbox.drop_prepared()
            key = (folder / "key").read_text()
            until = time.monotonic() + PATIENCE_S
            while (left := look_around(folder, key)).groups and time.monotonic() < until:
                await asyncio.sleep(0.02)
            assert left.groups == frozenset()
        finally:
            await pool.close()

    asyncio.run(scenario())


def test_all_limits_of_a_task_hold_in_one_that_was_there_before_it(
    tmp_path: Path, best: Isolation
) -> None:
    if best.level < Level.L3:
        pytest.skip(f"only {best.level} here")

    async def scenario() -> None:
        sandbox = LocalSandbox(
            isolation=best,
            folder=SandboxFolder(tmp_path / "sandbox"),
            check_egress=refused_by_lists,
            spare_cells=1,
        )
        settings = WorkerSettings(
            slots=2,
            python_allow=("usercode:*",),
            allow_private=True,
            sandbox=SandboxSettings(processes=8),
        )
        pool = ProcessPool(settings, sandbox=sandbox)
        server = await asyncio.start_server(say_again, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]

        async def within(function: str, *args: object, **given: float) -> list[float]:
            await until_there_are(sandbox, 1)
            asked_at = uptime_s()
            attempt = await run(pool, function, *args, given=given)
            assert attempt.error is None, attempt.error
            born, *found = msgspec.json.decode(attempt.data or b"")
            assert born < asked_at
            return found

        try:
            for _ in range(2):
                assert (await run(pool, "look")).error is None
            (share,) = await within("spin", 1.0, cpu_cores=0.2)
            assert share < 0.35
            (count,) = await within("fork_all")
            assert 0 < count <= 8
            missing, took_s = await within("hear_again", port, 300_000, bandwidth_mbps=8)
            # 600 kilobytes both ways together, at a megabyte a second.
            assert missing == 0
            assert took_s > 0.4
        finally:
            server.close()
            await pool.close()

    asyncio.run(scenario())


async def say_again(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 16):
        writer.write(data)
        await writer.drain()
    writer.close()


def test_those_that_wait_outlive_the_forkserver_and_another_takes_its_place(
    tmp_path: Path, best: Isolation
) -> None:
    if best.level < Level.L2:
        pytest.skip(f"only {best.level} here")

    async def scenario() -> None:
        async with sandbox_in(tmp_path / "sandbox", best, spares=1) as sandbox:
            pool = ProcessPool(
                WorkerSettings(slots=2, python_allow=("usercode:*",)), sandbox=sandbox
            )
            for _ in range(2):
                assert (await run(pool, "look")).error is None
            await until_there_are(sandbox, 1)
            forkserver = sandbox._forkserver._process
            assert forkserver is not None
            forkserver.kill()
            await asyncio.to_thread(forkserver.wait)
            killed_at = uptime_s()
            for was_there in (True, False):
                attempt = await run(pool, "look")
                assert attempt.error is None, attempt.error
                assert (msgspec.json.decode(attempt.data or b"")[0] < killed_at) == was_there
            await pool.close()

    asyncio.run(scenario())


AGENT = """
import asyncio, sys
from pathlib import Path
from tests.sandbox.test_cells_ahead import *
async def main(folder):
    sandbox = LocalSandbox(
        isolation=offer_of(), folder=SandboxFolder(folder),
        check_egress=refused_by_lists, spare_cells=2,
    )
    settings = WorkerSettings(slots=2, python_allow=("usercode:*",))
    pool = ProcessPool(settings, sandbox=sandbox)
    for _ in range(2): assert (await run(pool, "look", mb=200)).error is None
    await until_there_are(sandbox, 2)
    cell, _ = await sandbox.start(CellOrder(command=("/bin/sleep", "300")), Ear)
    pids = [each.making.result().get_pid() for each in sandbox._prepared._stock]
    print(*pids, cell.get_pid(), flush=True)
    await asyncio.sleep(300)
asyncio.run(main(Path(sys.argv[1])))
"""


def test_what_a_killed_agent_leaves_is_swept_by_others_although_its_folder_is_gone(
    tmp_path: Path, best: Isolation
) -> None:
    """Cells that work, and those that wait; and whatever belongs to the living stays."""
    if best.level < Level.L3:
        pytest.skip(f"only {best.level} here")
    folder = tmp_path / "dead"

    async def scenario() -> None:
        agent = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", AGENT, str(folder)),
            stdout=asyncio.subprocess.PIPE,
            cwd=Path(__file__).parents[2],
            env={**os.environ, "PYTHONPATH": str(tmp_path)},
        )
        assert agent.stdout is not None
        supervisors = [int(each) for each in (await agent.stdout.readline()).split()]
        assert len(supervisors) == 3
        key = (folder / "key").read_text()
        assert len(look_around(folder, key).groups) >= 3
        async with sandbox_in(tmp_path / "living", best) as living:
            cell, _ = await living.start(CellOrder(command=("/bin/sleep", "300")), Ear)
            agent.kill()
            await agent.wait()
            until = time.monotonic() + PATIENCE_S
            while any(map(_lives, supervisors)) and time.monotonic() < until:
                await asyncio.sleep(0.02)
            assert not any(map(_lives, supervisors))
            shutil.rmtree(folder)
            own = (tmp_path / "living" / "key").read_text()
            held = look_around(folder, own).groups
            async with sandbox_in(tmp_path / "third", best):
                assert look_around(folder, key).groups == frozenset()
                assert look_around(folder, own).groups == held != frozenset()
            assert cell.get_returncode() is None

    asyncio.run(scenario())


def _lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"
