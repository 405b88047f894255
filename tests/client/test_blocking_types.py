"""What type checkers know of the client that waits."""

import subprocess
import sys
from pathlib import Path

import pytest

from crawlfleet.client import BlockingClient, Client
from tests.client.blocking_calls import STUB, stub

GOOD = """
from crawlfleet.client import Client
from crawlfleet.views.tasks import TaskReceipt, TaskView

with Client.blocking("http://127.0.0.1:8470", "k", patience_s=3) as fleet:
    receipt: TaskReceipt = fleet.submit("sleep", {"seconds": 1}, priority=7)
    task: TaskView = fleet.wait(receipt.id)
    tasks: list[TaskView] = list(fleet.tasks(limit=3))
"""
BAD = """
from crawlfleet.client import Client

fleet = Client.blocking("http://127.0.0.1:8470", "k", patience=3)
fleet.sumbit("sleep")
number: int = fleet.submit("sleep")
"""


def test_the_stub_tells_of_the_methods_as_they_are() -> None:
    written = STUB.read_text()

    assert written == stub(), "run: .venv/bin/python -m tests.client.blocking_calls"


def test_the_stub_tells_of_every_public_method() -> None:
    public = {name for name in dir(Client) if not name.startswith("_")} - {"blocking"}

    missing = {name for name in public if f"def {name}(" not in STUB.read_text()}

    assert not missing
    assert (
        "def submit(" not in Path(sys.modules[BlockingClient.__module__].__file__ or "").read_text()
    )


@pytest.mark.slow
def test_a_type_checker_knows_the_methods_and_their_answers(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.py", tmp_path / "bad.py"
    good.write_text(GOOD)
    bad.write_text(BAD)

    told = subprocess.run(
        # A cache of its own: the project's tells of a file by the path that it had last time.
        [sys.executable, "-m", "mypy", "--cache-dir", str(tmp_path), "--strict", good, bad],
        capture_output=True,
        text=True,
        check=False,
    ).stdout

    wrong = [line for line in told.splitlines() if ": error: " in line]
    assert [line.split(":")[:2] for line in wrong] == [
        [str(bad), "4"],
        [str(bad), "5"],
        [str(bad), "6"],
    ], told
