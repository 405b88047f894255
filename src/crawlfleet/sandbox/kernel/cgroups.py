"""Control groups of cells: memory, CPU time and processes of a whole tree, counted by the kernel.

Both versions are written in the same few steps. Names carry the key of the node that made them,
so that it finds again what an earlier life of its left; of others only what nobody can need.
"""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, Protocol

from crawlfleet.model.isolation import Limits
from crawlfleet.sandbox import ownership

ROOT: Final = Path("/sys/fs/cgroup")
PROC: Final = Path("/proc")
PERIOD_US: Final = 100_000
LEAST_QUOTA_US: Final = 1_000
WEIGHT_OF_A_CORE: Final = 8
"""As much as so many processes that nobody bounds."""
MEGABYTE: Final = 1 << 20
REMOVE_WAIT_S: Final = 3.0
LOOK_AGAIN_S: Final = 0.004
FORGOTTEN_AFTER_S: Final = 3600.0
"""A cell enters its group within seconds, and a process of it stays there as long as it lives."""
CONTROLLERS: Final = ("memory", "cpu", "pids")
AGENTS_LEAF: Final = "agent"

Put = Callable[[Limits], None]


class Groups(Protocol):
    """Makes groups for the cells of one node."""

    def make(self, id: str, limits: Limits | None = None) -> "Group":
        """A group with these limits, or with none yet, in which nothing runs; raises `OSError`."""
        ...

    def left(self) -> Iterator["Group"]:
        """Groups that an earlier life of the node made, or another that is dead for certain; of
        this user only."""
        ...

    def forgotten(self) -> Iterator["Group"]:
        """Groups of which nobody can say whose they are, in which nothing has run for long."""
        ...


class Group:
    """One cell's group: a folder of each hierarchy, which is one in version 2."""

    def __init__(self, folders: list[Path], put: Put | None = None) -> None:
        self._folders = folders
        self._put = put
        self._limits = Limits()

    @property
    def entrances(self) -> tuple[str, ...]:
        """The files that a process with one thread writes `0` to, to enter."""
        return tuple(str(_entrance(folder)) for folder in self._folders)

    def limit(self, limits: Limits) -> None:
        """Bound what is in it from now on; raises `OSError`."""
        if self._put is not None:
            self._put(limits)
        self._limits = limits

    def excess(self) -> str:
        """Which limit the kernel ended something for, in words."""
        if not self._counted("memory.oom_control", "memory.events", name="oom_kill"):
            return ""
        return f"used more than its {self._limits.memory_mb or 0:g} MB of memory"

    def figures(self) -> dict[str, float]:
        """The most memory that it held."""
        peak = self._number("memory.max_usage_in_bytes") or self._number("memory.peak")
        return {"peak_memory_mb": round(peak / MEGABYTE, 1)} if peak else {}

    @property
    def age_s(self) -> float:
        """How long ago it was made."""
        made = [0.0]
        for folder in self._folders:
            with contextlib.suppress(OSError):
                made.append(folder.stat().st_mtime)
        return time.time() - max(made)

    def drop(self, *, by_force: bool = False) -> bool:
        """Try once to remove it, ending what is in it only by force; whether nothing is left."""
        return self._try_remove(by_force=by_force)

    def kill(self) -> None:
        """End all that is in it; nothing can be forked there meanwhile. None of it runs a step of
        its own any more when this returns, and it need not wait for its share to be gone."""
        if not any(_write(folder / "cgroup.kill", "1") for folder in self._folders):
            for folder in self._folders:
                _write(folder / "pids.max", "0")
            ended: set[int] = set()
            # Whoever was being forked comes into sight only now.
            while found := self.processes() - ended:
                for pid in found:
                    with contextlib.suppress(ProcessLookupError, PermissionError):
                        os.kill(pid, signal.SIGKILL)
                ended |= found
        for folder in self._folders:
            _write(folder / "cpu.cfs_quota_us", "-1")
            _write(folder / "cpu.max", "max")

    def processes(self) -> set[int]:
        found: set[int] = set()
        for folder in self._folders:
            with contextlib.suppress(OSError):
                found.update(map(int, (folder / "cgroup.procs").read_text().split()))
        return found

    async def remove(self) -> bool:
        """End what is in it, and remove it; whether nothing is left."""
        until = time.monotonic() + REMOVE_WAIT_S
        while not self._try_remove():
            if time.monotonic() > until:
                return False
            await asyncio.sleep(LOOK_AGAIN_S)
        return True

    def remove_now(self) -> bool:
        """The same, where nobody else waits."""
        until = time.monotonic() + REMOVE_WAIT_S
        while not self._try_remove():
            if time.monotonic() > until:
                return False
            time.sleep(LOOK_AGAIN_S)
        return True

    def _try_remove(self, by_force: bool = True) -> bool:
        if by_force and self.processes():
            self.kill()
        for folder in self._folders:
            with contextlib.suppress(FileNotFoundError):
                try:
                    folder.rmdir()
                except OSError:
                    return False
        return True

    def _counted(self, *files: str, name: str) -> int:
        for folder in self._folders:
            for file in files:
                for line in _read(folder / file).splitlines():
                    key, _, value = line.partition(" ")
                    if key == name and value.isdecimal():
                        return int(value)
        return 0

    def _number(self, file: str) -> int:
        texts = (_read(folder / file) for folder in self._folders)
        return next((int(text) for text in texts if text.isdecimal()), 0)


class GroupsV1:
    """By version 1: a tree of folders for each controller. Needs root."""

    def __init__(self, key: str, *, root: Path = ROOT, proc: Path = PROC) -> None:
        self._key = key
        self._root = root
        self._proc = proc

    def make(self, id: str, limits: Limits | None = None) -> Group:
        homes = _homes(self._proc)
        made: dict[str, Path] = {}
        name = ownership.name_of(self._key, id, self._proc)
        try:
            for controller in CONTROLLERS:
                top = self._root / controller
                home = top / homes.get(controller, "").lstrip("/")
                folder = (home if home.is_dir() else top) / name
                if not (folder.parent / "cgroup.procs").exists():
                    raise FileNotFoundError(f"no controller {controller} in {top}")
                folder.mkdir()
                made[controller] = folder
            group = Group([*made.values()], lambda limits: _limit_v1(made, limits))
            if limits is not None:
                group.limit(limits)
        except OSError:
            Group([*made.values()]).remove_now()
            raise
        return group

    def left(self) -> Iterator[Group]:
        yield from _left(self._tops(), self._key, self._proc)

    def forgotten(self) -> Iterator[Group]:
        yield from _forgotten(self._tops(), self._key)

    def _tops(self) -> list[Path]:
        return [self._root / each for each in CONTROLLERS]


class GroupsV2:
    """By version 2: one tree. The agent's own group must be its to divide, as systemd's
    `Delegate=yes` or a container makes it."""

    def __init__(
        self, key: str, *, root: Path = ROOT, proc: Path = PROC, agent: int | None = None
    ) -> None:
        """`agent` is the process whose group it is, if not this one."""
        self._agent = os.getpid() if agent is None else agent
        self._key = key
        self._root = root
        self._proc = proc

    def make(self, id: str, limits: Limits | None = None) -> Group:
        home = self._divided()
        folder = home / ownership.name_of(self._key, id, self._proc)
        folder.mkdir()
        group = Group([folder], lambda limits: _limit_v2(folder, limits))
        try:
            if limits is not None:
                group.limit(limits)
        except OSError:
            group.remove_now()
            raise
        return group

    def left(self) -> Iterator[Group]:
        yield from _left([self._root], self._key, self._proc)

    def forgotten(self) -> Iterator[Group]:
        yield from _forgotten([self._root], self._key)

    def _divided(self) -> Path:
        """The agent's group, with all controllers given to the groups in it.

        A group that is divided can hold no process itself, unless it is the root; so whoever is
        in it moves into a leaf first: the agent and what it started, and nobody else.
        """
        # Beside those of version 1, its tree has a place of its own.
        top = self._root if (self._root / "cgroup.controllers").exists() else self._root / "unified"
        home = top / _homes(self._proc).get("", "").lstrip("/")
        if home.name == AGENTS_LEAF:  # from an earlier time
            home = home.parent
        if not home.is_dir():
            home = top
        given = set(_read(home / "cgroup.subtree_control").split())
        if set(CONTROLLERS) <= given:
            return home
        offered = set(_read(home / "cgroup.controllers").split())
        if missing := [each for each in CONTROLLERS if each not in offered]:
            raise FileNotFoundError(f"no controller {', '.join(missing)} in {home}")
        # Of the top of all groups the kernel makes no such file; that of a container has it.
        if (home / "cgroup.type").exists():
            found = _read(home / "cgroup.procs").split()
            if others := [pid for pid in found if not self._is_own(int(pid))]:
                raise PermissionError(
                    f"{home} holds processes of others ({', '.join(others[:5])}); give the worker "
                    "a group of its own, as systemd does with Delegate=yes"
                )
            leaf = home / AGENTS_LEAF
            leaf.mkdir(exist_ok=True)
            for pid in found:
                with contextlib.suppress(ProcessLookupError):
                    _put(leaf / "cgroup.procs", pid)
        _put(home / "cgroup.subtree_control", " ".join(f"+{each}" for each in CONTROLLERS))
        return home

    def _is_own(self, pid: int) -> bool:
        """Whether it is the agent, or descends from it."""
        while pid > 1 and pid != self._agent:
            # The name may hold anything, parentheses too; the parent follows the last one.
            after = _read(self._proc / str(pid) / "stat").rpartition(")")[2].split()
            pid = int(after[1]) if len(after) > 1 else 0
        return pid == self._agent


def _entrance(folder: Path) -> Path:
    """Of version 1 the one for threads: who moves only itself need not wait until the kernel has
    stopped everybody else from forking, which takes longer than all the rest of a cell."""
    threads = folder / "tasks"
    return threads if threads.exists() else folder / "cgroup.procs"


def _limit_v1(folders: Mapping[str, Path], limits: Limits) -> None:
    if limits.memory_mb is not None:
        most = str(int(limits.memory_mb * MEGABYTE))
        _put(folders["memory"] / "memory.limit_in_bytes", most)
        _write(folders["memory"] / "memory.memsw.limit_in_bytes", most)
    if limits.cpu_cores is not None:
        _put(folders["cpu"] / "cpu.cfs_period_us", str(PERIOD_US))
        _put(folders["cpu"] / "cpu.cfs_quota_us", str(_quota(limits.cpu_cores)))
        _write(folders["cpu"] / "cpu.shares", str(_weight(limits.cpu_cores, 1024, most=262_144)))
    if limits.pids is not None:
        _put(folders["pids"] / "pids.max", str(limits.pids))


def _limit_v2(folder: Path, limits: Limits) -> None:
    if limits.memory_mb is not None:
        _put(folder / "memory.max", str(int(limits.memory_mb * MEGABYTE)))
        _write(folder / "memory.swap.max", "0")
        _write(folder / "memory.oom.group", "1")
    if limits.cpu_cores is not None:
        _put(folder / "cpu.max", f"{_quota(limits.cpu_cores)} {PERIOD_US}")
        _write(folder / "cpu.weight", str(_weight(limits.cpu_cores, 100, most=10_000)))
    if limits.pids is not None:
        _put(folder / "pids.max", str(limits.pids))


def _quota(cores: float) -> int:
    return max(int(cores * PERIOD_US), LEAST_QUOTA_US)


def _weight(cores: float, usual: int, *, most: int) -> int:
    """How a cell stands against others who want the CPU. Its quota bounds it, so that what it was
    given should be its own also where the machine is busy with something else."""
    return min(max(int(usual * WEIGHT_OF_A_CORE * cores), usual), most)


def remove_all(groups: Iterable[Group]) -> int:
    """End what is in them, and remove them; how many are left after a while, which is no longer for
    many than for one: somebody may have made what cannot be removed."""
    left = list(groups)
    until = time.monotonic() + REMOVE_WAIT_S
    while left := [group for group in left if not group.drop(by_force=True)]:
        if time.monotonic() > until:
            break
        time.sleep(LOOK_AGAIN_S)
    return len(left)


def _left(tops: list[Path], key: str, proc: Path) -> Iterator[Group]:
    for name, folders in _found(tops).items():
        if ownership.was_left(name, key, proc) and all(map(_is_mine, folders)):
            yield Group(folders)


def _is_mine(folder: Path) -> bool:
    """Whether this user made it: others may call theirs so, too."""
    try:
        return folder.stat().st_uid == os.geteuid()
    except OSError:
        return False


def _forgotten(tops: list[Path], key: str) -> Iterator[Group]:
    own = ownership.prefix_of(key)
    for name, folders in _found(tops).items():
        group = Group(folders)
        if not name.startswith(own) and group.age_s > FORGOTTEN_AFTER_S and not group.processes():
            yield group


def _found(tops: list[Path]) -> dict[str, list[Path]]:
    """All groups of cells, by name: a folder of each hierarchy."""
    found: dict[str, list[Path]] = {}
    for top in tops:
        for parent, names, _ in os.walk(top):
            for name in names:
                if ownership.is_ours(name):
                    found.setdefault(name, []).append(Path(parent, name))
    return found


def _homes(proc: Path) -> dict[str, str]:
    """The groups of this process, by controller; that of version 2 has the empty name."""
    homes = {}
    for line in _read(proc / "self" / "cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            homes[controller] = path
    return homes


def _put(file: Path, text: str) -> None:
    """Write to a file that must be there: opening one for writing would not make it here."""
    with file.open("r+") as opened:
        opened.write(text)


def _write(file: Path, text: str) -> bool:
    """The same where it may be missing; whether it was written."""
    try:
        _put(file, text)
    except OSError:
        return False
    return True


def _read(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return ""
