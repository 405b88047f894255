"""What `doctor` finds, and what it advises."""

import json
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from crawlfleet.cli.fleet import checks, doctor
from crawlfleet.cli.fleet.checks import DoctorVerdict
from crawlfleet.cli.fleet.ports import described
from crawlfleet.cli.shell.access import Access
from crawlfleet.cli.shell.connection import SavedConnection, write_connection
from crawlfleet.model.attention import HIGH, LOW, Concern, Subject
from crawlfleet.model.isolation import Isolation, Layer, Level

pytestmark = pytest.mark.slow

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


def test_a_master_with_tls_is_asked_by_the_files_that_other_commands_take(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Access] = []
    monkeypatch.setattr(doctor, "_examine", lambda access, _: asked.append(access) or [])
    run("doctor", "--ca", "ca.pem", "--cert", "own.pem", "--cert-key", "own.key")
    assert asked == [Access(ca=Path("ca.pem"), cert=Path("own.pem"), cert_key=Path("own.key"))]


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
        check = checks.port("127.0.0.1", number)
        assert check.verdict is DoctorVerdict.PROBLEM
        assert f"process {os.getpid()}" in check.message
        assert "--port" in check.remedy
    assert checks.port("127.0.0.1", number).verdict is DoctorVerdict.OK


def test_a_master_of_ours_is_named_with_its_data() -> None:
    command = ["/usr/bin/python3", "-m", "crawlfleet", "master", "--port", "8000", "--data", "/f"]
    assert described("python3", command, 7) == "a crawlfleet master (process 7, data in /f)"
    assert described("nginx", ["nginx: master process"], 8) == "nginx (process 8)"


def test_up_says_at_once_whose_the_port_is(run: Run, place: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        number = taken.getsockname()[1]
        result = run("up", "--data", "fleet", "--port", str(number))
    assert result.exit_code == 1
    said = " ".join(result.stderr.split())
    assert f"127.0.0.1:{number} is taken by" in said
    assert "choose another port" in said
    assert "starting it again" not in said
    assert not (place / "fleet" / "crawlfleet.db").exists()


def test_what_needs_attention_is_not_called_well() -> None:
    def concern(severity: str) -> Concern:
        subject = Subject(kind="tasks")
        return Concern(severity=severity, kind="k", subject=subject, message="m", remedy="r")

    [calm] = doctor._attention([concern(LOW)])
    assert calm.verdict is DoctorVerdict.OK
    many = list(doctor._attention([concern(HIGH)] * 7))
    assert {each.verdict for each in many} == {DoctorVerdict.WARNING}
    assert len(many) == doctor.MAX_CONCERNS + 1
    assert many[-1].message == "and 2 more"


def test_a_store_that_is_no_database_is_a_problem(place: Path, run: Run) -> None:
    (place / "fleet").mkdir()
    (place / "fleet/crawlfleet.db").write_bytes(b"not a database, and long enough to tell" * 40)
    result = run("doctor", "--data", "fleet", "--json")
    assert result.exit_code == 1
    assert found(result)["store"]["verdict"] == "problem"


def test_a_data_folder_that_is_a_file_is_a_problem(place: Path) -> None:
    (place / "file").write_text("")
    [check] = checks.folder(place / "file")
    assert check.verdict is DoctorVerdict.PROBLEM


def test_a_folder_that_will_be_made_is_fine(place: Path) -> None:
    verdicts = {check.name: check.verdict for check in checks.folder(place / "a" / "b")}
    assert verdicts.pop("disk speed") in {
        DoctorVerdict.OK,
        DoctorVerdict.WARNING,
    }  # a busy disk is slow
    assert set(verdicts.values()) == {DoctorVerdict.OK}
    assert not (place / "a").exists()


def test_a_master_that_does_not_answer_is_a_problem(place: Path, run: Run) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    write_connection(place / "fleet", SavedConnection(url=url, key="k"))
    result = run("doctor", "--data", "fleet", "--json")
    assert result.exit_code == 1
    assert found(result)["master"]["verdict"] == "problem"


def test_a_clock_behind_the_store_is_a_problem(place: Path) -> None:
    store = place / "crawlfleet.db"
    store.write_text("")
    assert checks.clock(store).verdict is DoctorVerdict.OK
    os.utime(store, (time.time() + 3600,) * 2)
    assert checks.clock(store).verdict is DoctorVerdict.PROBLEM


def test_root_is_told_that_a_worker_would_take_no_code_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    missing = {Layer.OTHER_USER: "no CAP_SETUID"}
    found = Isolation(level=Level.L0, layers=(Layer.RLIMITS,), missing=missing)
    monkeypatch.setattr("crawlfleet.sandbox.probe.detect", lambda: found)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    seen = checks.sandbox()
    assert seen.verdict is DoctorVerdict.PROBLEM
    assert "runs no bundles" in seen.message
    assert "no CAP_SETUID" in seen.message
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert checks.sandbox().verdict is DoctorVerdict.WARNING
