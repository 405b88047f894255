"""What is written into control groups, against folders that look like the kernel's."""

import asyncio
from pathlib import Path

import pytest

from crawlfleet.model.isolation import Limits
from crawlfleet.sandbox.kernel.cgroups import CgroupsV1, CgroupsV2

LIMITS = Limits(cpu_cores=1.5, memory_mb=256, pids=32)


def proc_with(folder: Path, lines: str) -> Path:
    (folder / "self").mkdir(parents=True)
    (folder / "self" / "cgroup").write_text(lines)
    for pid, parent in ((17, 1), (18, 17), (19, 1)):
        (folder / str(pid)).mkdir()
        (folder / str(pid) / "stat").write_text(f"{pid} (a) b) S {parent} 0 0")
    return folder


def like_v2(
    folder: Path,
    *,
    controllers: str,
    given: str = "",
    procs: str = "",
    is_real_root: bool = False,
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for top in folder.parents:
        if top.name == "cgroup":
            (top / "cgroup.controllers").touch()
    if not is_real_root:
        (folder / "cgroup.type").write_text("domain")
    (folder / "cgroup.controllers").write_text(controllers)
    (folder / "cgroup.subtree_control").write_text(given)
    (folder / "cgroup.procs").write_text(procs)


class KernelLike:
    """Fills a new folder with files, as the kernel does, while a test makes groups."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...]) -> None:
        plain = Path.mkdir

        def mkdir(path: Path, *args: object, **options: object) -> None:
            plain(path, *args, **options)  # type: ignore[arg-type]
            if path.name.startswith("crawlfleet.") or path.name == "agent":
                for name in names:
                    (path / name).touch()

        monkeypatch.setattr(Path, "mkdir", mkdir)


V2_FILES = (
    "cgroup.procs",
    "memory.max",
    "memory.swap.max",
    "memory.oom.group",
    "cpu.max",
    "cpu.weight",
)


def test_v2_limits_are_written_into_a_group_of_the_cell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    KernelLike(monkeypatch, (*V2_FILES, "pids.max", "memory.events"))
    proc = proc_with(tmp_path / "proc", "0::/system.slice/worker.service\n")
    home = tmp_path / "cgroup" / "system.slice" / "worker.service"
    like_v2(home, controllers="cpu memory pids", procs="17\n18\n")
    group = CgroupsV2("k1", root=tmp_path / "cgroup", proc=proc, agent=17).make("c1", LIMITS)
    made = home / "crawlfleet.k1.c1"
    assert group.procs_files == (str(made / "cgroup.procs"),)
    assert (made / "memory.max").read_text() == str(256 << 20)
    assert (made / "memory.swap.max").read_text() == "0"
    assert (made / "memory.oom.group").read_text() == "1"
    assert (made / "cpu.max").read_text() == "150000 100000"
    assert (made / "cpu.weight").read_text() == "1200"
    assert (made / "pids.max").read_text() == "32"
    # A group with processes of its own cannot be divided: they move into a leaf first.
    assert (home / "agent" / "cgroup.procs").read_text() == "18"
    assert (home / "cgroup.subtree_control").read_text() == "+memory +cpu +pids"


@pytest.mark.parametrize("is_real_root", [True, False])
def test_v2_at_the_top_of_a_container_makes_room_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_real_root: bool
) -> None:
    KernelLike(monkeypatch, (*V2_FILES, "pids.max"))
    proc = proc_with(tmp_path / "proc", "0::/\n")
    top = tmp_path / "cgroup"
    like_v2(top, controllers="cpu memory pids", procs="17\n", is_real_root=is_real_root)
    CgroupsV2("k1", root=top, proc=proc, agent=17).make("c1", LIMITS)
    assert (top / "agent").is_dir() is not is_real_root
    assert (top / "cgroup.subtree_control").read_text() == "+memory +cpu +pids"


@pytest.mark.parametrize("procs", ["17\n19\n", "1\n17\n", "0\n17\n"])
def test_v2_moves_nobody_elses_processes(tmp_path: Path, procs: str) -> None:
    proc = proc_with(tmp_path / "proc", "0::/session.scope\n")
    home = tmp_path / "cgroup" / "session.scope"
    like_v2(home, controllers="cpu memory pids", procs=procs)
    with pytest.raises(PermissionError, match="holds processes of others"):
        CgroupsV2("k1", root=tmp_path / "cgroup", proc=proc, agent=17).make("c1", LIMITS)
    assert not (home / "agent").exists()
    assert (home / "cgroup.subtree_control").read_text() == ""


def test_v2_finds_its_place_again_from_the_leaf(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    KernelLike(monkeypatch, (*V2_FILES, "pids.max"))
    proc = proc_with(tmp_path / "proc", "0::/worker.service/agent\n")
    home = tmp_path / "cgroup" / "worker.service"
    like_v2(home / "agent", controllers="", procs="17\n")
    like_v2(home, controllers="cpu memory pids", given="cpu memory pids")
    CgroupsV2("k1", root=tmp_path / "cgroup", proc=proc).make("c1", LIMITS)
    assert (home / "crawlfleet.k1.c1").is_dir()
    assert (home / "cgroup.subtree_control").read_text() == "cpu memory pids"


def test_v2_without_controllers_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    proc = proc_with(tmp_path / "proc", "0::/\n")
    like_v2(tmp_path / "cgroup", controllers="hugetlb")
    with pytest.raises(OSError, match="no controller memory, cpu, pids"):
        CgroupsV2("k1", root=tmp_path / "cgroup", proc=proc).make("c1", LIMITS)
    assert not list((tmp_path / "cgroup").glob("crawlfleet*"))


def test_v2_kills_by_one_write_and_reads_what_the_kernel_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = (*V2_FILES, "pids.max", "cgroup.kill", "memory.events", "memory.peak")
    KernelLike(monkeypatch, names)
    proc = proc_with(tmp_path / "proc", "0::/\n")
    like_v2(tmp_path / "cgroup", controllers="cpu memory pids", given="cpu memory pids")
    group = CgroupsV2("k1", root=tmp_path / "cgroup", proc=proc).make("c1", LIMITS)
    made = tmp_path / "cgroup" / "crawlfleet.k1.c1"
    assert group.excess() == ""
    (made / "memory.events").write_text("low 0\noom 1\noom_kill 2\n")
    (made / "memory.peak").write_text(str(200 << 20))
    assert group.excess() == "used more than its 256 MB of memory"
    assert group.figures() == {"peak_memory_mb": 200.0}
    group.kill()
    assert (made / "cgroup.kill").read_text() == "1"


def test_v1_limits_are_written_below_the_groups_of_the_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "cgroup"
    KernelLike(
        monkeypatch,
        (
            *("cgroup.procs", "memory.limit_in_bytes", "cpu.cfs_period_us", "cpu.cfs_quota_us"),
            *("tasks", "cpu.shares", "pids.max"),
        ),
    )
    proc = proc_with(tmp_path / "proc", "4:memory:/mine\n2:cpu,cpuacct:/\n1:pids:/not/seen\n0::/\n")
    for home in (root / "memory" / "mine", root / "cpu", root / "pids"):
        home.mkdir(parents=True)
        (home / "cgroup.procs").touch()
    group = CgroupsV1("k1", root=root, proc=proc).make("c1", LIMITS)
    assert [Path(each).name for each in group.procs_files] == ["tasks"] * 3
    limit = root / "memory" / "mine" / "crawlfleet.k1.c1" / "memory.limit_in_bytes"
    assert limit.read_text() == str(256 << 20)
    assert (root / "cpu" / "crawlfleet.k1.c1" / "cpu.cfs_quota_us").read_text() == "150000"
    assert (root / "cpu" / "crawlfleet.k1.c1" / "cpu.shares").read_text() == "12288"
    assert (root / "pids" / "crawlfleet.k1.c1" / "pids.max").read_text() == "32"


def test_only_what_carries_the_key_is_found_again(tmp_path: Path) -> None:
    for name in ("crawlfleet.k1.a", "crawlfleet.k1.b", "crawlfleet.k2.a", "crawlfleet.k11.a"):
        (tmp_path / "memory" / "somewhere" / name).mkdir(parents=True)
        (tmp_path / "cpu" / name).mkdir(parents=True)
    groups = list(CgroupsV1("k1", root=tmp_path).leftovers())
    assert len(groups) == 2
    assert all(asyncio.run(group.remove()) for group in groups)
    left = sorted(path.name for path in (tmp_path / "cpu").iterdir())
    assert left == ["crawlfleet.k11.a", "crawlfleet.k2.a"]
