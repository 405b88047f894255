"""Who installs the package has the dashboard, and needs no node for it."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from crawlfleet.dashboard.serving import BUILT

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_the_wheel_has_the_built_page_and_is_made_without_node(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT,
        env={"PATH": "/nowhere"},
        check=True,
        capture_output=True,
        timeout=120,
    )
    (wheel,) = tmp_path.glob("*.whl")
    packed = set(zipfile.ZipFile(wheel).namelist())
    built = {
        f"crawlfleet/dashboard/dist/{each.relative_to(BUILT).as_posix()}"
        for each in BUILT.rglob("*")
        if each.is_file()
    }
    assert "crawlfleet/dashboard/dist/index.html" in built
    assert built <= packed
    assert not [name for name in packed if "node_modules" in name or name.endswith(".tsx")]


def test_nothing_but_the_build_of_the_page_and_its_tests_needs_node() -> None:
    rules = (ROOT / "Makefile").read_text().split("\n\n")
    users = [rule for rule in rules if "npm" in rule or "PAGE_READY" in rule]
    for target in ("run:", "check:", "install:", "$(READY):"):
        assert not [rule for rule in users if f"\n{target}" in f"\n{rule}"]
