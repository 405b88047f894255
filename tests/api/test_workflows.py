"""Workflows over HTTP: kept, checked, run, watched, cancelled, and refused with words that help."""

import time
from typing import Any, Final

import pytest

from tests.api.plain_http import Master

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("api workflows")]

PATH: Final = "/api/v1/workflows"
TWO: Final[dict[str, Any]] = {
    "a": {"task_type": "once", "parameters": {"n": "${parameters.n}"}},
    "b": {
        "task_type": "once",
        "depends_on": ["a"],
        "for_each": "${steps.a.result.items}",
        "parameters": {"item": "${item}"},
    },
}


def document(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "parameters": {"n": {"type": "integer"}}, "steps": TWO, **more}


def test_a_workflow_is_kept_in_versions(master: Master) -> None:
    answer = master.call("POST", PATH, {"document": document("kept")})
    made = answer.expect(201)
    assert answer.headers["location"] == f"{PATH}/{made['id']}"
    assert (made["latest"], made["steps"]) == (1, 2)
    assert master.post(PATH, {"document": document("kept")}, status=200) == made
    other = document("kept", description="with words")
    assert master.post(PATH, {"document": other}, status=201)["latest"] == 2
    assert master.get(f"{PATH}?name=kept")["items"][0]["id"] == made["id"]
    versions = master.get(f"{PATH}/{made['id']}/versions?limit=1")
    assert [each["number"] for each in versions["items"]] == [2]
    more = master.get(f"{PATH}/{made['id']}/versions?cursor={versions['next_cursor']}")
    assert [each["number"] for each in more["items"]] == [1]
    first = master.get(f"{PATH}/{made['id']}/document?version=1")
    assert first["document"]["steps"]["b"]["for_each"] == "${steps.a.result.items}"
    master.call("GET", f"{PATH}/{made['id']}/document?version=7").expect(404)


def test_a_run_can_be_followed_step_by_step(master: Master) -> None:
    node = master.node(resources={"slots": 1}, task_types=["followed"])
    steps = {name: {**step, "task_type": "followed"} for name, step in TWO.items()}
    wanted = document("followed", steps=steps)
    body = {"document": wanted, "parameters": {"n": 3}, "idempotency_key": "once"}
    run = master.post(f"{PATH}:submit", body, status=201)
    assert master.post(f"{PATH}:submit", body, status=200)["id"] == run["id"]
    work = node.take()
    assert work["parameters"] == {"n": 3}
    node.report(work, "succeeded", data={"items": ["x", "y"]})
    until = time.monotonic() + 30
    while True:
        steps = master.get(f"/api/v1/runs/{run['id']}/steps")["items"]
        if steps[1]["status"] == "running" or time.monotonic() > until:
            break
        time.sleep(0.05)
    assert [each["status"] for each in steps] == ["completed", "running"]
    assert (steps[1]["count"], steps[1]["done"], steps[1]["undone"]) == (2, 0, 0)
    running = master.get(f"/api/v1/runs/{run['id']}/steps?status=running")
    assert [each["name"] for each in running["items"]] == ["b"]
    master.call("GET", f"/api/v1/runs/{run['id']}/steps?status=lost").expect(422)
    assert steps[1]["depends_on"] == [{"step": "a", "on": "success"}]
    shown = master.get(f"/api/v1/runs/{run['id']}")
    assert (shown["status"], shown["counts"]) == ("running", {"completed": 1, "running": 1})
    node.report(node.take(), "succeeded")
    halfway = master.get(f"/api/v1/runs/{run['id']}/steps?status=running")["items"]
    assert [(each["done"], each["undone"]) for each in halfway] == [(1, 0)]
    node.report(node.take(), "succeeded")
    ended = master.get(f"/api/v1/runs/{run['id']}?wait=30")
    assert (ended["status"], ended["counts"]) == ("completed", {"completed": 2})
    found = master.get(f"/api/v1/runs?workflow_id={run['workflow_id']}&status=completed")
    assert [each["id"] for each in found["items"]] == [run["id"]]
    page = master.get(f"/api/v1/runs/{run['id']}/steps?limit=1")
    rest = master.get(f"/api/v1/runs/{run['id']}/steps?cursor={page['next_cursor']}")
    assert [each["name"] for each in rest["items"]] == ["b"]
    told = master.get(f"/api/v1/tasks/{steps[0]['task_id']}")
    assert told["step"] == {"run_id": run["id"], "step": "a"}


def test_a_run_is_cancelled_and_run_again(master: Master) -> None:
    steps = {"a": {"task_type": "nobodys"}, "b": {"task_type": "nobodys", "depends_on": ["a"]}}
    body = {"document": {"name": "stopped", "steps": steps}}
    run = master.post(f"{PATH}:submit", body, status=201)
    path = f"/api/v1/runs/{run['id']}"
    refused = master.post(f"{path}:rerun", {}, status=409)
    assert "it is running" in refused["detail"]
    master.post(f"{path}:cancel")
    ended = master.get(f"{path}?wait=30")
    assert (ended["status"], ended["counts"]) == ("cancelled", {"cancelled": 2})
    assert [each["status"] for each in master.get(f"{path}/steps")["items"]] == ["cancelled"] * 2
    again = master.post(f"{path}:rerun", {})
    assert (again["status"], again["attempt"]) == ("running", 2)
    problem = master.post(f"{PATH}/{run['workflow_id']}:start", {"version": 9}, status=404)
    assert "version 9" in problem["detail"]
    master.post(f"{path}:cancel")


def test_what_is_wrong_is_told_with_its_path(master: Master) -> None:
    bad = document("wrong", steps={"a": {"task_type": "x", "depends_on": ["b"]}})
    told = master.post(f"{PATH}:validate", {"document": bad})
    assert told["problems"] == [
        {
            "field": "steps.a.depends_on[0]",
            "message": "names no step: 'b'",
            "remedy": "name a step of this document",
        }
    ]
    refused = master.post(PATH, {"document": bad}, status=422)
    assert refused["errors"][0]["field"] == "steps.a.depends_on[0]"
    fine = master.post(f"{PATH}:validate", {"document": document("right")})
    assert (fine["valid"], fine["order"]) == (True, ["a", "b"])
    missing = master.post(f"{PATH}:submit", {"document": document("right")}, status=422)
    assert missing["errors"][0]["field"] == "parameters.n"
    schema = master.get(f"{PATH}:schema")
    assert "for_each" in schema["$defs"]["Step"]["properties"]
