"""Limits, ends and traces at the highest level that this machine has."""

import asyncio
import errno
import os
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import msgspec
import psutil
import pytest

from crawlfleet.core.isolation import level_of
from crawlfleet.core.network.egress import refused_by_lists
from crawlfleet.errors import SandboxFailed
from crawlfleet.model.isolation import Isolation, Layer, Level, Limits
from crawlfleet.ports.sandbox import CellOrder
from crawlfleet.sandbox import probe, users
from crawlfleet.sandbox.folder import SandboxFolder
from crawlfleet.sandbox.launcher import LocalSandbox
from tests.support.cells import (
    CellRun,
    DownloadRate,
    Ear,
    cpu_shares,
    download,
    groups_of,
    left_since,
    look_around,
    memory_at_death,
    offer_of,
    run_in_cell,
    runs,
    tree_gone_s,
)
from tests.support.confined_pool import measure_residue

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="Linux only")]

T = TypeVar("T")
SOAK = bool(os.environ.get("CRAWLFLEET_SOAK"))


@pytest.fixture(scope="module")
def best() -> Isolation:
    return offer_of(level_of(frozenset(probe.detect().layers)))


def with_sandbox(
    folder: Path, offer: Isolation, scenario: Callable[[LocalSandbox], Awaitable[T]]
) -> T:
    async def main() -> T:
        sandbox = LocalSandbox(
            isolation=offer, folder=SandboxFolder(folder / "sandbox"), check_egress=refused_by_lists
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
    mounts = [
        line for line in Path("/proc/mounts").read_text().splitlines() if "sandbox/root" in line
    ]
    return groups_of(key) + mounts


def needs_groups(offer: Isolation) -> None:
    if not {Layer.CGROUP_V1, Layer.CGROUP_V2} & set(offer.layers):
        pytest.skip(f"no control groups here, only {offer.level}")


def without_another_user(offer: Isolation) -> Isolation:
    """What a plain user has, who is the cells' user as well."""
    layers = tuple(each for each in offer.layers if each is not Layer.OTHER_USER)
    return msgspec.structs.replace(offer, layers=layers)


@pytest.mark.parametrize("limit_mb", [48, 100])
def test_a_memory_hog_is_killed_at_its_limit(
    tmp_path: Path, best: Isolation, limit_mb: float
) -> None:
    needs_groups(best)
    death = with_sandbox(tmp_path, best, lambda sandbox: memory_at_death(sandbox, limit_mb))
    assert death.reason == f"used more than its {limit_mb} MB of memory"
    # Programs and libraries are resident too, and not all of them counted.
    assert 0.7 * limit_mb <= death.resident_mb <= limit_mb + 20
    assert 0.9 * limit_mb <= death.counted_mb <= limit_mb + 1


def test_cpu_time_is_what_was_allocated(tmp_path: Path, best: Isolation) -> None:
    needs_groups(best)
    shares = with_sandbox(
        tmp_path, best, lambda sandbox: cpu_shares(sandbox, (0.5, 0.25), seconds=10 if SOAK else 2)
    )
    for share in shares:
        # They want two cores each; a machine with nothing to spare gives less, but never more.
        assert share.measured < share.given * 1.1 + 0.03
        assert share.measured > share.given * (0.9 if SOAK else 0.1)


def test_bandwidth_is_what_was_allocated(tmp_path: Path, best: Isolation) -> None:
    sizes = ((8.0, 1), (40.0, 20), (160.0, 40)) if SOAK else ((8.0, 1),)

    async def scenario(sandbox: LocalSandbox) -> list[DownloadRate]:
        return [await download(sandbox, mbps=mbps, size=size * 10**6) for mbps, size in sizes]

    for rate in with_sandbox(tmp_path, best, scenario):
        assert rate.measured < rate.given * 1.15
        assert rate.measured > rate.given * (0.85 if SOAK else 0.1)


def test_a_tree_is_gone_soon_after_it_is_cancelled(tmp_path: Path, best: Isolation) -> None:
    took_s = with_sandbox(tmp_path, best, lambda sandbox: tree_gone_s(sandbox, 50))
    assert took_s < (2 if SOAK else 10)


def test_many_executions_leave_nothing(tmp_path: Path, best: Isolation) -> None:
    count = 1000 if SOAK else 20
    residue = asyncio.run(measure_residue(tmp_path / "sandbox", best, count))
    assert residue.left == {}
    key = (tmp_path / "sandbox" / "key").read_text()
    assert traces(key) == []
    assert not list((tmp_path / "sandbox" / "cells").iterdir())


def test_looking_around_passes_over_what_others_remove(tmp_path: Path) -> None:
    over = threading.Event()

    def come_and_go() -> None:
        while not over.is_set():
            for number in range(200):
                (tmp_path / f"cell{number}" / "group").mkdir(parents=True)
            for number in range(200):
                (tmp_path / f"cell{number}" / "group").rmdir()
                (tmp_path / f"cell{number}").rmdir()

    others = threading.Thread(target=come_and_go)
    others.start()
    try:
        for _ in range(30):
            look_around(tmp_path, "key")
    finally:
        over.set()
        others.join()


def test_what_is_left_is_seen(tmp_path: Path, best: Isolation) -> None:
    """Else the test above could not fail."""
    needs_groups(best)

    async def scenario(sandbox: LocalSandbox) -> tuple[set[str], set[str]]:
        folder = tmp_path / "sandbox"
        key = (folder / "key").read_text()
        await run_in_cell(sandbox, script("pass"))
        before = look_around(folder, key)
        cell, _ = await sandbox.start(script("import time; time.sleep(100)"), Ear)
        during = look_around(folder, key)
        await cell.clear()
        return {*during.beyond(before)}, {*await left_since(folder, key, before)}

    during, after = with_sandbox(tmp_path, best, scenario)
    assert {"groups", "namespaces", "processes", "descriptors"} <= during
    assert after == set()


AGENT = """
import asyncio, sys
from pathlib import Path
from tests.sandbox.test_limits import *
async def main():
    level, folder = Level(sys.argv[1]), Path(sys.argv[2])
    place = SandboxFolder(folder / "sandbox")
    sandbox = LocalSandbox(isolation=offer_of(level), folder=place, check_egress=refused_by_lists)
    work = CellOrder(command=("/bin/sh", "-c", "touch x; echo; sleep 300"))
    cell, ear = await sandbox.start(work, Ear)
    while not ear.output[1]: await asyncio.sleep(0.01)
    print(cell.get_pid(), flush=True)
    await asyncio.sleep(300)
asyncio.run(main())
"""


class Agent:
    """A worker's agent in a process of its own, with a cell that works."""

    def __init__(self, level: Level, folder: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", AGENT, level, str(folder)],
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[2],
            text=True,
        )
        assert self._process.stdout is not None
        supervisor = psutil.Process(int(self._process.stdout.readline()))
        self.tree = [supervisor, *supervisor.children(recursive=True)]
        self.key = (folder / "sandbox" / "key").read_text()
        assert len(self.tree) >= 2

    def kill(self) -> None:
        """With all that it had no time to clear away; what runs in its cell ends by itself."""
        self._process.kill()
        self._process.wait()
        until = time.monotonic() + 30
        while any(map(runs, self.tree)) and time.monotonic() < until:
            time.sleep(0.02)
        assert not any(map(runs, self.tree))


@pytest.mark.parametrize("level", [Level.L0, Level.L3])
def test_what_a_killed_agent_leaves_is_swept_by_its_next_life(
    tmp_path: Path, best: Isolation, level: Level
) -> None:
    if level > best.level:
        pytest.skip(f"only {best.level} here")
    agent = Agent(level, tmp_path)
    key, scratch = agent.key, Path(tempfile.gettempdir())
    if level is Level.L0 and os.geteuid() == 0:
        (uid,) = [path.stat().st_uid for path in scratch.glob(f"crawlfleet.{key}.*/scratch")]
        assert uid > users.SHARED_UID
    agent.kill()
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

    async def main() -> CellRun:
        sandbox = LocalSandbox(
            isolation=offer,
            folder=SandboxFolder(tmp_path / "sandbox"),
            check_egress=refused_by_lists,
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
    owner = users.SHARED_UID if Layer.OTHER_USER in offer.layers else os.getuid()
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
    assert {each.st_uid for each in left.values()} == {users.SHARED_UID}
    assert mine.stat().st_uid == users.SHARED_UID


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
from crawlfleet.sandbox.cell import setup
from crawlfleet.sandbox.kernel import landlock, syscalls
from crawlfleet.model.isolation import Layer
from crawlfleet.sandbox.spec import CellSpec
real = landlock.version
landlock.version = lambda: min(real(), 3)
syscalls.forbid_new_privileges()
layers = (Layer.NO_NEW_PRIVILEGES, Layer.SECCOMP, Layer.LANDLOCK)
setup._restrict(CellSpec(layers=layers, scratch="/", readable=("/",), proxy_port=3128))
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
    place = SandboxFolder(tmp_path / "sandbox")
    with pytest.raises(Exception, match="in use by another worker"):
        SandboxFolder(tmp_path / "sandbox")
    place.close()
    SandboxFolder(tmp_path / "sandbox").close()
