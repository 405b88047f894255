import asyncio
import os
import time
from pathlib import Path

import psutil
import pytest

from crawlfleet.model.resources import Resources
from crawlfleet.model.settings import WorkerSettings
from crawlfleet.worker.machine import ControlGroup, UsageMeter, measure_capacity

MEGABYTE = 1 << 20


def group(root: Path, membership: str, files: dict[str, str]) -> ControlGroup:
    for name, text in files.items():
        file = root / "cgroup" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n")
    (root / "self").mkdir()
    (root / "self" / "cgroup").write_text(membership + "\n")
    return ControlGroup(root=root / "cgroup", proc=root)


def no_group(root: Path) -> ControlGroup:
    return ControlGroup(root=root / "none", proc=root)


def test_the_tightest_limit_of_cgroup_v2_counts(tmp_path: Path) -> None:
    limits = group(
        tmp_path,
        "0::/pod/box",
        {
            "pod/cpu.max": "150000 100000",
            "pod/box/cpu.max": "max 100000",
            "pod/memory.max": str(512 * MEGABYTE),
            "pod/memory.current": str(300 * MEGABYTE),
            "pod/memory.stat": f"anon 1\ninactive_file {44 * MEGABYTE}",
            "pod/box/memory.max": "max",
            "pod/box/memory.current": "5",
        },
    )

    assert limits.cpu_limit() == 1.5
    assert limits.memory() == (256 * MEGABYTE, 512 * MEGABYTE)


def test_limits_of_cgroup_v1_count(tmp_path: Path) -> None:
    limits = group(
        tmp_path,
        "4:memory:/docker/1\n1:cpu,cpuacct:/docker/1",
        {
            "memory/docker/1/memory.limit_in_bytes": str(256 * MEGABYTE),
            "memory/docker/1/memory.usage_in_bytes": str(64 * MEGABYTE),
            "cpu,cpuacct/docker/1/cpu.cfs_quota_us": "50000",
            "cpu,cpuacct/docker/1/cpu.cfs_period_us": "100000",
            "cpu,cpuacct/docker/1/cpuacct.usage": "2000000000",
        },
    )

    assert limits.cpu_limit() == 0.5
    assert limits.cpu_seconds() == 2.0
    assert limits.memory() == (64 * MEGABYTE, 256 * MEGABYTE)


def test_without_limits_the_machine_counts(tmp_path: Path) -> None:
    capacity = asyncio.run(measure_capacity(WorkerSettings(slots=3), group=no_group(tmp_path)))

    assert capacity.cpu_cores == len(os.sched_getaffinity(0))
    assert capacity.memory_mb == psutil.virtual_memory().total // MEGABYTE
    assert capacity.slots == 3


def test_capacity_honours_the_limits_of_the_container(tmp_path: Path) -> None:
    limits = group(
        tmp_path,
        "0::/",
        {
            "cpu.max": "50000 100000",
            "memory.max": str(100 * MEGABYTE),
            "memory.current": str(25 * MEGABYTE),
        },
    )

    capacity = asyncio.run(measure_capacity(WorkerSettings(), group=limits))
    usage = asyncio.run(UsageMeter(group=limits).read())

    assert (capacity.cpu_cores, capacity.memory_mb) == (0.5, 100)
    assert usage.memory_usage == 0.25


def test_what_is_set_is_offered_whatever_the_machine_has() -> None:
    given = Resources(cpu_cores=99, memory_mb=7, gpu=2, bandwidth_mbps=5, slots=1)

    assert asyncio.run(measure_capacity(WorkerSettings(resources=given))) == given


def test_a_busy_core_is_seen(tmp_path: Path) -> None:
    meter = UsageMeter(group=no_group(tmp_path))
    end = time.monotonic() + 0.5
    while time.monotonic() < end:
        pass

    usage = asyncio.run(meter.read())

    cores = len(os.sched_getaffinity(0))
    assert 0.2 / cores < usage.cpu_usage <= 1
    assert 0 < usage.memory_usage < 1
    assert usage.network_io >= 0
    assert usage.disk_io >= 0


def test_gpus_are_asked_where_there_are_any(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\ncase $1 in *index) echo 0; echo 1;; *) echo 40; echo 60;; esac\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    usage = asyncio.run(UsageMeter(group=no_group(tmp_path)).read())
    capacity = asyncio.run(measure_capacity(WorkerSettings(), group=no_group(tmp_path)))

    assert usage.gpu_usage == 0.5
    assert capacity.gpu == 2


def test_without_gpus_nothing_is_said_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    assert asyncio.run(UsageMeter(group=no_group(tmp_path)).read()).gpu_usage is None
