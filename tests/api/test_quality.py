"""Expectations over HTTP: what is refused, what is measured, whose it is, and who decides."""

from typing import Any, Final

import pytest

from tests.api.plain_http import Master, Node, measured_task

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("api quality")]

DRIFT: Final = {"items": 0.2, "least": 1}


def ended(master: Master, items: list[dict[str, Any]], **fields: Any) -> str:
    """The id of a task that has found these."""
    node: Node = master.node(task_types=["finder"])
    id = master.submit(task_type="finder", **fields)
    node.report(node.take(), "succeeded", data=items)
    node.leave()
    return id


@pytest.mark.parametrize(
    ("expected", "field"),
    [
        ({"items": {"min": -1}}, "expectations.items.min"),
        ({"item": {"min": 1}}, "expectations.item"),
        ({"fields": {"price": {"type": "money"}}}, "expectations.fields.price.type"),
        ({"fields": {"price": {"pattern": "(a"}}}, "expectations.fields.price.pattern"),
        ({"drift": {"items": 0.5}}, "expectations.series"),
        ({"on_drift": "panic"}, "expectations.on_drift"),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_field(
    master: Master, expected: dict[str, Any], field: str
) -> None:
    body = {"task_type": "finder", "expectations": expected}
    problem = master.call("POST", "/api/v1/tasks", body).expect(422)
    (error,) = problem["errors"]
    assert error["field"] == field
    assert error["remedy"]


def test_the_verdict_is_in_the_result_and_in_the_history_of_the_series(master: Master) -> None:
    expected = {"series": "lamps", "fields": {"price": {"empty": 0.1}}, "drift": DRIFT}
    good = ended(master, [{"price": n} for n in range(10)], expectations=expected)
    poor = ended(master, [{"price": n} for n in range(4)], expectations=expected)

    task = master.task(poor)
    assert task["status"] == "completed"
    assert task["expectations"]["series"] == "lamps"
    assert task["result"]["quality"]["verdict"] == "drifted"
    assert master.task(good)["result"]["quality"]["verdict"] == "ok"

    runs = master.get("/api/v1/quality/lamps")["items"]
    assert [run["task_id"] for run in runs] == [poor, good]
    assert runs[0]["summary"].startswith("items: 4 where 10 are usual")
    assert runs[1]["fields"]["price"]["high"] == 9.0
    page = master.get("/api/v1/quality/lamps?limit=1")
    assert [run["task_id"] for run in page["items"]] == [poor]
    rest = master.get(f"/api/v1/quality/lamps?limit=1&cursor={page['next_cursor']}")
    assert [run["task_id"] for run in rest["items"]] == [good]
    kinds = [event["kind"] for event in master.get(f"/api/v1/tasks/{poor}/events")["items"]]
    assert kinds[-2:] == ["task.completed", "task.drifted"]
    assert "drifted" in master.get(f"/api/v1/tasks/{poor}:explain")["summary"]
    assert (
        'crawlfleet_measured_runs_total{verdict="drifted"}'
        in master.call("GET", "/metrics").content.decode()
    )


def test_series_are_listed_page_by_page_and_only_those_of_the_key(master: Master) -> None:
    for number in range(3):
        fields = {"project_id": "garden", "expectations": {"series": f"g{number}", "errors": 1}}
        ended(master, [], **fields)
    measured_task(master, "elsewhere")
    first = master.get("/api/v1/quality?project_id=garden&limit=2")
    assert [each["series"] for each in first["items"]] == ["g0", "g1"]
    rest = master.get(f"/api/v1/quality?project_id=garden&cursor={first['next_cursor']}")
    assert [each["series"] for each in rest["items"]] == ["g2"]
    assert "elsewhere" in {each["series"] for each in master.get("/api/v1/quality")["items"]}

    _, own = master.key("gardener", "viewer", project_id="garden")
    seen = master.get("/api/v1/quality", key=own)["items"]
    assert {each["project_id"] for each in seen} == {"garden"}
    assert len(master.get("/api/v1/quality/g0", key=own)["items"]) == 1
    assert master.get("/api/v1/quality/elsewhere", key=own)["items"] == []
    assert master.get("/api/v1/quality/g0?project_id=default", key=own)["items"] == []
    assert master.get("/api/v1/quality?project_id=default", key=own)["items"] == []
    master.call("GET", "/api/v1/quality?cursor=%2F").expect(422)


def test_somebody_accepts_or_rejects_and_says_why(master: Master) -> None:
    id, _ = measured_task(master, "doors")
    path = f"/api/v1/tasks/{id}"
    (run,) = master.get(f"{path}/quality")["items"]
    assert (run["verdict"], run["decision"], run["on_drift"]) == ("failed", "held", "hold")
    accepted = master.post(f"{path}:accept", {"reason": "so it is"})
    assert (accepted["decision"], accepted["decided_by"]) == ("accepted", "admin")
    assert accepted["reason"] == "so it is"
    master.post(f"{path}:accept", {})
    refused = master.call("POST", f"{path}:reject", {}).expect(409)
    assert "accepted by admin" in refused["detail"]
    plain = ended(master, [])
    assert master.get(f"/api/v1/tasks/{plain}/quality")["items"] == []
    master.call("POST", f"/api/v1/tasks/{plain}:accept", {}).expect(409)
    master.call("POST", "/api/v1/tasks/task-none:accept", {}).expect(404)
