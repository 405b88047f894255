"""Whose a name says that something is, and whether that one is dead."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from crawlfleet.sandbox import folder as sandbox_folder
from crawlfleet.sandbox import ownership
from crawlfleet.sandbox.kernel import cgroups
from crawlfleet.sandbox.kernel.cgroups import ABANDONED_AFTER_S, CgroupsV1, CgroupsV2

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux only")


def here() -> ownership.Owner:
    found = ownership.this_process()
    assert found is not None
    return found


def name_by(made_by: ownership.Owner, key: str = "k1", **changes: int) -> str:
    return f"crawlfleet.{key}.{made_by._replace(**changes)}.a"


@contextlib.contextmanager
def another() -> Iterator[ownership.Owner]:
    """Some other process, which lives as long."""
    with subprocess.Popen(["sleep", "100"]) as process:
        stat = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        try:
            yield here()._replace(pid=process.pid, started=int(stat[19]))
        finally:
            process.kill()


def test_what_a_living_process_made_is_no_orphan() -> None:
    name = ownership.name_of("k1", "a")
    assert name.startswith(ownership.prefix_of("k1"))
    assert name.endswith(".a")
    assert not ownership.is_orphan(name)


def test_what_a_dead_process_made_is_an_orphan_before_and_after_it_is_reaped() -> None:
    with another() as made_by:
        name = name_by(made_by)
        assert not ownership.is_orphan(name)
        os.kill(made_by.pid, signal.SIGKILL)
        os.waitid(os.P_PID, made_by.pid, os.WEXITED | os.WNOWAIT)
        assert ownership.is_orphan(name)
    assert ownership.is_orphan(name)


def test_a_number_that_another_process_has_by_now_is_not_taken_for_the_owner() -> None:
    assert ownership.is_orphan(name_by(here(), started=here().started - 1))


def test_nobody_judges_what_cannot_be_known() -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    dead = here()._replace(pid=gone.pid, started=1)
    assert ownership.is_orphan(name_by(dead))
    # Another container, another kernel with the same file system, another clock.
    for part in ("namespace", "boot", "clock"):
        assert not ownership.is_orphan(name_by(dead, **{part: getattr(dead, part) + 1}))
    old = f"crawlfleet.k1.{dead.namespace}-{dead.pid}-1.a"
    for name in (old, "crawlfleet.k1.a", "crawlfleet.k1.1-2.a", "crawlfleet.k1.x-y-z.a", "k.1-2.a"):
        assert not ownership.is_orphan(name)


def test_a_copied_key_does_not_make_cells_of_the_living_ones_own(tmp_path: Path) -> None:
    with another() as made_by:
        name, unknown = name_by(made_by), name_by(made_by, boot=made_by.boot + 1)
        assert not ownership.was_left(name, "k1")
        for each in (name, unknown, name_by(here())):
            (tmp_path / each).mkdir()
        found = [group.procs_files[0] for group in CgroupsV2("k1", root=tmp_path).leftovers()]
        assert sorted(Path(each).parent.name for each in found) == sorted(
            [unknown, name_by(here())]
        )
    assert ownership.was_left(name, "k1")


def test_what_cannot_be_removed_holds_up_no_more_by_being_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    clock = SimpleNamespace(monotonic=lambda: sum(slept), sleep=slept.append)
    monkeypatch.setattr(cgroups, "time", clock)
    for number in range(50):
        (tmp_path / name_by(here(), key=f"k{number}", started=1) / "child").mkdir(parents=True)
    found = list(CgroupsV2("own", root=tmp_path).leftovers())
    assert len(found) == 50
    assert cgroups.remove_all(found) == 50
    assert sum(slept) < cgroups.REMOVE_WAIT_S + 2 * cgroups.CHECK_INTERVAL_S
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    assert list(CgroupsV2("own", root=tmp_path).leftovers()) == []  # somebody else's


def test_processes_of_others_are_not_mistaken_for_dead(tmp_path: Path) -> None:
    """Where `/proc` shows another namespace, or hides what is not one's own."""
    (tmp_path / "self").symlink_to(str(os.getpid() + 1))
    assert ownership.this_process(tmp_path) is None
    assert not ownership.is_orphan(ownership.name_of("k1", "a"), tmp_path)


def test_groups_of_nobody_known_go_when_they_have_been_empty_for_long(tmp_path: Path) -> None:
    ages = {"old": 2 * ABANDONED_AFTER_S, "new": 60.0, "used": 2 * ABANDONED_AFTER_S}
    for name, age_s in ages.items():
        for controller in ("memory", "cpu", "pids"):
            folder = tmp_path / controller / f"crawlfleet.other.{name}"
            folder.mkdir(parents=True)
            if name == "used":
                (folder / "cgroup.procs").write_text("17\n")
            made_at = time.time() - age_s
            os.utime(folder, (made_at, made_at))
    groups = CgroupsV1("k1", root=tmp_path)
    assert list(groups.leftovers()) == []
    (abandoned,) = groups.abandoned()
    assert abandoned.try_remove()
    assert sorted(path.name for path in (tmp_path / "cpu").iterdir()) == [
        "crawlfleet.other.new",
        "crawlfleet.other.used",
    ]


def test_scratch_folders_of_the_dead_go_and_those_of_others_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    abroad = tmp_path / "abroad"
    abroad.mkdir()
    monkeypatch.setattr(sandbox_folder, "_shared_temporary", lambda: abroad)
    place = sandbox_folder.SandboxFolder(tmp_path / "sandbox")
    gone = here()._replace(started=here().started - 1)
    dead, living = name_by(gone), name_by(here())
    other = name_by(gone, namespace=gone.namespace + 1)
    own = ownership.name_of(place.key, "a")
    for name in (dead, living, other, own, "crawlfleet.other.a", "notes"):
        (abroad / name / "scratch").mkdir(parents=True)
    assert place.sweep() == 2
    assert sorted(path.name for path in abroad.iterdir()) == sorted(
        [living, other, "crawlfleet.other.a", "notes"]
    )
    place.close()
