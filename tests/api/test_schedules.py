"""Schedules over HTTP: made, shown, fired, steered, and refused with words that help."""

import time
from typing import Any, Final

import pytest

from tests.api.plain_http import Master

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("api schedules")]

PATH: Final = "/api/v1/schedules"
NIGHTLY: Final[dict[str, Any]] = {
    "cron": "30 2 * * *",
    "time_zone": "Europe/Berlin",
    "task": {"task_type": "nobodys", "parameters": {"a": 1}},
}


def create(master: Master, name: str, **fields: Any) -> Any:
    return master.post(PATH, {"name": name, **NIGHTLY, **fields}, status=201)


def history(master: Master, id: str) -> list[dict[str, Any]]:
    return master.get(f"{PATH}/{id}/history")["items"]


def test_what_was_asked_for_is_shown(master: Master) -> None:
    answer = master.call("POST", PATH, {"name": "shown", **NIGHTLY, "jitter_s": 60})
    made = answer.expect(201)
    assert answer.headers["location"] == f"{PATH}/{made['id']}"
    assert made["task"] == {
        "task_type": "nobodys",
        "project_id": "default",
        "parameters": {"a": 1},
    }
    assert (made["status"], made["running"], made["last"]) == ("active", [], None)
    assert made["next_at"] is not None
    again = master.post(PATH, {"name": "shown", **NIGHTLY, "jitter_s": 60}, status=200)
    assert again["id"] == made["id"]
    other = master.post(PATH, {"name": "shown", **NIGHTLY}, status=409)
    assert made["id"] in other["detail"]
    assert made in master.get(f"{PATH}?name=shown")["items"]
    assert master.get(f"{PATH}?name=nobody")["items"] == []


def test_an_interval_fires_and_its_history_names_the_task(master: Master) -> None:
    id = create(master, "quick", cron=None, every_s=1)["id"]
    until = time.monotonic() + 30
    while not (fired := history(master, id)) and time.monotonic() < until:
        time.sleep(0.1)
    first = fired[-1]
    assert (first["outcome"], first["origin"], first["count"]) == ("started", "rule", 1)
    task = master.get(f"/api/v1/tasks/{first['task_id']}")
    assert task["parameters"] == {"a": 1}
    (event, *_) = master.get(f"/api/v1/tasks/{first['task_id']}/events")["items"]
    assert event["cause"] == f"submitted by the schedule quick ({id})"
    while len(fired := history(master, id)) < 2 and time.monotonic() < until:
        time.sleep(0.1)
    assert fired[0]["outcome"] == "skipped"
    assert first["task_id"] in fired[0]["reason"]
    shown = master.get(f"{PATH}/{id}")
    assert shown["running"] == [first["task_id"]]
    reasons = master.get(f"{PATH}/{id}:explain")["reasons"]
    assert [each["code"] for each in reasons] == ["no_room", "skipped"]
    master.post(f"{PATH}/{id}:remove")
    assert master.call("GET", f"{PATH}/{id}").status == 404


def test_a_workflow_is_run_by_the_clock(master: Master) -> None:
    steps = {"fetch": {"task_type": "nobodys"}}
    document = {"name": "clocked", "parameters": {"a": {}}, "steps": steps}
    kept = master.post("/api/v1/workflows", {"document": document}, status=201)
    work = {"task": None, "workflow": {"name": "clocked", "parameters": {"a": 1}}}
    made = create(master, "flows", **work, max_instances=2)
    assert made["task"] is None
    assert made["workflow"] == {
        "id": kept["id"],
        "name": "clocked",
        "version": None,
        "parameters": {"a": 1},
    }
    path = f"{PATH}/{made['id']}"
    fired = master.post(f"{path}:run")
    assert fired["task_id"] is None
    run = master.get(f"/api/v1/runs/{fired['run_id']}")
    assert (run["parameters"], run["status"]) == ({"a": 1}, "running")
    assert master.get(path)["running"] == [run["id"]]
    assert [each["run_id"] for each in history(master, made["id"])] == [run["id"]]
    wrong = {"workflow": {"name": "clocked", "parameters": {}}}
    answer = master.call("PATCH", path, wrong).expect(422)
    assert [each["field"] for each in answer["errors"]] == ["workflow.parameters.a"]
    # A key sees no workflow of another project, whatever it names.
    _, own = master.key("of-flows", "operator", project_id="flows")
    for name in ("clocked", kept["id"]):
        wanted: dict[str, Any] = {
            "name": "foreign",
            "cron": "@daily",
            "workflow": {"name": name},
        }
        refused = master.post(PATH, wanted, key=own, status=422)
        assert refused["errors"][0]["field"] == "workflow.name"
    wanted["workflow"]["project_id"] = "default"
    refused = master.post(PATH, wanted, key=own, status=422)
    assert refused["errors"][0]["field"] == "workflow.project_id"


def test_orders(master: Master) -> None:
    made = create(master, "ordered")
    path = f"{PATH}/{made['id']}"
    assert master.post(f"{path}:pause")["status"] == "paused"
    assert master.get(f"{path}:explain")["reasons"][0]["code"] == "paused"
    assert master.get(path)["next_at"] is None
    fired = master.post(f"{path}:run")
    assert (fired["outcome"], fired["origin"]) == ("started", "run")
    refused = master.post(f"{path}:run", status=409)
    assert fired["task_id"] in refused["detail"]
    assert master.post(f"{path}:run", {"force": True})["outcome"] == "started"
    resumed = master.post(f"{path}:resume")
    stale = master.call("PATCH", path, {"jitter_s": 1}, headers={"If-Match": '"1"'})
    assert stale.status == 412
    tag = {"If-Match": f'"{resumed["version"]}"'}
    changed = master.call("PATCH", path, {"every_s": 86400, "overlap": "queue"}, headers=tag)
    assert changed.expect(200)["cron"] is None
    assert changed.json["edition"] == 2


def test_a_backfill_is_told_beforehand_and_done_once(master: Master) -> None:
    path = f"{PATH}/{create(master, 'filled')['id']}"
    wanted = {"since": "2026-03-27T00:00:00Z", "until": "2026-03-31T00:00:00Z"}
    planned = master.post(f"{path}:backfill", {**wanted, "dry_run": True})
    # The night of the 29th has no half past two.
    assert [each["due_at"] for each in planned["items"]] == [
        "2026-03-27T01:30:00Z",
        "2026-03-28T01:30:00Z",
        "2026-03-29T01:00:00Z",
        "2026-03-30T00:30:00Z",
    ]
    done = master.post(f"{path}:backfill", wanted)
    assert (len(done["items"]), done["already"]) == (4, 0)
    again = master.post(f"{path}:backfill", wanted)
    assert (again["items"], again["already"]) == ([], 4)
    first = master.get(f"{path}/history?limit=3")
    rest = master.get(f"{path}/history?limit=3&cursor={first['next_cursor']}")
    assert [each["task_id"] for each in (*first["items"], *rest["items"])] == [
        each["task_id"] for each in reversed(done["items"])
    ]


def test_what_is_due_can_be_seen_before(master: Master) -> None:
    query = "cron=30+2+*+*+*&time_zone=Europe/Berlin&after=2026-10-24T12:00:00Z&count=2"
    page = master.get(f"{PATH}:preview?{query}")
    assert page["time_zone"] == "Europe/Berlin"
    assert [each["local"] for each in page["items"]] == [
        "Sun 2026-10-25 02:30:00 CEST",
        "Mon 2026-10-26 02:30:00 CET",
    ]
    path = f"{PATH}/{create(master, 'foreseen')['id']}"
    assert master.get(f"{path}/next?after=2026-10-24T12:00:00Z&count=2")["items"] == page["items"]


@pytest.mark.parametrize(
    ("fields", "field", "message", "remedy"),
    [
        ({"cron": "30 26 * * *"}, "cron", "2nd field, hour ('26' at character 4)", "use 0 to 23"),
        ({"cron": "nightly"}, "cron", "has 1 field, not five", "@daily"),
        ({"cron": None}, "cron", "is missing, and so is every_s", "one of the two"),
        ({"time_zone": "Berlin"}, "time_zone", "is not a time zone", "'Europe/Berlin'"),
        ({"overlap": "both"}, "overlap", "possible values", "skip, queue"),
        ({"tsak": {}}, "tsak", "is not a known field", "'task'"),
        ({"task": {}}, "task.task_type", "is missing", "add it"),
        ({"start_at": "tomorrow"}, "start_at", "", ""),
    ],
)
def test_what_is_wrong_is_told_with_field_place_and_remedy(
    fields: dict[str, Any], field: str, message: str, remedy: str, master: Master
) -> None:
    answer = master.post(PATH, {"name": "wrong", **NIGHTLY, **fields}, status=422)
    (error,) = answer["errors"]
    assert error["field"] == field
    assert message in error["message"]
    assert remedy in error["remedy"]


def test_a_key_of_one_project_sees_and_makes_only_its_own(master: Master) -> None:
    _, own = master.key("of-shop", "operator", project_id="shop")
    mine = master.post(PATH, {"name": "mine", **NIGHTLY}, key=own, status=201)
    assert mine["project_id"] == mine["task"]["project_id"] == "shop"
    others = create(master, "others")
    listed = master.get(f"{PATH}", key=own)["items"]
    assert [each["id"] for each in listed] == [mine["id"]]
    assert master.get(f"{PATH}?project_id=default", key=own)["items"] == []
    assert master.call("POST", f"{PATH}/{others['id']}:run", {}, key=own).status == 404
    task = {"task_type": "x", "project_id": "default"}
    foreign = {"name": "n", **NIGHTLY, "task": {**task, "project_id": "other"}}
    refused = master.post(PATH, foreign, key=own, status=422)
    assert refused["errors"][0]["field"] == "task.project_id"


def test_measurements_follow(master: Master) -> None:
    def value(name: str) -> float:
        lines = master.call("GET", "/metrics").content.decode().splitlines()
        return float(next(line for line in lines if line.startswith(name)).split()[-1])

    started = 'crawlfleet_schedule_firings_total{outcome="started"}'
    active = 'crawlfleet_schedules{status="active"}'
    before = value(started), value(active)
    id = create(master, "measured")["id"]
    master.post(f"{PATH}/{id}:run")
    assert (value(started), value(active)) == (before[0] + 1, before[1] + 1)
