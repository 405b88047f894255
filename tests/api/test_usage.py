"""What projects have used, over HTTP: whose, when, how finely; and quotas of pages."""

from datetime import UTC, datetime

import pytest

from tests.api.plain_http import Master

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("api metrics")]
PATH = "/api/v1/usage"


def test_what_was_used_is_told_by_day_and_by_hour_and_to_whom_it_concerns(master: Master) -> None:
    node = master.node(task_types=["web_crawl"])
    master.submit(task_type="web_crawl", project_id="used", parameters={"url": "http://a.test/"})
    work = node.take()
    node.report(work, "succeeded", metrics={"pages_crawled": 7, "cpu_s": 0.5, "data_size": 900})
    node.leave()
    report = master.get(f"{PATH}?project_id=used")
    (day,) = report["items"]
    told = {name: day[name] for name in ("submitted", "completed", "pages", "bytes", "cpu_s")}
    assert told == {"submitted": 1, "completed": 1, "pages": 7, "bytes": 900, "cpu_s": 0.5}
    assert (report["step"], day["at"][10:]) == ("day", "T00:00:00Z")
    assert report["total"]["pages"] == 7
    by_hour = master.get(f"{PATH}?step=hour&project_id=used")
    assert sum(each["pages"] for each in by_hour["items"]) == 7
    assert {each["project_id"] for each in master.get(PATH)["items"]} >= {"used"}
    _, own = master.key("of-another", "viewer", project_id="another")
    assert master.get(PATH, key=own)["items"] == []
    assert master.get(f"{PATH}?project_id=used", key=own)["items"] == []
    earlier = master.get(
        f"{PATH}?project_id=used&since=2020-01-01T00:00:00Z&until=2020-06-01T00:00:00Z"
    )
    assert earlier["items"] == []
    (line,) = [
        each
        for each in master.get("/api/v1/projects/used/quotas")["quotas"]
        if each["name"] == "pages_per_day"
    ]
    assert line == {"name": "pages_per_day", "use": 7, "limit": None, "left": None}


@pytest.mark.parametrize(
    ("query", "field", "message"),
    [
        ("since=2026-11-02T00:00:00Z&until=2026-11-01T00:00:00Z", "since", "is not before until"),
        (
            "since=2020-01-01T00:00:00Z&until=2026-11-01T00:00:00Z",
            "since",
            "is more than 400 days before",
        ),
        (
            "since=2026-01-01T00:00:00Z&until=2026-11-01T00:00:00Z&step=hour",
            "since",
            "is more than 31 days",
        ),
        ("step=week", "step", ""),
        ("since=soon", "since", ""),
    ],
)
def test_what_cannot_be_asked_is_told_with_its_field(
    query: str, field: str, message: str, master: Master
) -> None:
    (error,) = master.call("GET", f"{PATH}?{query}").expect(422)["errors"]
    assert error["field"] == field
    assert message in error["message"]
    assert error["remedy"]


def test_a_project_whose_pages_are_used_up_says_until_when(master: Master) -> None:
    master.post("/api/v1/projects", {"id": "spent"}, status=201)
    limits = {"pages_per_day": 5, "over": "reject"}
    master.call("PATCH", "/api/v1/projects/spent/quotas", limits).expect(200)
    node = master.node(task_types=["web_crawl"])
    crawl = {
        "task_type": "web_crawl",
        "project_id": "spent",
        "parameters": {"url": "http://a.test/"},
    }
    master.post("/api/v1/tasks", crawl, status=201)
    node.report(node.take(), "succeeded", metrics={"pages_crawled": 5})
    node.leave()
    refused = master.post("/api/v1/tasks", crawl, status=409)
    assert "pages_per_day: 5 of 5 pages of the day are used; wait until" in refused["detail"]
    master.call("PATCH", "/api/v1/projects/spent/quotas", {"over": "queue"}).expect(200)
    task = master.post("/api/v1/tasks", crawl, status=201)
    (held,) = master.get(f"/api/v1/tasks/{task['id']}:explain")["quotas"]
    assert held["quota"] == "pages_per_day"
    assert datetime.fromisoformat(held["until"]) > datetime.now(UTC)
