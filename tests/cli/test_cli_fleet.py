"""The commands against a real fleet: one master and one worker in processes of their own."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("cli_fleet")]

KEY = "0123456789abcdef" * 4
START_DEADLINE_S = 60.0
STOP_DEADLINE_S = 20.0

Run = Callable[..., Result]


def clean_environment() -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("CRAWLFLEET_")}
    return {**kept, "CRAWLFLEET_ADMIN_KEY": KEY}


def program(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "crawlfleet", *arguments]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The data folder of a running fleet."""
    data = tmp_path_factory.mktemp("cli") / "fleet"
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = data.with_name("up.log")
    with log.open("wb") as out:
        fleet = subprocess.Popen(
            program("up", "--port", str(port), "--data", str(data), "--workers", "1"),
            env=clean_environment(),
            cwd=data.parent,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
        )
    try:
        wait_until_online(fleet, data, log)
        yield data
    finally:
        fleet.send_signal(signal.SIGTERM)
        try:
            fleet.wait(STOP_DEADLINE_S)
        except subprocess.TimeoutExpired:
            fleet.kill()
            fleet.wait()


def wait_until_online(fleet: subprocess.Popen[bytes], data: Path, log: Path) -> None:
    deadline = time.monotonic() + START_DEADLINE_S
    while time.monotonic() < deadline and fleet.poll() is None:
        asked = subprocess.run(
            program("status", "--data", str(data), "--json"),
            env=clean_environment(),
            cwd=data.parent,
            capture_output=True,
            timeout=30,
            check=False,
        )
        if asked.returncode == 0 and json.loads(asked.stdout)["totals"]["nodes"].get("online"):
            return
        time.sleep(0.2)
    pytest.fail(f"the fleet did not start:\n{log.read_text()}")


@pytest.fixture
def cli(folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs the program beside the fleet."""
    monkeypatch.setenv("CRAWLFLEET_DATA_DIR", str(folder))
    return run


def document(result: Result) -> Any:
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def submitted(cli: Run, *arguments: str) -> str:
    return str(document(cli("submit", *arguments, "--json"))["id"])


def stuck(cli: Run) -> str:
    """A task that no node can take."""
    return submitted(cli, "sleep", "-p", "seconds=0.01", "--capability", "antigravity=true")


def failed(cli: Run) -> str:
    """A task that has failed for good: a port on which nobody listens, and no second attempt."""
    id = submitted(cli, "http_fetch", "-p", "url=http://127.0.0.1:9/", "--max-retries", "0")
    assert cli("tasks", "wait", id).exit_code == 1
    return id


def test_submit_and_wait_prints_the_result(cli: Run) -> None:
    task = document(cli("submit", "sleep", "-p", "seconds=0.01", "--wait", "--json"))
    assert task["status"] == "completed"
    shown = cli("submit", "sleep", "-p", "seconds=0.01", "--wait")
    assert json.loads(shown.stdout)["success"] is True
    assert "completed after" in shown.stderr


def test_submit_answers_with_the_id_alone(cli: Run) -> None:
    id = cli("submit", "sleep", "-p", "seconds=0.01").stdout.strip()
    assert document(cli("tasks", "show", id, "--json"))["id"] == id


def test_every_flag_of_submit_reaches_the_task(cli: Run) -> None:
    id = submitted(
        cli,
        "sleep",
        "--parameters",
        '{"seconds": 5}',
        "-p",
        "seconds=0.5",
        *("--priority", "8", "--min", "cpu_cores=0.5", "--capability", "antigravity=true"),
        *("--strategy", "least_loaded", "--region", "eu-west", "--node-type", "standard"),
        *("--project", "shop", "--max-retries", "1", "--timeout", "7"),
        *("--category", "lamps", "--category", "chairs"),
        *("--idempotency-key", "every-flag", "--dedup-key", "every-flag"),
    )
    task = document(cli("tasks", "show", id, "--json"))
    expected = {
        "parameters": {"seconds": 0.5},
        "priority": 8,
        "min_resources": {"cpu_cores": 0.5},
        "capabilities": {"antigravity": True},
        "schedule_strategy": "least_loaded",
        "target_region": "eu-west",
        "node_type": "standard",
        "project_id": "shop",
        "max_retries": 1,
        "timeout": 7.0,
        "idempotency_key": "every-flag",
        "dedup_key": "every-flag",
        "categories": ["lamps", "chairs"],
    }
    assert {name: task.get(name) for name in expected} == expected
    assert cli("tasks", "cancel", id).exit_code == 0


def test_a_refused_task_is_told_by_field(cli: Run) -> None:
    result = cli("submit", "sleep", "-p", "seconds=1", "--priority", "11")
    assert result.exit_code == 1
    assert "error: priority = 11" in result.stderr
    assert "→" in result.stderr


def test_a_count_of_tasks_is_submitted_and_awaited(cli: Run) -> None:
    result = cli("submit", "sleep", "-p", "seconds=0", "--count", "25", "--wait")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.strip() == "25 completed"


def test_a_file_is_submitted_line_by_line_and_bad_lines_are_told(cli: Run, place: Path) -> None:
    lines = ['{"parameters": {"seconds": 0}}', "oops", '{"parameters": {"seconds": 0}}']
    (place / "tasks.jsonl").write_text("\n".join(lines))
    flags = ("submit", "sleep", "--file", "tasks.jsonl", "--idempotency-key", "file")
    first, second = cli(*flags, "--json"), cli(*flags, "--json")
    assert first.exit_code == second.exit_code == 1
    assert "line 2" in first.stderr
    ids = [item.get("id") for item in json.loads(first.stdout)["items"]]
    assert [id is None for id in ids] == [False, True, False]
    assert [item.get("id") for item in json.loads(second.stdout)["items"]] == ids


def test_a_failure_is_shown_and_is_an_exit_code(cli: Run) -> None:
    url = "url=http://127.0.0.1:9/"
    result = cli("submit", "http_fetch", "-p", url, "--max-retries", "0", "--wait")
    assert result.exit_code == 1
    assert "failed" in result.stderr
    assert "crawlfleet tasks show task-" in result.stderr


def test_tasks_are_listed_by_state_type_and_limit(cli: Run) -> None:
    id = stuck(cli)
    listed = document(
        cli("tasks", "list", "--status", "pending,paused", "--type", "sleep", "--json")
    )
    assert id in [task["id"] for task in listed]
    assert {task["status"] for task in listed} <= {"pending", "paused"}
    assert len(document(cli("tasks", "list", "--limit", "1", "--json"))) == 1
    assert document(cli("tasks", "list", "--project", "nobody", "--json")) == []
    assert cli("tasks", "list", "--status", "odd").exit_code == 1


def test_a_task_is_shown_with_attempts_and_events(cli: Run) -> None:
    id = submitted(cli, "sleep", "-p", "seconds=0")
    assert cli("tasks", "wait", id).exit_code == 0
    shown = cli("tasks", "show", id).stdout
    for part in (id, "Executions", "exec-", "Events", "task.completed"):
        assert part in shown
    [attempt] = document(cli("tasks", "executions", id, "--json"))
    assert attempt["status"] == "completed"
    kinds = [event["kind"] for event in document(cli("tasks", "events", id, "--json"))]
    assert kinds[0] == "task.pending"
    assert kinds[-1] == "task.completed"


def test_verbs_reach_several_tasks_and_tell_who_refused(cli: Run) -> None:
    first, second = stuck(cli), stuck(cli)
    paused = document(cli("tasks", "pause", first, second, "--json"))
    assert [task["status"] for task in paused] == ["paused", "paused"]
    resumed = cli("tasks", "resume", first, "task-nobody")
    assert resumed.exit_code == 1
    assert first in resumed.stdout
    assert "error: task-nobody: there is no task" in resumed.stderr
    cancelled = document(cli("tasks", "cancel", first, second, "--json"))
    assert [task["status"] for task in cancelled] == ["cancelled", "cancelled"]


def test_priority_and_clone(cli: Run) -> None:
    url = "http://127.0.0.1:9/"
    id = submitted(cli, "http_fetch", "-p", f"url={url}", "--capability", "antigravity=true")
    [raised] = document(cli("tasks", "priority", id, "9", "--json"))
    assert raised["priority"] == 9
    copy = document(cli("tasks", "clone", id, "-p", "method=HEAD", "--priority", "2", "--json"))
    task = document(cli("tasks", "show", copy["id"], "--json"))
    assert task["parameters"] == {"url": url, "method": "HEAD"}
    assert task["priority"] == 2
    assert cli("tasks", "cancel", id, copy["id"]).exit_code == 0


def test_failed_tasks_can_be_sent_back_all_at_once(cli: Run) -> None:
    first, second = failed(cli), failed(cli)
    dead = [task["id"] for task in document(cli("tasks", "list", "--dead", "--json"))]
    assert {first, second} <= set(dead)
    for flag in ("--all-failed", "--dead"):
        reply = document(cli("tasks", "retry", flag, "--json"))
        assert reply["changed"] >= 2
        assert reply["refused"] == []
        assert cli("tasks", "wait", first, second).exit_code == 1


def test_tasks_are_chosen_by_flags_and_counted(cli: Run) -> None:
    flags = ("--project", "chosen", "--capability", "antigravity=true")
    ids = [submitted(cli, "sleep", "-p", "seconds=0", *flags) for _ in range(3)]
    assert document(cli("tasks", "priority", "--project", "chosen", "9", "--json"))["changed"] == 3
    paused = cli("tasks", "pause", "--project", "chosen", "--status", "pending")
    assert paused.stdout.strip() == "3 changed, 0 unchanged, 0 refused"
    assert cli("tasks", "resume", ids[0]).exit_code == 0
    cancelled = document(cli("tasks", "cancel", "--project", "chosen", "--json"))
    assert cancelled["changed"] == 3
    shown = document(cli("tasks", "list", "--project", "chosen", "--json"))
    assert {(task["status"], task["priority"]) for task in shown} == {("cancelled", 9)}
    refused = cli("tasks", "pause", "--project", "chosen")
    assert refused.exit_code == 1
    assert refused.stderr.count("it is cancelled") == 3


def test_an_order_needs_tasks_and_takes_them_in_one_way(cli: Run) -> None:
    for arguments in (["cancel"], ["cancel", "task-1", "--project", "x"], ["priority", "9"]):
        result = cli("tasks", *arguments)
        assert result.exit_code == 2
        assert "--status" in result.output


def test_events_are_listed_and_followed(cli: Run, folder: Path) -> None:
    id = stuck(cli)
    kinds = [each["kind"] for each in document(cli("events", "--subject", id, "--json"))]
    assert kinds == ["task.pending"]
    assert id in cli("events", "--kind", "task.pend").stdout
    last = document(cli("events", "--limit", "1", "--json"))[-1]["seq"]
    following = subprocess.Popen(
        program("events", "--follow", "--kind", "task.can", "--after", str(last), "--json"),
        env={**clean_environment(), "CRAWLFLEET_DATA_DIR": str(folder)},
        stdout=subprocess.PIPE,
    )
    try:
        assert cli("tasks", "cancel", id).exit_code == 0
        assert following.stdout is not None
        event = json.loads(following.stdout.readline())
        assert (event["kind"], event["subject"]) == ("task.cancelled", id)
    finally:
        following.terminate()
        following.communicate(timeout=STOP_DEADLINE_S)


def test_explain_names_the_filter_that_rejects_the_node(cli: Run) -> None:
    id = stuck(cli)
    shown = cli("explain", id).stdout
    assert "capabilities: antigravity" in shown
    explained = document(cli("explain", id, "--json"))
    assert explained["placement"]["rejected"] == {"capabilities": 1}
    assert cli("tasks", "cancel", id).exit_code == 0
    assert "cancelled" in cli("explain", id).stdout


def test_nodes_can_be_looked_at_and_kept_from_work(cli: Run) -> None:
    [node] = document(cli("nodes", "list", "--json"))
    assert node["status"] == "online"
    assert node["id"] in cli("nodes", "list").stdout
    assert "sleep" in cli("nodes", "show", node["id"]).stdout
    [resting] = document(cli("nodes", "maintenance", node["id"], "--json"))
    assert resting["status"] == "maintenance"
    [back] = document(cli("nodes", "resume", node["id"], "--json"))
    assert back["status"] == "online"
    assert cli("nodes", "drain", "node-nobody").exit_code == 1


def test_status_and_doctor_see_the_fleet(cli: Run) -> None:
    assert "1 online" in cli("status").stdout
    assert document(cli("status", "--json"))["totals"]["nodes"] == {"online": 1}
    assert "completed/s" in cli("statistics").stdout
    assert document(cli("statistics", "--json"))["nodes"] == {"online": 1}
    verdicts = {check["name"]: check["verdict"] for check in document(cli("doctor", "--json"))}
    assert verdicts["master"] == verdicts["nodes"] == "ok"


def test_a_wrong_key_is_an_error_with_advice(cli: Run) -> None:
    result = cli("status", "--key", "wrong")
    assert result.exit_code == 1
    assert "--key" in result.stderr
    assert cli("doctor", "--key", "wrong").exit_code == 1


def test_reset_is_refused_while_the_fleet_runs(cli: Run, folder: Path) -> None:
    result = cli("reset", "--yes")
    assert result.exit_code == 1
    assert "stop it first" in result.stderr
    assert (folder / "crawlfleet.db").exists()
