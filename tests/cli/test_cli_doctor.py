"""What `doctor` finds, and what it advises."""

import json
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from crawlfleet.cli import checks
from crawlfleet.cli.checks import Verdict
from crawlfleet.cli.connection import Connection, write_connection

Run = Callable[..., Result]


def found(result: Result) -> dict[str, dict[str, str]]:
    return {check["name"]: check for check in json.loads(result.stdout)}


def test_a_sound_machine_without_a_fleet_is_told_how_to_start_one(run: Run) -> None:
    result = run("doctor", "--json")
    seen = found(result)
    assert result.exit_code == 0
    assert seen["python"]["verdict"] == seen["settings"]["verdict"] == "ok"
    assert seen["master"]["verdict"] == "warning"
    assert "crawlfleet up" in seen["master"]["remedy"]


def test_checks_are_a_table_for_people(run: Run) -> None:
    shown = run("doctor").stdout
    assert "✓  python" in shown
    assert "no problems, 1 warning" in shown


def test_every_wrong_setting_is_a_problem(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRAWLFLEET_WORKERS", "many")
    monkeypatch.setenv("CRAWLFLEET_SERVER_PORT", "-1")
    result = run("doctor", "--json")
    assert result.exit_code == 1
    problems = [each for each in json.loads(result.stdout) if each["verdict"] == "problem"]
    assert len(problems) == 2


def test_a_port_that_is_taken_is_a_problem() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        number = taken.getsockname()[1]
        assert checks.port("127.0.0.1", number).verdict is Verdict.PROBLEM
    assert checks.port("127.0.0.1", number).verdict is Verdict.OK


def test_a_store_that_is_no_database_is_a_problem(place: Path, run: Run) -> None:
    (place / "fleet").mkdir()
    (place / "fleet/crawlfleet.db").write_bytes(b"not a database, and long enough to tell" * 40)
    result = run("doctor", "--data", "fleet", "--json")
    assert result.exit_code == 1
    assert found(result)["store"]["verdict"] == "problem"


def test_a_data_folder_that_is_a_file_is_a_problem(place: Path) -> None:
    (place / "file").write_text("")
    [check] = checks.folder(place / "file")
    assert check.verdict is Verdict.PROBLEM


def test_a_folder_that_will_be_made_is_fine(place: Path) -> None:
    assert {check.verdict for check in checks.folder(place / "a" / "b")} == {Verdict.OK}
    assert not (place / "a").exists()


def test_a_master_that_does_not_answer_is_a_problem(place: Path, run: Run) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    write_connection(place / "fleet", Connection(url=url, key="k"))
    result = run("doctor", "--data", "fleet", "--json")
    assert result.exit_code == 1
    assert found(result)["master"]["verdict"] == "problem"


def test_a_clock_behind_the_store_is_a_problem(place: Path) -> None:
    store = place / "crawlfleet.db"
    store.write_text("")
    assert checks.clock(store).verdict is Verdict.OK
    os.utime(store, (time.time() + 3600,) * 2)
    assert checks.clock(store).verdict is Verdict.PROBLEM
