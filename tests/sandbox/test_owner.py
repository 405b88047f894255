"""Whose a name says that something is, and whether that one is dead."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from crawlfleet.sandbox import owner, premises
from crawlfleet.sandbox.cgroups import FORGOTTEN_AFTER_S, GroupsV1

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux only")


def name_by(namespace: int, pid: int, started: int) -> str:
    return f"crawlfleet.k1.{owner.Owner(namespace, pid, started)}.a"


def test_what_a_living_process_made_is_no_orphan() -> None:
    name = owner.name_of("k1", "a")
    assert name.startswith(owner.prefix_of("k1"))
    assert name.endswith(".a")
    assert not owner.is_orphan(name)


def test_what_a_dead_process_made_is_an_orphan_before_and_after_it_is_reaped() -> None:
    here = owner.this_process()
    assert here is not None
    with subprocess.Popen(["sleep", "100"]) as process:
        stat = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        name = name_by(here.namespace, process.pid, int(stat[19]))
        assert not owner.is_orphan(name)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert owner.is_orphan(name)
        process.wait()
    assert owner.is_orphan(name)


def test_a_number_that_another_process_has_by_now_is_not_taken_for_the_owner() -> None:
    here = owner.this_process()
    assert here is not None
    assert owner.is_orphan(name_by(here.namespace, here.pid, here.started - 1))


def test_nobody_judges_what_cannot_be_known() -> None:
    here = owner.this_process()
    assert here is not None
    gone = subprocess.Popen(["true"])
    gone.wait()
    assert not owner.is_orphan(name_by(here.namespace + 1, gone.pid, 1))
    for name in ("crawlfleet.k1.a", "crawlfleet.k1.1-2.a", "crawlfleet.k1.x-y-z.a", "k.1-2-3.a"):
        assert not owner.is_orphan(name)


def test_processes_of_others_are_not_mistaken_for_dead(tmp_path: Path) -> None:
    """Where `/proc` shows another namespace, or hides what is not one's own."""
    (tmp_path / "self").symlink_to(str(os.getpid() + 1))
    assert owner.this_process(tmp_path) is None
    assert not owner.is_orphan(owner.name_of("k1", "a"), tmp_path)


def test_groups_of_nobody_known_go_when_they_have_been_empty_for_long(tmp_path: Path) -> None:
    ages = {"old": 2 * FORGOTTEN_AFTER_S, "new": 60.0, "used": 2 * FORGOTTEN_AFTER_S}
    for name, age_s in ages.items():
        for controller in ("memory", "cpu", "pids"):
            folder = tmp_path / controller / f"crawlfleet.other.{name}"
            folder.mkdir(parents=True)
            if name == "used":
                (folder / "cgroup.procs").write_text("17\n")
            made_at = time.time() - age_s
            os.utime(folder, (made_at, made_at))
    groups = GroupsV1("k1", root=tmp_path)
    assert list(groups.left()) == []
    (forgotten,) = groups.forgotten()
    assert forgotten.drop()
    assert sorted(path.name for path in (tmp_path / "cpu").iterdir()) == [
        "crawlfleet.other.new",
        "crawlfleet.other.used",
    ]


def test_scratch_folders_of_the_dead_go_and_those_of_others_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = owner.this_process()
    assert here is not None
    abroad = tmp_path / "abroad"
    abroad.mkdir()
    monkeypatch.setattr(premises, "_open_to_all", lambda: abroad)
    place = premises.Premises(tmp_path / "sandbox")
    dead, living, other = (
        name_by(here.namespace + by, here.pid, here.started - 1 + late)
        for by, late in ((0, 0), (0, 1), (1, 0))
    )
    own = owner.name_of(place.key, "a")
    for name in (dead, living, other, own, "crawlfleet.other.a", "notes"):
        (abroad / name / "scratch").mkdir(parents=True)
    assert place.sweep() == 2
    assert sorted(path.name for path in abroad.iterdir()) == sorted(
        [living, other, "crawlfleet.other.a", "notes"]
    )
    place.close()
