"""Limits, ends and traces at the highest level that this machine has."""

import asyncio
import errno
import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import msgspec
import psutil
import pytest

from crawlfleet.core.egress import refused_by_lists
from crawlfleet.core.isolation import level_of
from crawlfleet.errors import SandboxFailed
from crawlfleet.model.isolation import Isolation, Layer, Level, Limits
from crawlfleet.ports.sandbox import CellOrder
from crawlfleet.sandbox import probe
from crawlfleet.sandbox.launcher import LocalSandbox
from crawlfleet.sandbox.premises import Premises
from tests.sandbox.escapes import Ear, Run, offer_of, run_in_cell

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="Linux only")]

T = TypeVar("T")
SOAK = bool(os.environ.get("CRAWLFLEET_SOAK"))


@pytest.fixture(scope="module")
def best() -> Isolation:
    return offer_of(level_of(frozenset(probe.look().layers)))


def with_sandbox(
    folder: Path, offer: Isolation, scenario: Callable[[LocalSandbox], Awaitable[T]]
) -> T:
    async def main() -> T:
        sandbox = LocalSandbox(
            isolation=offer, place=Premises(folder / "sandbox"), judge=refused_by_lists
        )
        try:
            async with asyncio.timeout(120):
                return await scenario(sandbox)
        finally:
            await sandbox.close()

    return asyncio.run(main())


def script(text: str, **options: object) -> CellOrder:
    limits = {"memory_mb": 200, "pids": 40, "disk_mb": 16, **options}
    return CellOrder(command=(sys.executable, "-I", "-c", text), limits=Limits(**limits))  # type: ignore[arg-type]


def traces(key: str) -> list[str]:
    """Control groups and mounts of a node, seen from outside."""
    groups = [str(path) for path in Path("/sys/fs/cgroup").rglob(f"crawlfleet.{key}.*")]
    mounts = [
        line for line in Path("/proc/mounts").read_text().splitlines() if "sandbox/root" in line
    ]
    return groups + mounts


def needs_groups(offer: Isolation) -> None:
    if not {Layer.CGROUP_V1, Layer.CGROUP_V2} & set(offer.layers):
        pytest.skip(f"no control groups here, only {offer.level}")


def without_another_user(offer: Isolation) -> Isolation:
    """What a plain user has, who is the cells' user as well."""
    layers = tuple(each for each in offer.layers if each is not Layer.OTHER_USER)
    return msgspec.structs.replace(offer, layers=layers)


def test_a_memory_hog_is_killed_at_its_limit(tmp_path: Path, best: Isolation) -> None:
    needs_groups(best)
    hog = """
import json
held = []
while len(held) < 300:
    held.append(b"1" * (1 << 20))
    print(json.dumps({"held": len(held)}), flush=True)
"""
    run = with_sandbox(
        tmp_path, best, lambda sandbox: run_in_cell(sandbox, script(hog, memory_mb=100))
    )
    assert run.code == -signal.SIGKILL
    assert run.reason == "used more than its 100 MB of memory"
    assert 70 <= run.lines[-1]["held"] <= 100
    assert run.figures["peak_memory_mb"] <= 101


def test_cpu_time_is_what_was_allocated(tmp_path: Path, best: Isolation) -> None:
    needs_groups(best)
    busy = """
import json, os, time
for _ in range(2):
    os.fork()
began, end = time.monotonic(), time.monotonic() + 3
while time.monotonic() < end: pass
print(json.dumps({"cpu": time.process_time(), "wall": time.monotonic() - began}), flush=True)
try:
    while True: os.wait()  # all others end with the first
except ChildProcessError: pass
"""
    run = with_sandbox(
        tmp_path, best, lambda sandbox: run_in_cell(sandbox, script(busy, cpu_cores=0.5))
    )
    assert len(run.lines) == 4
    share = sum(line["cpu"] for line in run.lines) / max(line["wall"] for line in run.lines)
    # Four processes would take two cores; a machine with nothing to spare gives less.
    assert share < 0.5 * 1.1 + 0.05


def test_a_tree_is_gone_soon_after_it_is_cancelled(tmp_path: Path, best: Isolation) -> None:
    grove = """
import os, signal, sys, time
for number in range(1, 32):
    if number not in (9, 17, 19): signal.signal(number, signal.SIG_IGN)
for _ in range(4): os.fork()
os.setsid() if os.getpid() != os.getpgrp() else None
print("{}", flush=True)
time.sleep(100)
"""

    async def scenario(sandbox: LocalSandbox) -> tuple[float, list[psutil.Process]]:
        cell, ear = await sandbox.start(script(grove), Ear)
        while ear.output[1].count(b"\n") < 16:
            await asyncio.sleep(0.01)
        tree = psutil.Process(cell.get_pid()).children(recursive=True)
        began = time.monotonic()
        await cell.clear()
        while any(_runs(each) for each in tree):
            await asyncio.sleep(0.01)
        return time.monotonic() - began, tree

    took_s, tree = with_sandbox(tmp_path, best, scenario)
    assert len(tree) >= 16
    assert took_s < 5


def _runs(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_many_cells_leave_nothing(tmp_path: Path, best: Isolation) -> None:
    count = 1000 if SOAK else 30

    async def scenario(sandbox: LocalSandbox) -> list[float]:
        took = []
        order = CellOrder(command=("/bin/true",), limits=Limits(memory_mb=100, pids=8, disk_mb=4))
        for _ in range(count):
            began = time.monotonic()
            run = await run_in_cell(sandbox, order)
            assert run.code == 0, run
            took.append(time.monotonic() - began)
        return took

    fds = len(list(Path("/proc/self/fd").iterdir()))
    others = {*psutil.Process().children(recursive=True)}
    with_sandbox(tmp_path, best, scenario)
    place = Premises(tmp_path / "sandbox")
    assert traces(place.key) == []
    assert not list(place.cells.iterdir())
    place.close()
    assert len(list(Path("/proc/self/fd").iterdir())) <= fds + 2
    children = {*psutil.Process().children(recursive=True)} - others
    assert not [each for each in children if _runs(each)]


AGENT = """
import asyncio, sys
from pathlib import Path
from tests.sandbox.test_limits import *
async def main():
    level, folder = Level(sys.argv[1]), Path(sys.argv[2])
    place = Premises(folder / "sandbox")
    sandbox = LocalSandbox(isolation=offer_of(level), place=place, judge=refused_by_lists)
    work = CellOrder(command=("/bin/sh", "-c", "touch x; echo; sleep 300"))
    cell, ear = await sandbox.start(work, Ear)
    while not ear.output[1]: await asyncio.sleep(0.01)
    print(cell.get_pid(), flush=True)
    await asyncio.sleep(300)
asyncio.run(main())
"""


@pytest.mark.parametrize("level", [Level.L0, Level.L3])
def test_what_a_killed_agent_leaves_is_swept_by_its_next_life(
    tmp_path: Path, best: Isolation, level: Level
) -> None:
    if level > best.level:
        pytest.skip(f"only {best.level} here")
    agent = subprocess.Popen(
        [sys.executable, "-c", AGENT, level, str(tmp_path)],
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
        text=True,
    )
    assert agent.stdout is not None
    warden = psutil.Process(int(agent.stdout.readline()))
    tree = [warden, *warden.children(recursive=True)]
    assert len(tree) >= 2
    agent.kill()
    agent.wait()
    until = time.monotonic() + 10
    while any(map(_runs, tree)) and time.monotonic() < until:
        time.sleep(0.02)
    assert not any(map(_runs, tree))
    key = (tmp_path / "sandbox" / "key").read_text()
    scratch = Path(tempfile.gettempdir())
    if level is Level.L0 and os.geteuid() == 0:
        assert [path.stat().st_uid for path in scratch.glob(f"crawlfleet.{key}.*/scratch")] == [
            probe.CELL_UID
        ]
    with_sandbox(tmp_path, offer_of(level), _nothing)
    assert traces(key) == []
    assert not list((tmp_path / "sandbox" / "cells").iterdir())
    assert not list(scratch.glob(f"crawlfleet.{key}.*"))


async def _nothing(sandbox: LocalSandbox) -> None:
    return None


@pytest.mark.parametrize("level", [Level.L1, Level.L3])
def test_it_writes_only_where_it_may(tmp_path: Path, best: Isolation, level: Level) -> None:
    if level > best.level:
        pytest.skip(f"only {best.level} here")
    data = tmp_path / "data"
    offer = offer_of(level) if level >= Level.L2 else without_another_user(offer_of(level))
    mine, other = data / "mine", data / "other"
    for folder in (data, mine, other):
        folder.mkdir(mode=0o700)
    (other / "note").write_text("secret")
    text = f"""
import json, os, pathlib
pathlib.Path("written").write_text("x")
def tried(path, mode):
    try: open(path, mode)
    except OSError as error: return type(error).__name__
    return "done"
print(json.dumps({{"cwd": os.getcwd(), "read": tried({str(other / "note")!r}, "r"),
    "write": tried({str(data / "new")!r}, "w")}}))
"""
    order = CellOrder(
        command=(sys.executable, "-I", "-c", text),
        limits=Limits(memory_mb=200, pids=40, disk_mb=16),
        writable=(str(mine),),
        folder=str(mine),
    )

    async def main() -> Run:
        sandbox = LocalSandbox(
            isolation=offer,
            place=Premises(tmp_path / "sandbox"),
            judge=refused_by_lists,
            hidden=(str(data),),
        )
        try:
            return await run_in_cell(sandbox, order)
        finally:
            await sandbox.close()

    run = asyncio.run(main())
    assert run.code == 0, run
    assert run.lines[0]["cwd"] == str(mine)
    assert run.lines[0]["read"] in {"FileNotFoundError", "PermissionError"}
    assert run.lines[0]["write"] in {"OSError", "PermissionError"}
    assert (mine / "written").read_text() == "x"
    owner = probe.CELL_UID if Layer.OTHER_USER in offer.layers else os.getuid()
    assert (mine / "written").stat().st_uid == owner


SET_ID_BITS = """
import ctypes, os, stat, struct
libc = ctypes.CDLL(None, use_errno=True)
def tried(number, *arguments):
    libc.syscall(number, *arguments)
def attempt(act, *arguments):
    try: act(*arguments)
    except OSError: pass
open("plain", "w").close()
os.chmod("plain", 0o755)
attempt(os.chmod, "plain", 0o4755)
attempt(os.chmod, "plain", 0o2755)
fd = os.open("plain", os.O_RDWR)
attempt(os.fchmod, fd, 0o6755)
attempt(os.open, "opened", os.O_CREAT | os.O_WRONLY, 0o4755)
attempt(os.mknod, "node", stat.S_IFREG | 0o4755)
tried(452, -100, b"plain", 0o4755, 0)
tried(437, -100, b"opened2", struct.pack("=QQQ", os.O_CREAT | os.O_WRONLY, 0o4755, 0), 24)
if os.uname().machine == "x86_64":
    tried(85, b"created", 0o4755)
    tried(2, b"opened3", os.O_CREAT | os.O_WRONLY, 0o4755)
    tried(90, b"plain", 0o4755)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="what root would lend is the worst")
@pytest.mark.parametrize("level", [Level.L2, Level.L3])
def test_what_it_leaves_lends_nobody_its_rights(
    tmp_path: Path, best: Isolation, level: Level
) -> None:
    if level > best.level:
        pytest.skip(f"only {best.level} here")
    mine = tmp_path / "mine"
    mine.mkdir(mode=0o700)
    order = CellOrder(
        command=(sys.executable, "-I", "-c", SET_ID_BITS),
        limits=Limits(memory_mb=200, pids=40, disk_mb=16),
        writable=(str(mine),),
        folder=str(mine),
    )
    run = with_sandbox(tmp_path, offer_of(level), lambda sandbox: run_in_cell(sandbox, order))
    assert run.code == 0, run
    left = {path.name: path.stat() for path in mine.iterdir()}
    assert stat.S_IMODE(left["plain"].st_mode) == 0o755
    assert not [name for name, each in left.items() if each.st_mode & 0o6000]
    assert {each.st_uid for each in left.values()} == {probe.CELL_UID}
    assert mine.stat().st_uid == probe.CELL_UID


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives folders away")
def test_a_link_in_the_place_of_a_folder_is_not_given_away(tmp_path: Path, best: Isolation) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "precious")
    order = CellOrder(command=("/bin/true",), writable=(str(tmp_path / "link"),))
    with pytest.raises(SandboxFailed, match="link"):
        with_sandbox(tmp_path, best, lambda sandbox: run_in_cell(sandbox, order))
    assert (tmp_path / "precious").stat().st_uid == 0


FULL = """
import os, time
os.mkdir("blind", 0o300)
for number in range({megabytes}):
    with open(f"blind/{{number}}", "wb") as file:
        file.write(bytes(1 << 20))
time.sleep(1)
"""


@pytest.mark.parametrize(("megabytes", "ended"), [(2, False), (12, True)])
def test_only_what_it_adds_to_a_folder_counts(
    tmp_path: Path, best: Isolation, megabytes: int, ended: bool
) -> None:
    mine = tmp_path / "mine"
    mine.mkdir(mode=0o700)
    for number in range(3):
        (mine / f"old-{number}").write_bytes(bytes(16 << 20))
    order = CellOrder(
        command=(sys.executable, "-I", "-c", FULL.format(megabytes=megabytes)),
        limits=Limits(memory_mb=200, pids=40, disk_mb=8),
        writable=(str(mine),),
        folder=str(mine),
    )
    run = with_sandbox(tmp_path, best, lambda sandbox: run_in_cell(sandbox, order))
    assert run.reason.startswith("wrote 12 MB of files") is ended, run
    assert (run.code == 0) is not ended


NO_PORTS = """
import sys
from crawlfleet.sandbox import kernel, landlock, inmate
from crawlfleet.model.isolation import Layer
from crawlfleet.sandbox.spec import CellSpec
real = landlock.version
landlock.version = lambda: min(real(), 3)
kernel.forbid_new_privileges()
layers = (Layer.NO_NEW_PRIVILEGES, Layer.SECCOMP, Layer.LANDLOCK)
inmate._restrict(CellSpec(layers=layers, scratch="/", readable=("/",), proxy_port=3128))
import socket
for family in (socket.AF_INET, socket.AF_INET6):
    try: socket.socket(family)
    except OSError as error: print(error.errno)
    else: print("open")
"""


def test_where_connections_cannot_be_held_there_are_none() -> None:
    done = subprocess.run(
        [sys.executable, "-c", NO_PORTS], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == [str(errno.EAFNOSUPPORT)] * 2


def test_a_strict_umask_of_the_agent_does_no_harm(tmp_path: Path, best: Isolation) -> None:
    before = os.umask(0o077)
    try:
        order = script("print(open('/dev/null').read() or '{}')")
        run = with_sandbox(tmp_path, best, lambda sandbox: run_in_cell(sandbox, order))
    finally:
        os.umask(before)
    assert run.code == 0, run


def test_one_worker_holds_a_folder_at_a_time(tmp_path: Path) -> None:
    place = Premises(tmp_path / "sandbox")
    with pytest.raises(Exception, match="in use by another worker"):
        Premises(tmp_path / "sandbox")
    place.close()
    Premises(tmp_path / "sandbox").close()
