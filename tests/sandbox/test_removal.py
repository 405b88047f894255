"""Folders of foreign code are removed, whatever it did to keep them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from crawlfleet.sandbox import removal

pytestmark = pytest.mark.slow

PLAIN_USER = 65534
AS_A_PLAIN_USER = """
import json, os, sys
sys.path[:] = json.loads(sys.argv[1])
from pathlib import Path
from crawlfleet.sandbox import removal
if os.geteuid() == 0:
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
folder = Path("/proc/self/cwd/mine")
folder.mkdir()
(folder / "closed" / "within").mkdir(parents=True)
(folder / "closed" / "within" / "file").touch()
(folder / "fixed").mkdir()
(folder / "fixed" / "link").symlink_to("../../precious")
(folder / "blind").mkdir(mode=0o700)
(folder / "blind" / "file").touch()
(folder / "link").symlink_to("../precious")
for name, mode in (("closed/within", 0), ("closed", 0), ("fixed", 0o500), ("blind", 0o300)):
    (folder / name).chmod(mode)
folder.chmod(0o000)
print(removal.remove(folder))
"""


def test_modes_and_links_keep_nothing(tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir(mode=0o755)
    (tmp_path / "precious" / "file").write_text("kept")
    tmp_path.chmod(0o777)
    done = subprocess.run(
        [sys.executable, "-c", AS_A_PLAIN_USER, json.dumps(sys.path)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=60,
    )
    assert done.stdout.strip() == "True", done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]
    assert (tmp_path / "precious" / "file").read_text() == "kept"
    assert (tmp_path / "precious").stat().st_mode & 0o777 == 0o755


def test_depth_keeps_nothing(tmp_path: Path) -> None:
    top = tmp_path / "deep"
    top.mkdir()
    before = Path.cwd()
    os.chdir(top)
    try:
        for _ in range(3000):
            Path("folder-in-a-folder").mkdir()
            os.chdir("folder-in-a-folder")
    finally:
        os.chdir(before)
    assert removal.remove(top)
    assert not top.exists()


def test_a_link_in_the_place_of_the_folder_is_removed_alone(tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "precious")
    assert removal.remove(tmp_path / "link")
    assert (tmp_path / "precious" / "file").exists()


def test_what_is_not_there_is_removed(tmp_path: Path) -> None:
    assert removal.remove(tmp_path / "none")


@pytest.mark.skipif(os.geteuid() != 0, reason="plays two users")
def test_what_cannot_be_removed_is_told(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    (closed / "folder").mkdir(parents=True)
    tmp_path.chmod(0o755)
    code = (
        "import sys, os, json; sys.path[:] = json.loads(sys.argv[1])\n"
        "from pathlib import Path; from crawlfleet.sandbox import removal\n"
        f"os.setresuid({PLAIN_USER}, {PLAIN_USER}, {PLAIN_USER})\n"
        "print(removal.remove(Path('closed')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps(sys.path)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=60,
    )
    assert done.stdout.strip() == "False", done.stderr
