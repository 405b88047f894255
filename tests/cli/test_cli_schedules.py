"""Schedules from the command line, against a real fleet."""

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from tests.support.local_fleet import LocalFleet, running

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("cli schedules")]

Run = Callable[..., Result]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalFleet]:
    with running(LocalFleet(tmp_path_factory.mktemp("cli") / "fleet", workers=0)) as fleet:
        asyncio.run(fleet.until_ready())
        yield fleet


@pytest.fixture
def shown(run: Run, fleet: LocalFleet) -> Callable[..., Result]:
    def call(*arguments: str) -> Result:
        return run("schedules", *arguments, "--url", fleet.url, "--key", fleet.key)

    return call


@pytest.fixture
def told(shown: Callable[..., Result]) -> Callable[..., Any]:
    """What a command answers as JSON; it must succeed."""

    def call(*arguments: str) -> Any:
        result = shown(*arguments, "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    return call


Told = Callable[..., Any]
Shown = Callable[..., Result]


def test_the_life_of_a_schedule(told: Told, shown: Shown) -> None:
    made = told(
        *("create", "nightly", "sleep", "-p", "seconds=1", "--cron", "30 2 * * *"),
        *("--zone", "Europe/Berlin", "--overlap", "queue", "--grace", "1h", "--jitter", "5m"),
        *("--project", "shop", "--priority", "7", "--description", "every night"),
    )
    assert made["task"] == {
        "task_type": "sleep",
        "project_id": "shop",
        "parameters": {"seconds": 1},
        "priority": 7,
    }
    assert (made["misfire_grace_s"], made["jitter_s"], made["overlap"]) == (3600, 300, "queue")
    assert "nightly" in shown("list").stdout
    assert "30 2 * * * Europe/Berlin" in shown("show", "nightly").stdout
    assert told("show", made["id"])["id"] == made["id"]
    dues = told("next", "nightly", "--count", "3", "--after", "2026-10-24T12:00:00+00:00")
    assert dues["items"][0]["local"].startswith("Sun 2026-10-25 02:30")
    assert told("pause", "nightly")[0]["status"] == "paused"
    assert "paused by" in shown("explain", "nightly").stdout
    assert told("run", "nightly")["outcome"] == "started"
    refused = shown("run", "nightly")
    assert (refused.exit_code, "max_instances" in refused.stderr) == (1, True)
    told("run", "nightly", "--force")
    assert told("resume", "nightly")[0]["status"] == "active"
    assert told("change", "nightly", "--every", "6h")["every_s"] == 21_600
    assert len(told("history", "nightly")) == 2
    assert "started" in shown("history", "nightly").stdout
    told("remove", "nightly")
    gone = shown("show", "nightly")
    assert (gone.exit_code, "there is no schedule 'nightly'" in gone.stderr) == (1, True)


def test_a_backfill_is_shown_first(told: Told, shown: Shown) -> None:
    told("create", "filled", "sleep", "-p", "seconds=1", "--cron", "@daily")
    wanted = ("backfill", "filled", "--since", "2026-11-01T00:00Z", "--until", "2026-11-04T00:00Z")
    planned = shown(*wanted, "--dry-run")
    assert "3 now, 0 had started" in planned.stdout
    assert "nothing was started" in planned.stderr
    assert len(told(*wanted)["items"]) == 3
    assert told(*wanted)["already"] == 3


def test_a_whole_task_comes_from_a_file(told: Told, place: Path) -> None:
    (place / "task.json").write_text('{"task_type": "sleep", "parameters": {"seconds": 2}}')
    made = told("create", "from-file", "--task", "@task.json", "--every", "1d", "--priority", "2")
    assert made["task"]["priority"] == 2
    assert made["task"]["parameters"] == {"seconds": 2}


def test_a_workflow_is_run_by_the_clock(
    told: Told, shown: Shown, run: Run, fleet: LocalFleet, place: Path
) -> None:
    (place / "flow.yaml").write_text(
        "name: flow\nparameters: {day: {}}\n"
        "steps: {rest: {task_type: sleep, parameters: {seconds: 1}}}\n"
    )
    saved = run("workflows", "save", "flow.yaml", "--url", fleet.url, "--key", fleet.key)
    assert saved.exit_code == 0, saved.output
    made = told("create", "flows", "--workflow", "flow", "-p", "day=3", "--every", "1d")
    assert (made["task"], made["workflow"]["parameters"]) == (None, {"day": 3})
    assert told("run", "flows")["run_id"].startswith("run-")
    assert "run-" in shown("history", "flows").stdout
    assert "workflow flow" in shown("list").stdout
    assert "day" in shown("show", "flows").stdout
    changed = told(
        "change", "flows", "--workflow", "flow", "--workflow-version", "1", "-p", "day=4"
    )
    assert (changed["workflow"]["version"], changed["workflow"]["parameters"]) == (1, {"day": 4})
    for wrong in (
        ("create", "bad", "sleep", "--workflow", "flow", "--every", "1d"),
        ("create", "bad", "--workflow", "flow", "--priority", "3", "--every", "1d"),
        ("create", "bad", "--workflow-version", "1", "--every", "1d"),
        ("change", "flows", "-p", "day=4"),
    ):
        assert shown(*wrong).exit_code == 2, wrong
    missing = shown("create", "bad", "--workflow", "none", "--every", "1d")
    assert (missing.exit_code, "workflow.name" in missing.stderr) == (1, True)


def test_a_rule_can_be_tried_without_a_schedule(told: Told, shown: Shown) -> None:
    dues = told("next", "--cron", "0 9 * * mon-fri", "--zone", "Asia/Tokyo", "--count", "2")
    assert dues["time_zone"] == "Asia/Tokyo"
    assert "Asia/Tokyo" in shown("next", "--cron", "@daily", "--zone", "Asia/Tokyo").stdout


def test_what_is_wrong_is_told_with_place_and_remedy(shown: Shown) -> None:
    bad = shown("create", "bad", "sleep", "--cron", "0 25 * * *")
    assert bad.exit_code == 1
    assert "hour ('25' at character 3)" in bad.stderr
    assert "use 0 to 23" in bad.stderr
    zone = shown("next", "--cron", "@daily", "--zone", "berlin")
    assert "'Europe/Berlin'" in zone.stderr
    for wrong in (
        ("create", "bad", "--cron", "@daily"),
        ("create", "bad", "sleep", "--every", "soon"),
        ("create", "bad", "--task", "not json"),
        ("next", "nightly", "--cron", "@daily"),
        ("backfill", "nightly"),
    ):
        assert shown(*wrong).exit_code == 2, wrong
