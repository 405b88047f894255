"""Runs the attempts of `attempts.py` in cells of one level, and tells what held.

`python -m tests.sandbox.escapes L2 FOLDER` prints the outcomes as JSON, as whatever user runs it;
`python -m tests.sandbox.escapes` (as root) runs all levels that the machine has and writes the
table of the docs.
"""

import asyncio
import contextlib
import ctypes
import json
import os
import re
import secrets
import select
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import psutil

from crawlfleet.core.isolation import level_of
from crawlfleet.core.network.egress import refused_by_lists
from crawlfleet.model.isolation import Egress, Isolation, Layer, Level, Limits
from crawlfleet.ports.sandbox import CellOrder
from crawlfleet.sandbox import probe
from crawlfleet.sandbox.folder import SandboxFolder
from crawlfleet.sandbox.kernel import syscalls
from crawlfleet.sandbox.launcher import LocalSandbox
from tests.sandbox import attempts
from tests.support.cells import offer_of, run_in_cell

PROGRAM: Final = str(Path(attempts.__file__).resolve())
PAGE: Final = Path(__file__).parents[2] / "docs" / "reference" / "escapes.md"
PLAIN_USER: Final = 65534
SECRET_NAME: Final = "CRAWLFLEET_NODE_TOKEN"
LIMITS: Final = Limits(cpu_cores=1, memory_mb=120, pids=40, disk_mb=16, files=128)
OWN_CELL: Final = (
    *("fork_bomb", "thread_bomb", "memory_hog", "memory_hogs", "memory_files"),
    *("disk_filler", "file_filler", "file_descriptors", "outlive", "kill_supervisor"),
)
PATIENCE_S: Final = 60


class Outcome(NamedTuple):
    name: str
    held: bool
    by: str
    """The layer that stopped it."""
    told: str


@contextlib.contextmanager
def victims(folder: Path) -> Iterator[dict[str, Any]]:
    """All that a cell must not touch, and a dictionary that says where it is."""
    data = folder / "data"
    (data / "cells").mkdir(parents=True, mode=0o700)
    files = {
        "token": data / "node.json",
        "scratch": data / "cells" / "others-note",
        "private": folder / "private",
        "dev_shm": Path("/dev/shm") / f"crawlfleet-{secrets.token_hex(4)}",
    }
    for file in files.values():
        file.write_text("secret")
        file.chmod(0o600)
    libc = ctypes.CDLL(None, use_errno=True)
    key = secrets.randbelow(1 << 30) + 1
    segment = libc.shmget(key, 4096, 0o1666)
    device = Path("/").stat().st_dev
    abstract = f"crawlfleet-{secrets.token_hex(4)}"
    victim = subprocess.Popen(["sleep", "300"])
    with contextlib.ExitStack() as stack:
        tcp = stack.enter_context(socket.create_server(("0.0.0.0", 0)))
        udp = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        udp.bind(("0.0.0.0", 0))
        stack.enter_context(answering(tcp, udp))
        for address in (str(folder / "socket"), "\0" + abstract):
            listening = stack.enter_context(socket.socket(socket.AF_UNIX))
            listening.bind(address)
            listening.listen()
        (folder / "socket").chmod(0o666)
        try:
            yield {
                **{name: str(file) for name, file in files.items()},
                "agent": os.getpid(),
                "victim": victim.pid,
                "secret": os.environ.get(SECRET_NAME, "none"),
                "packages": sysconfig.get_path("purelib"),
                "disk": [os.major(device), os.minor(device)],
                "shm_key": key,
                "port": tcp.getsockname()[1],
                "udp": udp.getsockname()[1],
                "address": _own_address(),
                "hostname": socket.gethostname(),
                "unix": str(folder / "socket"),
                "abstract": abstract,
                "setuid": str(folder / "setuid" / "bash"),
                "is_root": os.geteuid() == 0,
            }
        finally:
            victim.kill()
            victim.wait()
            libc.shmctl(segment, 0, None)
            files["dev_shm"].unlink()


@contextlib.contextmanager
def answering(tcp: socket.socket, udp: socket.socket) -> Iterator[None]:
    """Whoever reaches these is told so: that a connection was made need not mean it."""
    over = threading.Event()

    def answer() -> None:
        while not over.is_set():
            for each in select.select([tcp, udp], [], [], 0.1)[0]:
                with contextlib.suppress(OSError):
                    if each is udp:
                        udp.sendto(b"reached", udp.recvfrom(100)[1])
                    else:
                        visitor, _ = tcp.accept()
                        with visitor:
                            visitor.sendall(b"reached")
                            visitor.shutdown(socket.SHUT_WR)
                            visitor.settimeout(2)
                            visitor.recv(1000)

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(10)


def _own_address() -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            asking.connect(("192.0.2.1", 9))
        except OSError:
            return "127.0.0.1"
        return str(asking.getsockname()[0])


async def try_all(level: Level, folder: Path, names: Sequence[str]) -> list[Outcome]:
    """The outcome of each attempt at a level, as the user that runs this."""
    offer = offer_of(level)
    with victims(folder) as found:
        place = SandboxFolder(folder / "sandbox")
        sandbox = LocalSandbox(
            isolation=offer,
            folder=place,
            check_egress=refused_by_lists,
            hidden=(str(folder / "data"),),
        )
        try:
            outcomes = await _outcomes(sandbox, offer, found, names)
        finally:
            await sandbox.close()
        assert not list(place.cells.iterdir())
        if psutil.Process(found["victim"]).status() == psutil.STATUS_ZOMBIE:
            outcomes = [
                each._replace(held=False) if each.name == "kill_victim" else each
                for each in outcomes
            ]
    return outcomes


async def _outcomes(
    sandbox: LocalSandbox,
    offer: Isolation,
    found: dict[str, Any],
    names: Sequence[str],
) -> list[Outcome]:
    together = [name for name in names if name not in OWN_CELL]
    groups = [together] if together else []
    groups += [[name] for name in names if name in OWN_CELL]
    outcomes = []
    for group in groups:
        order = CellOrder(
            command=(sys.executable, "-I", PROGRAM, *group),
            limits=LIMITS,
            variables={"VICTIMS": json.dumps(found)},
            readable=(PROGRAM, found["setuid"]),
            egress=Egress(),
        )
        run = await run_in_cell(sandbox, order)
        said = {line["name"]: line for line in run.lines if "name" in line}
        for name in group:
            line = said.get(name)
            if line is None:
                told = run.reason or f"ended with {run.code} {run.errors[-300:]}"
                # Whoever kills the supervisor has won, although nobody is left to say so.
                held = name != "kill_supervisor" and (bool(run.reason) or run.code == -9)
                number = "KILLED"
            else:
                told, number, held = line["told"], line["errno"], line["held"]
            if name == "outlive":
                held, told = _is_gone(), "looked for from outside"
                number = "GONE"
            outcomes.append(Outcome(name, held, stopped_by(name, number, offer), told))
    return outcomes


def _is_gone() -> bool:
    """Within moments: it would live for thirty seconds."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        lines = [each.info["cmdline"] or [] for each in psutil.process_iter(["cmdline"])]
        if not any(PROGRAM in line and "outlive" in line for line in lines):
            return True
        time.sleep(0.1)
    return False


_LIMITS_BY: Final = {
    "EAGAIN": "pids",
    "ENOMEM": "memory",
    "KILLED": "memory",
    "ENOSPC": "mount",
    "EDQUOT": "mount",
    "EFBIG": "rlimits",
    "EMFILE": "rlimits",
}
_NOT_THERE: Final = {"ENOENT", "ENODATA", "ENOTDIR", "EROFS", "EXDEV", "ENXIO"}
_NETWORK: Final = {
    *("ECONNREFUSED", "ENETUNREACH", "EHOSTUNREACH", "EADDRNOTAVAIL", "ENETDOWN", "ETIMEDOUT", ""),
}
_OF_PROCESSES: Final = frozenset(
    {
        *("agent_environment", "agent_memory", "agent_command_line", "processes_of_others"),
        *("kill_victim", "kill_all", "kill_supervisor", "enter_namespace", "take_file"),
    }
)


def stopped_by(name: str, number: str, offer: Isolation) -> str:  # noqa: C901 (a table)
    """The layer that an attempt met, by what the kernel said."""
    has = set(offer.layers)
    group = "cgroup" if {Layer.CGROUP_V1, Layer.CGROUP_V2} & has else ""
    if name.endswith("_by_proxy") or number == "ECONNRESET":
        return "egress guard"
    if name == "outlive":
        return "pid namespace" if Layer.PID_NAMESPACE in has else "watchdog"
    if name in OWN_CELL and number in _LIMITS_BY:
        kind = _LIMITS_BY[number]
        if kind == "pids":
            return f"{group} pids" if group else "rlimits"
        if kind == "memory":
            return f"{group} memory" if group else "rlimits, watchdog"
        return "mount namespace (size)" if kind == "mount" else kind
    if name in {"use_capability", "become_root"}:
        return "capabilities, uid" if Layer.OTHER_USER in has else "capabilities"
    if name == "be_root":
        return "uid" if Layer.OTHER_USER in has else "no privileges"
    if name == "set_uid_program":
        return "no_new_privs"
    if name == "supervisor_memory":
        return "not dumpable"
    if name in {"kill_victim", "kill_all"} and number == "EPERM":
        return "landlock"
    if name == "raise_limits":
        return "rlimits"
    if name in _OF_PROCESSES and number in {"ENOENT", "ESRCH"}:
        return "pid namespace"
    if name == "kill_supervisor":
        return "pid namespace" if Layer.PID_NAMESPACE in has else "landlock"
    if name == "shared_memory" and number == "ENOENT":
        return "ipc namespace"
    if name in {"secrets_around", "inherited_files"}:
        return "environment from scratch"
    if number in _NOT_THERE:
        if Layer.MOUNT_NAMESPACE in has:
            return "mount namespace"
        return "landlock" if Layer.LANDLOCK in has else "not there"
    if number in _NETWORK:
        if Layer.NET_NAMESPACE in has:
            return "net namespace"
        return "landlock, seccomp" if Layer.LANDLOCK in has else "seccomp"
    if number == "EACCES":
        return "landlock" if Layer.LANDLOCK in has else "file permissions"
    return "seccomp" if Layer.SECCOMP in has else "no privileges"


@contextlib.contextmanager
def stage() -> Iterator[Path]:
    """A folder that everybody may enter, with a set-uid program of root's."""
    folder = Path(tempfile.mkdtemp(prefix="escapes-"))
    folder.chmod(0o755)
    try:
        (folder / "setuid").mkdir()
        planted = folder / "setuid" / "bash"
        shutil.copy("/bin/bash", planted)
        planted.chmod(0o4755)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def outcomes_as(user: int | None, level: Level, names: Sequence[str] = ()) -> list[Outcome]:
    """The outcomes of a run in a process of its own, as another user if one is named."""
    with stage() as folder:
        mine = folder / "mine"
        mine.mkdir(mode=0o755)
        (mine / "setuid").symlink_to(folder / "setuid")
        which: tuple[str, ...] = ()  # root stays so by 0, and has a Python that all can run
        if user is not None:
            os.chown(mine, user, user)
            which = ("--as", str(user))
        done = subprocess.run(
            [sys.executable, "-m", "tests.sandbox.escapes", *which, level, str(mine), *names],
            cwd=Path(__file__).parents[2],
            env={**os.environ, SECRET_NAME: "f" * 64, "HOME": str(mine)},
            capture_output=True,
            text=True,
            timeout=300,
        )
    assert done.returncode == 0, done.stderr[-3000:]
    return [Outcome(*each) for each in json.loads(done.stdout)]


def draw(columns: dict[str, list[Outcome]], machine: str) -> str:
    """The page of the docs."""
    return HEAD.format(machine=machine) + _table(columns)


def _table(columns: dict[str, list[Outcome]]) -> str:
    heads = list(columns)
    lines = [f"| attempt | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]
    by_name = {head: {each.name: each for each in found} for head, found in columns.items()}
    for name, (title, _) in attempts.ATTEMPTS.items():
        cells = []
        for head in heads:
            each = by_name[head].get(name)
            cells.append("–" if each is None else each.by if each.held else "**not held**")
        lines.append(f"| {title} | {' | '.join(cells)} |")
    held = [f"{sum(each.held for each in columns[head])} of {len(columns[head])}" for head in heads]
    lines.append(f"| **held** | {' | '.join(held)} |")
    return "\n".join(lines) + "\n"


HEAD: Final = """\
# Escape attempts

Hostile programs try to break out of a cell, at each level of the [sandbox](../guides/sandbox.md). \
A field of this table names the layer that stopped the attempt, judged by the kernel's error; \
other layers might have stopped it too. L3 was run by a worker that is root, the others by a \
worker that is a plain user. Written by `python -m tests.sandbox.escapes` as root, on {machine}.

L4 could not be run there, because the machine has no controllers of cgroup version 2. On its own \
kernel its limits work, and 77 of these attempts are stopped; two could not be judged there \
([details](../guides/sandbox.md#what-was-seen-and-what-was-not)).

"""


def become(user: int, arguments: Sequence[str]) -> None:
    """Go on as another user, who may run this Python even if it lies in root's home."""
    python = Path(sys.base_prefix).resolve()
    closed = [each for each in reversed(python.parents) if not each.stat().st_mode & 0o001]
    if closed:
        syscalls.unshare(syscalls.CLONE_NEWNS)
        syscalls.make_private("/")
        aside = str(Path(arguments[1]).parent / "aside")
        Path(aside).mkdir()
        syscalls.bind(str(python), aside, syscalls.ATTR_READ_ONLY)
        syscalls.mount("tmpfs", str(closed[0]), 0, "mode=755")
        python.mkdir(parents=True)
        syscalls.bind(aside, str(python), syscalls.ATTR_READ_ONLY)
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    command = [sys.executable, "-m", "tests.sandbox.escapes", *arguments]
    os.execv(command[0], command)


def main() -> None:
    if sys.argv[1:2] == ["--as"]:
        become(int(sys.argv[2]), sys.argv[3:])
    if len(sys.argv) > 2:
        level, folder = Level(sys.argv[1]), Path(sys.argv[2])
        found = asyncio.run(try_all(level, folder, sys.argv[3:] or [*attempts.ATTEMPTS]))
        sys.stdout.write(json.dumps(found))
        return
    highest = level_of(frozenset(probe.detect().layers))
    columns = {highest.value: outcomes_as(None, highest)}
    for level in (Level.L2, Level.L1, Level.L0):
        columns[level.value] = outcomes_as(PLAIN_USER, level)
    release = re.sub(r"[^0-9.].*", "", os.uname().release)
    PAGE.write_text(draw(columns, f"Linux {release}"), encoding="utf-8")


if __name__ == "__main__":
    main()
