"""Projects, clusters, dead letters and settings from the command line, against a real fleet."""

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from tests.support.local_fleet import LocalFleet, running

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("cli administration")]

Run = Callable[..., Result]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalFleet]:
    with running(LocalFleet(tmp_path_factory.mktemp("cli") / "fleet", workers=1)) as fleet:
        asyncio.run(fleet.until_ready(nodes=1))
        yield fleet


@pytest.fixture
def told(run: Run, fleet: LocalFleet) -> Callable[..., Any]:
    """What a command answers as JSON; it must succeed."""

    def call(*arguments: str) -> Any:
        result = run(*arguments, "--url", fleet.url, "--key", fleet.key, "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    return call


@pytest.fixture
def shown(run: Run, fleet: LocalFleet) -> Callable[..., Result]:
    def call(*arguments: str) -> Result:
        return run(*arguments, "--url", fleet.url, "--key", fleet.key)

    return call


def test_projects(told: Callable[..., Any], shown: Callable[..., Result]) -> None:
    assert told("projects", "create", "shop", "--name", "Price watch")["name"] == "Price watch"
    assert told("projects", "change", "shop", "--description", "nightly")["version"] == 2
    stale = shown("projects", "change", "shop", "--name", "X", "--if-version", "1")
    assert (stale.exit_code, "version 2, not 1" in stale.stderr) == (1, True)
    assert [each["status"] for each in told("projects", "close", "shop", "default")] == [
        "closed",
        "closed",
    ]
    refused = shown("submit", "sleep", "-p", "seconds=0", "--project", "shop")
    assert (refused.exit_code, "is closed" in refused.stderr) == (1, True)
    told("projects", "reopen", "shop", "default")
    assert "Price watch" in shown("projects", "list").stdout
    assert "nightly" in shown("projects", "show", "shop").stdout
    missing = shown("projects", "show", "nope")
    assert (missing.exit_code, "crawlfleet projects list" in missing.stderr) == (1, True)


def test_clusters(told: Callable[..., Any], shown: Callable[..., Result]) -> None:
    made = told("clusters", "create", "berlin", "--set", "max_slots=2")
    assert made["configuration"] == {"max_slots": 2}
    changed = told(
        "clusters", "change", "berlin", "--set", "max_slots=null", "--set", "log_level=debug"
    )
    assert changed["configuration"] == {"log_level": "debug"}
    assert [each["version"] for each in told("clusters", "versions", "berlin")] == [2, 1]
    assert told("clusters", "rollback", "berlin", "1")["configuration"] == {"max_slots": 2}
    bad = shown("clusters", "change", "berlin", "--set", "max_slots=-1")
    assert (bad.exit_code, "configuration.max_slots" in bad.stderr) == (1, True)
    for verb, status in (
        ("maintenance", "maintenance"),
        ("close", "inactive"),
        ("reopen", "active"),
    ):
        assert told("clusters", verb, "berlin")[0]["status"] == status
    health = shown("clusters", "health", "berlin")
    assert health.stdout.index("it has no node") < health.stdout.index("Numbers")
    assert told("clusters", "health", "default")["nodes"] == {"online": 1}
    for words in (("list",), ("show", "berlin"), ("versions", "berlin")):
        assert "max_slots=2" in shown("clusters", *words).stdout
    told("projects", "create", "owner")
    own = told("clusters", "create", "own-nodes", "--project", "owner")
    assert own["project_id"] == "owner"
    assert "default, shared by all" in shown("clusters", "show", "berlin").stdout
    assert "shared" not in shown("clusters", "show", "own-nodes").stdout
    refused = shown("submit", "sleep", "-p", "seconds=0", "--cluster", "own-nodes")
    assert (refused.exit_code, "may use" in refused.stderr) == (1, True)
    assert "own-nodes" not in refused.stderr.partition("use one of")[2]


def test_dead_letters(
    told: Callable[..., Any], shown: Callable[..., Result], fleet: LocalFleet
) -> None:
    failing = ("submit", "python", "-p", "function=no.such:thing", "--max-retries", "0")
    ids = [shown(*failing).stdout.strip() for _ in range(3)]
    for id in ids:
        shown("tasks", "wait", id)
    listed = told("dead-letters", "list")
    assert {each["id"] for each in listed} == {*ids}
    error = listed[0]["error_class"]
    assert ids[0] in shown("dead-letters", "list", "--error", error).stdout
    assert shown("dead-letters", "discard").exit_code == 2
    assert shown("dead-letters", "discard", ids[0], "--all").exit_code == 2
    assert told("dead-letters", "discard", ids[0])["changed"] == 1
    assert told("dead-letters", "requeue", "--error", error)["changed"] == 2
    for id in ids[1:]:
        shown("tasks", "wait", id)
    assert told("dead-letters", "discard", "--all")["changed"] == 2
    assert told("dead-letters", "list") == []


def test_who_asks(
    told: Callable[..., Any],
    shown: Callable[..., Result],
    run: Callable[..., Result],
    fleet: LocalFleet,
) -> None:
    me = told("whoami")
    assert (me["role"], "csrf" in me) == ("admin", False)
    assert "all" in shown("whoami").stdout
    secret = told("keys", "create", "looks", "--role", "viewer")["secret"]
    other = run("whoami", "--url", fleet.url, "--key", secret, "--json")
    assert json.loads(other.stdout) == {"name": "looks", "role": "viewer"}


def test_task_types(told: Callable[..., Any], shown: Callable[..., Result]) -> None:
    listed = {each["name"]: each for each in told("task-types")}
    assert listed["sleep"]["nodes"] == 1
    assert listed["sleep"] == told("task-types", "sleep")
    assert "sleep" in shown("task-types").stdout
    assert "seconds" in shown("task-types", "sleep").stdout
    strange = shown("task-types", "slep")
    assert (strange.exit_code, "`crawlfleet task-types`" in strange.stderr) == (1, True)


def test_settings_of_the_master(told: Callable[..., Any], shown: Callable[..., Result]) -> None:
    found = {each["name"]: each for each in told("config", "master")}
    assert found["session.timeout_s"]["origin"] == "environment CRAWLFLEET_SESSION_TIMEOUT_S"
    assert "session.timeout_s" in shown("config", "master").stdout


def test_a_store_is_saved_and_restored(run: Run, fleet: LocalFleet, place: Path) -> None:
    saved = run("backup", "a.backup", "--data", str(fleet.folder))
    assert saved.exit_code == 0, saved.output
    assert "crawler_tasks" in saved.stdout
    again = run("backup", "a.backup", "--data", str(fleet.folder))
    assert (again.exit_code, "--force" in again.stderr) == (1, True)
    assert run("backup", "a.backup", "--data", str(fleet.folder), "--force").exit_code == 0
    restored = run("restore", "a.backup", "--data", str(place / "new"))
    assert restored.exit_code == 0, restored.output
    twice = run("restore", "a.backup", "--data", str(place / "new"))
    assert (twice.exit_code, "is not empty" in twice.stderr) == (1, True)
    running_one = run("restore", "a.backup", "--data", str(fleet.folder), "--force")
    assert (running_one.exit_code, "stop it first" in running_one.stderr) == (1, True)


def test_usage(told: Callable[..., Any], shown: Callable[..., Result]) -> None:
    told("submit", "sleep", "-p", "seconds=0", "--project", "measured", "--wait")
    told("quotas", "set", "measured", "--pages-per-day", "1000", "--storage-mb", "5")
    report = told("quotas", "usage", "measured", "--since", "2d")
    (day,) = report["items"]
    assert (day["completed"], day["project_id"]) == (1, "measured")
    assert "measured" in shown("quotas", "usage").stdout
    head, line, *_ = shown("quotas", "usage", "measured", "--csv").stdout.splitlines()
    assert head.startswith("at,project_id,")
    assert line.split(",")[1] == "measured"
    assert "nothing was used" in shown("quotas", "usage", "nobodys").stdout
    assert shown("quotas", "usage", "--step", "week").exit_code == 2
    assert "pages_per_day" in shown("quotas", "show", "measured").stdout
