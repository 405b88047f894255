"""`make run` without a terminal: the demo does its work and ends."""

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(200)]


def test_the_demo_crawls_its_shop_and_ends_well(tmp_path: Path) -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("CRAWLFLEET_")}
    ended = subprocess.run(
        [sys.executable, "-m", "crawlfleet", "up", "--demo", "--data", str(tmp_path / "data")],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=180,
    )

    assert ended.returncode == 0, ended.stderr
    assert "and 200 products in" in ended.stderr
    assert "demo shop: http://127.0.0.1:" in ended.stdout
    commands = (" ".join(_command(process)) for process in psutil.process_iter())
    assert not [command for command in commands if str(tmp_path) in command]


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []
