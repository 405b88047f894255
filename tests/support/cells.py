"""Cells, measured from outside: what a limit really gives, what a start costs, what is left.

Linux only. The figures are those of the highest level that this machine has, as this user.
"""

import asyncio
import contextlib
import fnmatch
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import psutil  # type: ignore[import-untyped]

from crawlfleet.core.isolation import at_level, level_of
from crawlfleet.core.network.egress import refused_by_lists
from crawlfleet.model.isolation import Egress, Isolation, Level, Limits
from crawlfleet.ports.sandbox import CellOrder
from crawlfleet.sandbox import probe
from crawlfleet.sandbox.folder import SandboxFolder
from crawlfleet.sandbox.launcher import LocalSandbox

PATIENCE_S: Final = 60.0
CHECK_INTERVAL_S: Final = 0.002
MEGABYTE: Final = 1 << 20
BITS_OF_A_MEGABIT: Final = 1e6

HOG: Final = """
import json
held = []
while True:
    held.append(b"1" * (1 << 20))
    pages = int(open("/proc/self/statm").read().split()[1])
    print(json.dumps({"resident_mb": pages * 4096 / (1 << 20)}), flush=True)
"""
SPINNER: Final = """
import json, os, sys, time
seconds, processes = float(sys.argv[1]), int(sys.argv[2])
for _ in range(processes - 1):
    if os.fork() == 0: break
time.sleep(0.3)
began, cpu = time.monotonic(), time.process_time()
while time.monotonic() - began < seconds: pass
spent = time.process_time() - cpu
print(json.dumps({"cpu": spent, "wall": time.monotonic() - began}), flush=True)
try:
    while True: os.wait()  # all others end with the first
except ChildProcessError: pass
"""
GROVE: Final = """
import os, signal, sys, time
for number in range(1, 32):
    if number not in (9, 17, 19): signal.signal(number, signal.SIG_IGN)
for number in range(int(sys.argv[1]) - 1):
    if os.fork() == 0:
        if number % 2: os.setsid()
        break
print("{}", flush=True)
time.sleep(300)
"""
LOADER: Final = """
import base64, json, os, socket, sys, time
from urllib.parse import urlsplit
proxy = urlsplit(os.environ["HTTP_PROXY"])
pair = f"{proxy.username or ''}:{proxy.password or ''}".encode()
request = f"GET {sys.argv[1]} HTTP/1.1\\r\\nHost: site\\r\\n"
request += f"Proxy-Authorization: Basic {base64.b64encode(pair).decode()}\\r\\n\\r\\n"
way = socket.create_connection((proxy.hostname, proxy.port))
began, size = time.monotonic(), 0
way.sendall(request.encode())
while data := way.recv(1 << 16): size += len(data)
print(json.dumps({"bytes": size, "wall": time.monotonic() - began}), flush=True)
"""


class Ear(asyncio.SubprocessProtocol):
    """Keeps what a cell prints."""

    def __init__(self) -> None:
        self.output = {1: b"", 2: b""}
        self.exited = asyncio.Event()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self.output[fd] += data

    def process_exited(self) -> None:
        self.exited.set()


class CellRun(NamedTuple):
    """How a command in a cell ended; `lines` are those that it printed as JSON."""

    lines: list[dict[str, Any]]
    reason: str
    code: int | None
    errors: str
    figures: dict[str, float]


class MemoryDeath(msgspec.Struct, frozen=True, kw_only=True):
    """A process that takes memory without end, and what ended it."""

    limit_mb: float
    resident_mb: float
    """What it held when it was last heard of, a megabyte or so before its end."""
    counted_mb: float
    """The most that the control group counted; 0 where there is none."""
    reason: str


class CpuShare(msgspec.Struct, frozen=True, kw_only=True):
    """CPU time of a cell that wanted more, as a part of a core."""

    given: float
    measured: float


class DownloadRate(msgspec.Struct, frozen=True, kw_only=True):
    """A download through the proxy, in megabits a second."""

    bytes: int
    given: float
    measured: float


def offer_of(level: Level | None = None) -> Isolation:
    """What this machine, as this user, offers at a level, or at its best."""
    found = probe.detect()
    offer, lacking = at_level(level or level_of(frozenset(found.layers)), found)
    assert not lacking, f"{level} lacks {lacking}"
    return offer


@contextlib.asynccontextmanager
async def sandbox_in(
    folder: Path, offer: Isolation, *, spares: int = 0
) -> AsyncIterator[LocalSandbox]:
    """A sandbox whose own folder is there; all its cells are ended with the block."""
    sandbox = LocalSandbox(
        isolation=offer,
        folder=SandboxFolder(folder),
        check_egress=refused_by_lists,
        spare_cells=spares,
    )
    try:
        yield sandbox
    finally:
        await sandbox.close()


async def run_in_cell(
    sandbox: LocalSandbox, order: CellOrder, wait_s: float = PATIENCE_S
) -> CellRun:
    """Run a command to its end in a cell; what it printed, and what ended it."""
    cell, ear = await sandbox.start(order, Ear)
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await ear.exited.wait()
                await asyncio.sleep(0.05)  # what it wrote last is in the pipe
        code, reason, figures = cell.get_returncode(), cell.reason(), cell.figures()
    finally:
        await cell.clear()
    lines = []
    for line in ear.output[1].decode(errors="replace").splitlines():
        with contextlib.suppress(ValueError):
            lines.append(json.loads(line))
    return CellRun(lines, reason, code, ear.output[2].decode(errors="replace"), figures)


def script(text: str, *arguments: object, egress: Egress | None = None, **limits: Any) -> CellOrder:
    """A Python program in a cell with these limits."""
    bounds = {"memory_mb": 200, "pids": 80, "disk_mb": 16, **limits}
    command = (sys.executable, "-I", "-c", text, *map(str, arguments))
    return CellOrder(command=command, limits=Limits(**bounds), egress=egress)


async def memory_at_death(sandbox: LocalSandbox, limit_mb: float) -> MemoryDeath:
    """How much a process has when its cell is ended for it."""
    run = await run_in_cell(sandbox, script(HOG, memory_mb=limit_mb))
    return MemoryDeath(
        limit_mb=limit_mb,
        resident_mb=run.lines[-1]["resident_mb"] if run.lines else 0.0,
        counted_mb=run.figures.get("peak_memory_mb", 0.0),
        reason=run.reason or f"ended with {run.code}",
    )


async def cpu_shares(
    sandbox: LocalSandbox, given: Sequence[float], *, seconds: float, outside: int = 0
) -> list[CpuShare]:
    """What cells get that want two cores each, side by side, while so many processes outside want
    one each."""

    async def one(cores: float) -> CpuShare:
        run = await run_in_cell(sandbox, script(SPINNER, seconds, 2, cpu_cores=cores))
        assert run.lines, run
        spent, wall = (
            sum(line["cpu"] for line in run.lines),
            max(line["wall"] for line in run.lines),
        )
        return CpuShare(given=cores, measured=spent / wall)

    with _spinning(outside):
        return list(await asyncio.gather(*map(one, given)))


async def download(sandbox: LocalSandbox, *, mbps: float, size: int) -> DownloadRate:
    """How fast so many bytes come through the proxy of a cell that is allowed so much."""
    with _site(size) as port:
        rules = Egress(allow_private=True, bandwidth_mbps=mbps)
        order = script(LOADER, f"http://127.0.0.1:{port}/", egress=rules)
        run = await run_in_cell(sandbox, order)
    assert run.lines, run
    found = run.lines[0]
    assert found["bytes"] >= size, run
    rate = found["bytes"] * 8 / BITS_OF_A_MEGABIT / found["wall"]
    return DownloadRate(bytes=size, given=mbps, measured=rate)


async def tree_gone_s(sandbox: LocalSandbox, processes: int) -> float:
    """How long it takes from the order until nothing runs of a tree that ignores every signal."""
    cell, ear = await sandbox.start(script(GROVE, processes), Ear)
    try:
        async with asyncio.timeout(PATIENCE_S):
            while ear.output[1].count(b"\n") < processes:
                await asyncio.sleep(CHECK_INTERVAL_S)
        tree = psutil.Process(cell.get_pid()).children(recursive=True)
        assert len(tree) >= processes
        began = time.monotonic()
        clearing = asyncio.create_task(cell.clear())
        while any(map(runs, tree)):
            await asyncio.sleep(CHECK_INTERVAL_S)
        took_s = time.monotonic() - began
        await clearing
    finally:
        await cell.clear()
    return took_s


def runs(process: psutil.Process) -> bool:
    """Whether it is there, and not only waits to be missed."""
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


@contextlib.contextmanager
def _spinning(number: int) -> Iterator[None]:
    busy = [
        subprocess.Popen([sys.executable, "-I", "-c", "while True: pass"]) for _ in range(number)
    ]
    try:
        yield
    finally:
        for each in busy:
            each.kill()
            each.wait()


@contextlib.contextmanager
def _site(size: int) -> Iterator[int]:
    """The port of a server that answers once, with so many bytes, as fast as they are taken."""
    door = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        with contextlib.suppress(OSError):
            visitor, _ = door.accept()
            with visitor:
                visitor.recv(1 << 16)
                visitor.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
                visitor.sendall(bytes(size))

    serving = threading.Thread(target=answer, daemon=True)
    serving.start()
    try:
        yield door.getsockname()[1]
    finally:
        door.close()
        serving.join(5)


class Leavings(msgspec.Struct, frozen=True, kw_only=True):
    """All that cells could leave on a machine, as far as it can be seen."""

    groups: frozenset[str]
    """Control groups of cells."""
    mounts: frozenset[str]
    namespaces: frozenset[str]
    """Those that a process of this one is in."""
    files: frozenset[str]
    """In the sandbox's folder and in those for temporary files."""
    processes: frozenset[str]
    descriptors: int
    """Open in this process."""

    def beyond(self, before: "Leavings") -> dict[str, list[str]]:
        """What is there that was not before, by kind; nothing but what there is any of."""
        found = {
            name: sorted(getattr(self, name) - getattr(before, name))
            for name in ("groups", "mounts", "namespaces", "files", "processes")
        }
        extra = self.descriptors - before.descriptors
        if extra > 0:
            found["descriptors"] = [f"{extra} more"]
        return {name: each for name, each in found.items() if each}


def look_around(folder: Path, key: str) -> Leavings:
    """What there is now of the sandbox in that folder, whose key it is."""
    family = [psutil.Process(), *psutil.Process().children(recursive=True)]
    return Leavings(
        groups=frozenset(groups_of(key)),
        mounts=frozenset(_mounts(family)),
        namespaces=frozenset(_namespaces(family)),
        files=frozenset(
            [
                *_below(folder, "*"),
                *map(str, Path("/tmp").glob(f"crawlfleet.{key}.*")),
                *map(str, Path(tempfile.gettempdir()).glob(f"crawlfleet.{key}.*")),
            ]
        ),
        processes=frozenset(f"{each.pid} {_called(each)}" for each in family if runs(each)),
        descriptors=len(list(Path("/proc/self/fd").iterdir())),
    )


def groups_of(key: str) -> list[str]:
    """The control groups of the sandbox whose key it is."""
    return [*_below(Path("/sys/fs/cgroup"), f"crawlfleet.{key}.*")]


def _below(folder: Path, names: str) -> Iterator[str]:
    """The paths of what is called like that. What others remove meanwhile is passed over."""
    for parent, folders, files in os.walk(folder):
        for name in fnmatch.filter([*folders, *files], names):
            yield str(Path(parent, name))


async def left_since(folder: Path, key: str, before: Leavings) -> dict[str, list[str]]:
    """What is there beyond that, when all that ends by itself has had time to."""
    left = look_around(folder, key).beyond(before)
    for _ in range(50):
        if not left:
            break
        await asyncio.sleep(0.1)
        left = look_around(folder, key).beyond(before)
    return left


def _mounts(family: Sequence[psutil.Process]) -> Iterator[str]:
    for each in family:
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{each.pid}/mountinfo").read_text().splitlines():
                if " /" in line and "sandbox" in line:
                    yield line.split(" ", 5)[4]


def _namespaces(family: Sequence[psutil.Process]) -> Iterator[str]:
    for each in family:
        with contextlib.suppress(OSError):
            for link in Path(f"/proc/{each.pid}/ns").iterdir():
                with contextlib.suppress(OSError):
                    yield str(link.readlink())


def _called(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.Error):
        return " ".join(process.cmdline()) or str(process.name())
    return ""
