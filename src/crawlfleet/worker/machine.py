"""Measures the resources of this machine and their use.

In a container the limits of the control group count, not the machine around it: a node that offers
64 cores and may use two would be given work that it cannot do.
"""

import asyncio
import os
import shutil
import time
from pathlib import Path
from typing import Final

import psutil  # type: ignore[import-untyped]

from crawlfleet.model.resources import Resources, Usage
from crawlfleet.model.settings import WorkerSettings

MEGABYTE: Final = 1 << 20
GPU_WAIT_S: Final = 2.0
"""Seconds that the GPU driver may take to answer; it must not hold up the heartbeat."""


class ControlGroup:
    """The limits on this process, by cgroup v2 or v1; `None` where there is no limit."""

    def __init__(self, *, root: Path = Path("/sys/fs/cgroup"), proc: Path = Path("/proc")) -> None:
        self._folders = _folders(root, proc)

    def cpu_limit(self) -> float | None:
        """The CPU limit in cores; `None` if there is none."""
        limits = []
        for folder in self._folders:
            quota, _, period = _read(folder / "cpu.max").partition(" ")
            if not quota:
                quota = _read(folder / "cpu.cfs_quota_us")
                period = _read(folder / "cpu.cfs_period_us")
            if quota.isdecimal() and period.isdecimal() and int(period):
                limits.append(int(quota) / int(period))
        return min(limits, default=None)

    def cpu_seconds(self) -> float | None:
        """Return the CPU time that this group has used so far."""
        for folder in self._folders:
            if microseconds := _statistic(_read(folder / "cpu.stat"), "usage_usec"):
                return microseconds / 1e6
            nanoseconds = _read(folder / "cpuacct.usage")
            if nanoseconds.isdecimal():
                return int(nanoseconds) / 1e9
        return None

    def memory(self) -> tuple[int, int] | None:
        """Return the bytes used and allowed by the tightest limit. Reclaimable file cache does not
        count."""
        found = []
        for folder in self._folders:
            for limit_file, usage_file, cache in (
                ("memory.max", "memory.current", "inactive_file"),
                ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
            ):
                limit, used = _read(folder / limit_file), _read(folder / usage_file)
                if limit.isdecimal() and used.isdecimal() and int(limit):
                    reclaimable = _statistic(_read(folder / "memory.stat"), cache)
                    found.append((int(limit), max(0, int(used) - reclaimable)))
        if not found:
            return None
        allowed, in_use = min(found)
        return in_use, allowed


class UsageMeter:
    """Measures usage between two calls of `read`; reading never blocks the event loop."""

    def __init__(self, *, group: ControlGroup | None = None, folder: Path = Path("/")) -> None:
        self._folder = folder
        self._group = group or ControlGroup()
        self._smi = shutil.which("nvidia-smi")
        self._at = time.monotonic()
        self._cpu_seconds = _busy_seconds(self._group)
        self._network, self._disk = _network_bytes(), _disk_bytes()

    async def read(self) -> Usage:
        """Return the usage since the last call; the first time, since the meter was made."""
        now, cpu = time.monotonic(), _busy_seconds(self._group)
        network, disk = _network_bytes(), _disk_bytes()
        seconds = max(now - self._at, 1e-3)
        disk_usage, disk_free_mb = _space(self._folder)
        usage = Usage(
            cpu_usage=_share((cpu - self._cpu_seconds) / seconds / _cpu_cores(self._group)),
            memory_usage=self._memory_usage(),
            gpu_usage=await self._gpu_usage(),
            network_io=max(0.0, (network - self._network) / seconds),
            disk_io=max(0.0, (disk - self._disk) / seconds),
            disk_usage=disk_usage,
            disk_free_mb=disk_free_mb,
        )
        self._at, self._cpu_seconds, self._network, self._disk = now, cpu, network, disk
        return usage

    def _memory_usage(self) -> float:
        machine = psutil.virtual_memory()
        memory = self._group.memory()
        if memory and memory[1] < machine.total:
            used, limit = memory
            return _share(used / limit)
        return _share(1 - machine.available / machine.total)

    async def _gpu_usage(self) -> float | None:
        shares = await _ask_gpus(self._smi, "utilization.gpu")
        return _share(sum(shares) / len(shares) / 100) if shares else None


async def measure_capacity(
    settings: WorkerSettings, *, group: ControlGroup | None = None
) -> Resources:
    """Return the resources that the node offers: the configured ones, and measured ones where
    nothing is configured."""
    given = settings.resources
    group = group or ControlGroup()
    memory = group.memory()
    total = psutil.virtual_memory().total
    gpus = await _ask_gpus(shutil.which("nvidia-smi"), "index")
    return Resources(
        cpu_cores=given.cpu_cores or _cpu_cores(group),
        memory_mb=given.memory_mb or min(total, memory[1] if memory else total) // MEGABYTE,
        gpu=given.gpu or float(len(gpus)),
        bandwidth_mbps=given.bandwidth_mbps or _bandwidth_mbps(),
        slots=given.slots or float(settings.slots),
    )


def _cpu_cores(group: ControlGroup) -> float:
    cores = float(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0)
    cores = cores or float(psutil.cpu_count() or 1)
    return min(cores, group.cpu_limit() or cores)


def _busy_seconds(group: ControlGroup) -> float:
    """CPU time used so far by the group if it is limited, else on the cores it may use."""
    if group.cpu_limit() is not None and (used := group.cpu_seconds()) is not None:
        return used
    times = psutil.cpu_times(percpu=True)
    mine = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(len(times))
    idle = ("idle", "iowait", "guest", "guest_nice")  # guest time is also counted as user time
    busy = 0.0
    for number, core in enumerate(times):
        if number in mine:
            busy += sum(core) - sum(getattr(core, name, 0.0) for name in idle)
    return busy


def _network_bytes() -> int:
    counters = psutil.net_io_counters()
    return int(counters.bytes_sent + counters.bytes_recv) if counters else 0


def _disk_bytes() -> int:
    counters = psutil.disk_io_counters()
    return int(counters.read_bytes + counters.write_bytes) if counters else 0


def _space(folder: Path) -> tuple[float | None, float | None]:
    """Return the used share of a folder's disk, and the megabytes left for this user; `None` if
    unknown."""
    try:
        found = psutil.disk_usage(str(folder))
    except OSError:
        return None, None
    return _share(found.percent / 100), found.free / MEGABYTE


def _bandwidth_mbps() -> float:
    """Return the bandwidth of the fastest network card that is up; zero when it is unknown."""
    cards = psutil.net_if_stats().items()
    return float(max((c.speed for name, c in cards if c.isup and name != "lo"), default=0))


async def _ask_gpus(smi: str | None, question: str) -> list[float]:
    """Return one number for each GPU; nothing when there is no GPU or the driver does not
    answer."""
    if smi is None:
        return []
    process = await asyncio.create_subprocess_exec(
        smi,
        f"--query-gpu={question}",
        "--format=csv,noheader,nounits",
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(GPU_WAIT_S):
            output, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        return []
    lines = output.decode(errors="replace").split()
    return [float(line) for line in lines if line.isdecimal()]


def _folders(root: Path, proc: Path) -> list[Path]:
    """The folders of this process's groups and of all groups around them."""
    folders = []
    for line in _read(proc / "self" / "cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        parts = [part for part in path.split("/") if part not in {"", ".."}]
        tops = [root / name for name in (controllers, *controllers.split(",")) if name]
        for top in tops or [root, root / "unified"]:
            folders += [top.joinpath(*parts[:depth]) for depth in range(len(parts), -1, -1)]
    return [folder for folder in dict.fromkeys(folders) if folder.is_dir()]


def _read(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return ""


def _statistic(statistics: str, name: str) -> int:
    for line in statistics.splitlines():
        key, _, value = line.partition(" ")
        if key == name and value.isdecimal():
            return int(value)
    return 0


def _share(value: float) -> float:
    return min(1.0, max(0.0, value))
