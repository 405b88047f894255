"""Control groups of cells: kernel limits for the memory, CPU time and processes of a cell.

The names of groups carry the key of the node and the process that made them, so that a worker can
find and remove what an earlier run left, and what dead workers left.
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
MIN_QUOTA_US: Final = 1_000
WEIGHT_OF_A_CORE: Final = 8
"""The weight of one allocated core, in processes without a limit."""
MEGABYTE: Final = 1 << 20
REMOVE_WAIT_S: Final = 3.0
CHECK_INTERVAL_S: Final = 0.004
ABANDONED_AFTER_S: Final = 3600.0
"""A cell enters its group within seconds and never leaves it, so an old empty group is unused."""
CONTROLLERS: Final = ("memory", "cpu", "pids")
AGENTS_LEAF: Final = "agent"

Put = Callable[[Limits], None]


class Cgroups(Protocol):
    """Makes the control groups of one node's cells."""

    def make(self, id: str, limits: Limits | None = None) -> "Cgroup":
        """Make an empty group with these limits, or without any; raises `OSError`."""
        ...

    def leftovers(self) -> Iterator["Cgroup"]:
        """Yield groups of this user that an earlier run of the node made, or a dead node."""
        ...

    def abandoned(self) -> Iterator["Cgroup"]:
        """Yield old empty groups whose owner may live in another namespace or kernel."""
        ...


class Cgroup:
    """The control group of a cell: one folder in each hierarchy; version 2 has one hierarchy."""

    def __init__(self, folders: list[Path], put: Put | None = None) -> None:
        self._folders = folders
        self._put = put
        self._limits = Limits()

    @property
    def procs_files(self) -> tuple[str, ...]:
        """The files to which a process with one thread writes `0` to enter the group."""
        return tuple(str(_procs_file(folder)) for folder in self._folders)

    def limit(self, limits: Limits) -> None:
        """Set the limits of the group; raises `OSError`."""
        if self._put is not None:
            self._put(limits)
        self._limits = limits

    def excess(self) -> str:
        """Return the limit for which the kernel killed a process, in words; empty for none."""
        if not self._counted("memory.oom_control", "memory.events", name="oom_kill"):
            return ""
        return f"used more than its {self._limits.memory_mb or 0:g} MB of memory"

    def figures(self) -> dict[str, float]:
        """Return the peak of its memory as a metric."""
        peak = self._number("memory.max_usage_in_bytes") or self._number("memory.peak")
        return {"peak_memory_mb": round(peak / MEGABYTE, 1)} if peak else {}

    @property
    def age_s(self) -> float:
        """The seconds since the group was made."""
        made = [0.0]
        for folder in self._folders:
            with contextlib.suppress(OSError):
                made.append(folder.stat().st_mtime)
        return time.time() - max(made)

    def kill(self) -> None:
        """Kill all processes in the group. None of them can fork meanwhile, and none runs any more
        when this returns. The CPU limit is lifted, so that they end without waiting for it."""
        if not any(_write(folder / "cgroup.kill", "1") for folder in self._folders):
            for folder in self._folders:
                _write(folder / "pids.max", "0")
            ended: set[int] = set()
            # A process that was being forked becomes visible only now.
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
        """Kill the processes in the group and remove it; return whether it is gone."""
        until = time.monotonic() + REMOVE_WAIT_S
        while not self.try_remove(by_force=True):
            if time.monotonic() > until:
                return False
            await asyncio.sleep(CHECK_INTERVAL_S)
        return True

    def remove_now(self) -> bool:
        """Do the same as `remove`, and block meanwhile."""
        until = time.monotonic() + REMOVE_WAIT_S
        while not self.try_remove(by_force=True):
            if time.monotonic() > until:
                return False
            time.sleep(CHECK_INTERVAL_S)
        return True

    def try_remove(self, *, by_force: bool = False) -> bool:
        """Try once to remove the group, and return whether it is gone. `by_force` kills the
        processes in it."""
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


class CgroupsV1:
    """Makes groups of version 1: one tree of folders for each controller. It needs root."""

    def __init__(self, key: str, *, root: Path = ROOT, proc: Path = PROC) -> None:
        self._key = key
        self._root = root
        self._proc = proc

    def make(self, id: str, limits: Limits | None = None) -> Cgroup:
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
            group = Cgroup([*made.values()], lambda limits: _limit_v1(made, limits))
            if limits is not None:
                group.limit(limits)
        except OSError:
            Cgroup([*made.values()]).remove_now()
            raise
        return group

    def leftovers(self) -> Iterator[Cgroup]:
        yield from _leftovers(self._tops(), self._key, self._proc)

    def abandoned(self) -> Iterator[Cgroup]:
        yield from _abandoned(self._tops(), self._key)

    def _tops(self) -> list[Path]:
        return [self._root / each for each in CONTROLLERS]


class CgroupsV2:
    """Makes groups of version 2: one tree. The agent must own its group, as systemd's
    `Delegate=yes` or a container provides."""

    def __init__(
        self, key: str, *, root: Path = ROOT, proc: Path = PROC, agent: int | None = None
    ) -> None:
        """`agent` is the process whose group is divided; by default the calling process."""
        self._agent = os.getpid() if agent is None else agent
        self._key = key
        self._root = root
        self._proc = proc

    def make(self, id: str, limits: Limits | None = None) -> Cgroup:
        home = self._divided()
        folder = home / ownership.name_of(self._key, id, self._proc)
        folder.mkdir()
        group = Cgroup([folder], lambda limits: _limit_v2(folder, limits))
        try:
            if limits is not None:
                group.limit(limits)
        except OSError:
            group.remove_now()
            raise
        return group

    def leftovers(self) -> Iterator[Cgroup]:
        yield from _leftovers([self._root], self._key, self._proc)

    def abandoned(self) -> Iterator[Cgroup]:
        yield from _abandoned([self._root], self._key)

    def _divided(self) -> Path:
        """Return the agent's group, after enabling all controllers for its children.

        A group with children can hold no process itself, unless it is the root. So the agent and
        its descendants move into a leaf first; a process of another program in it is an error.
        """
        # Beside hierarchies of version 1, the tree of version 2 is at `unified`.
        top = self._root if (self._root / "cgroup.controllers").exists() else self._root / "unified"
        home = top / _homes(self._proc).get("", "").lstrip("/")
        if home.name == AGENTS_LEAF:  # an earlier call has moved the agent
            home = home.parent
        if not home.is_dir():
            home = top
        given = set(_read(home / "cgroup.subtree_control").split())
        if set(CONTROLLERS) <= given:
            return home
        offered = set(_read(home / "cgroup.controllers").split())
        if missing := [each for each in CONTROLLERS if each not in offered]:
            raise FileNotFoundError(f"no controller {', '.join(missing)} in {home}")
        # The root group of the machine has no such file; the root of a container has.
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
        """Return whether a process is the agent, or descends from it."""
        while pid > 1 and pid != self._agent:
            # The name may hold anything, parentheses too; the parent follows the last one.
            after = _read(self._proc / str(pid) / "stat").rpartition(")")[2].split()
            pid = int(after[1]) if len(after) > 1 else 0
        return pid == self._agent


def _procs_file(folder: Path) -> Path:
    """Return the file by which a process enters. Version 1 has one for single threads: it saves a
    wait in the kernel that takes longer than the rest of the start of a cell."""
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
    return max(int(cores * PERIOD_US), MIN_QUOTA_US)


def _weight(cores: float, usual: int, *, most: int) -> int:
    """Return the CPU weight of a cell. The quota limits it; the weight lets it reach its quota when
    other processes want the CPU too."""
    return min(max(int(usual * WEIGHT_OF_A_CORE * cores), usual), most)


def remove_all(groups: Iterable[Cgroup]) -> int:
    """Kill the processes in the groups and remove them; return how many groups are left.

    The time limit is one for all groups, since another program may have made groups that cannot be
    removed.
    """
    left = list(groups)
    until = time.monotonic() + REMOVE_WAIT_S
    while left := [group for group in left if not group.try_remove(by_force=True)]:
        if time.monotonic() > until:
            break
        time.sleep(CHECK_INTERVAL_S)
    return len(left)


def _leftovers(tops: list[Path], key: str, proc: Path) -> Iterator[Cgroup]:
    for name, folders in _found(tops).items():
        if ownership.was_left(name, key, proc) and all(map(_is_own_users, folders)):
            yield Cgroup(folders)


def _is_own_users(folder: Path) -> bool:
    """Return whether this user made the folder: other users can create such names too."""
    try:
        return folder.stat().st_uid == os.geteuid()
    except OSError:
        return False


def _abandoned(tops: list[Path], key: str) -> Iterator[Cgroup]:
    own = ownership.prefix_of(key)
    for name, folders in _found(tops).items():
        group = Cgroup(folders)
        if not name.startswith(own) and group.age_s > ABANDONED_AFTER_S and not group.processes():
            yield group


def _found(tops: list[Path]) -> dict[str, list[Path]]:
    """Return all groups of cells by name, each with its folder in every hierarchy."""
    found: dict[str, list[Path]] = {}
    for top in tops:
        for parent, names, _ in os.walk(top):
            for name in names:
                if ownership.is_ours(name):
                    found.setdefault(name, []).append(Path(parent, name))
    return found


def _homes(proc: Path) -> dict[str, str]:
    """Return the groups of this process by controller; version 2 has the empty name."""
    homes = {}
    for line in _read(proc / "self" / "cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            homes[controller] = path
    return homes


def _put(file: Path, text: str) -> None:
    """Write to an existing file; a cgroup file cannot be created by writing."""
    with file.open("r+") as opened:
        opened.write(text)


def _write(file: Path, text: str) -> bool:
    """Write to a file that may be missing, and return whether it was written."""
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
