"""A command line whose surroundings are a test's own: folder, home and environment."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from crawlfleet.cli.shell.program import create_app
from tests.unread_errors import check_told

Run = Callable[..., Result]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that is the working folder and the home of nobody else."""
    for name in [name for name in os.environ if name.startswith("CRAWLFLEET_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(place: Path) -> Run:
    """Runs the program with arguments, as it is made for them."""

    def call(*arguments: str, input: str | None = None) -> Result:
        app = create_app(arguments)
        ran = CliRunner().invoke(app, list(arguments), input=input, prog_name="crawlfleet")
        check_told(ran.stderr, by="the command")
        return ran

    return call
