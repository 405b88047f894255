"""A key of one project: what is of others does not exist for it, and it cannot touch it."""

import http.client
import time
from typing import Any, Final, NamedTuple

import pytest

from tests.api.plain_http import Master, dead_task

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("api scopes")]

TASKS: Final = "/api/v1/tasks"


class Shop(NamedTuple):
    """Two projects, each with a task, and the key of one of them."""

    key: str
    own: str
    foreign: str


@pytest.fixture(scope="module")
def shop(master: Master) -> Shop:
    return Shop(
        master.key("shop", "operator", project_id="shop")[1],
        master.submit(task_type="nobodys", project_id="shop"),
        master.submit(task_type="nobodys", project_id="rival"),
    )


def test_lists_hold_only_what_is_of_the_project(master: Master, shop: Shop) -> None:
    def ids(query: str = "") -> list[str]:
        return [task["id"] for task in master.get(f"{TASKS}?{query}", key=shop.key)["items"]]

    assert shop.own in ids()
    assert shop.foreign not in ids()
    assert ids("project_id=shop") == ids()
    assert ids("project_id=rival") == []
    assert ids("project_id=nobody") == []
    assert shop.foreign not in ids("status=pending,cancelled&dead=false&limit=1000")


def test_what_is_submitted_belongs_to_the_project(master: Master, shop: Shop) -> None:
    unsaid = master.post(TASKS, {"task_type": "nobodys"}, key=shop.key, status=201)["id"]
    said = {"task_type": "nobodys", "project_id": "shop"}
    said_id = master.post(TASKS, said, key=shop.key, status=201)["id"]
    assert {master.task(id)["project_id"] for id in (unsaid, said_id)} == {"shop"}

    foreign = {"task_type": "nobodys", "project_id": "rival"}
    (problem,) = master.post(TASKS, foreign, key=shop.key, status=422)["errors"]
    assert problem["field"] == "project_id"

    batch = master.post(
        f"{TASKS}:batch", {"tasks": [said, foreign, {"task_type": "x"}]}, key=shop.key
    )
    assert ["error" in item for item in batch["items"]] == [False, True, False]
    assert master.task(batch["items"][2]["id"])["project_id"] == "shop"


def test_no_key_of_the_rival_is_ever_met(master: Master, shop: Shop) -> None:
    request = {"task_type": "nobodys", "idempotency_key": "one", "dedup_key": "two"}
    theirs = master.submit(**request, project_id="rival")
    ours = master.post(TASKS, request, key=shop.key, status=201)
    assert ours["id"] != theirs
    assert "deduplicated" not in ours


@pytest.mark.parametrize("verb", ["cancel", "pause", "resume", "retry", "reprioritise"])
def test_orders_for_many_leave_others_alone(master: Master, shop: Shop, verb: str) -> None:
    own = master.submit(task_type="nobodys", project_id="shop")
    before = master.task(shop.foreign)
    extra: dict[str, Any] = {"priority": 9} if verb == "reprioritise" else {}
    path = f"{TASKS}:{verb}"

    by_id = master.post(path, {"ids": [shop.foreign, "task-none"], **extra}, key=shop.key)
    chosen = {"filter": {"project_id": "rival"}, **extra}
    by_project = master.post(path, chosen, key=shop.key)
    by_type = master.post(path, {"filter": {"task_type": "nobodys"}, **extra}, key=shop.key)

    assert by_id["changed"] == by_id["unchanged"] == 0
    foreign, unknown = (each["detail"] for each in by_id["refused"])
    assert foreign.replace(shop.foreign, "") == unknown.replace("task-none", "")
    assert by_project == {**by_project, "changed": 0, "unchanged": 0, "refused_count": 0}
    assert by_type["changed"] + by_type["unchanged"] + by_type["refused_count"] > 0
    assert master.task(shop.foreign) == before
    master.order(own, "cancel")


def test_events_are_those_of_the_project(master: Master, shop: Shop) -> None:
    def subjects(query: str) -> set[str]:
        page = master.get(f"/api/v1/events?limit=1000&{query}", key=shop.key)
        return {event["subject"] for event in page["items"]}

    master.node(task_types=["none"]).leave()
    for query in ("", "newest=true", "kind=task."):
        assert shop.own in subjects(query)
        assert shop.foreign not in subjects(query)
        assert not any(subject.startswith("node-") for subject in subjects(query))
    assert subjects(f"subject={shop.foreign}") == set()
    assert subjects(f"subject={shop.own}") == {shop.own}


def test_the_only_project_is_its_own(master: Master, shop: Shop) -> None:
    def call(method: str, path: str, body: Any = None) -> int:
        return master.call(method, f"/api/v1/projects{path}", body, key=shop.key).status

    listed = master.get("/api/v1/projects", key=shop.key)
    assert [each["id"] for each in listed["items"]] == ["shop"]
    assert listed["next_cursor"] is None
    assert master.get("/api/v1/projects?cursor=shop", key=shop.key)["items"] == []
    before = master.get("/api/v1/projects/rival")
    for project, expected in (("shop", 200), ("rival", 404), ("nobody", 404)):
        assert call("GET", f"/{project}") == expected
        assert call("PATCH", f"/{project}", {"description": "mine"}) == expected
        assert call("POST", f"/{project}:close") == expected
        assert call("POST", f"/{project}:reopen") == expected
    assert call("POST", "", {"id": "another"}) == 403
    assert master.get("/api/v1/projects/rival") == before

    kinds = [
        event["kind"]
        for event in master.get("/api/v1/events?kind=project.&limit=1000", key=shop.key)["items"]
    ]
    assert kinds == ["project.created", "project.changed", "project.closed", "project.active"]


def test_an_etag_of_another_project_is_nothing(master: Master, shop: Shop) -> None:
    for path in (f"{TASKS}/{shop.foreign}", "/api/v1/projects/rival"):
        tag = master.call("GET", path).headers["etag"]
        for wanted in (tag, "*", '"999"'):
            read = master.call("GET", path, key=shop.key, headers={"If-None-Match": wanted})
            assert read.status == 404
    order = f"{TASKS}/{shop.foreign}:cancel"
    stale = {"If-Match": '"999"'}
    assert master.call("POST", order, key=shop.key, headers=stale).status == 404


def test_dead_letters_are_those_of_the_project(master: Master, shop: Shop) -> None:
    letters = "/api/v1/dead-letters"
    own = [dead_task(master, project_id="shop") for _ in range(3)]
    foreign = dead_task(master, project_id="rival")

    def ids(query: str = "") -> set[str]:
        return {each["id"] for each in master.get(f"{letters}?{query}", key=shop.key)["items"]}

    assert ids() == ids("project_id=shop") == set(own)
    assert ids("project_id=rival") == set()
    assert ids("error_class=network") == set(own)

    for verb, one in (("requeue", own[0]), ("discard", own[1])):
        path = f"{letters}:{verb}"
        named = master.post(path, {"ids": [one, foreign, "task-none"]}, key=shop.key)
        assert (named["changed"], named["refused_count"]) == (1, 2)
        theirs, unknown = (each["detail"] for each in named["refused"])
        assert theirs.replace(foreign, "") == unknown.replace("task-none", "")
        chosen = master.post(path, {"filter": {"project_id": "rival"}}, key=shop.key)
        assert chosen == {**chosen, "changed": 0, "unchanged": 0, "refused_count": 0}
    everything = master.post(f"{letters}:discard", {"filter": {}}, key=shop.key)
    assert everything["changed"] == 1
    assert ids() == set()
    assert foreign in {each["id"] for each in master.get(letters)["items"]}

    discarded = master.get("/api/v1/events?kind=task.discarded", key=shop.key)["items"]
    assert [event["subject"] for event in discarded] == own[1:]
    master.post(f"{TASKS}/{own[0]}:cancel")


def test_logs_and_attempts_are_those_of_the_project(master: Master, shop: Shop) -> None:
    node = master.node(task_types=["scoped"])
    execution: dict[str, str] = {}
    for project in ("shop", "rival"):
        master.submit(task_type="scoped", project_id=project)
        work = node.take()
        node.report(work, "succeeded")
        execution[project] = work["execution_id"]
    for path in ("", "/logs", "/logs?follow=true"):
        asked = {
            project: master.call("GET", f"/api/v1/executions/{id}{path}", key=shop.key).status
            for project, id in execution.items()
        }
        assert asked == {"shop": 200, "rival": 404}
    assert master.call("GET", f"{TASKS}/{shop.foreign}/logs", key=shop.key).status == 404
    node.leave()


def follow(master: Master, key: str) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", master.fleet.port, timeout=40)
    headers = {"Authorization": f"Bearer {key}", "Accept": "text/event-stream"}
    connection.request("GET", "/api/v1/events", headers=headers)
    response = connection.getresponse()
    assert response.status == 200
    response.readline()
    return response


def test_a_stream_shows_the_project_and_ends_with_its_key(master: Master) -> None:
    key_id, key = master.key("watcher", "viewer", project_id="shop")
    stream = follow(master, key)
    master.submit(task_type="nobodys", project_id="rival")
    own = master.submit(task_type="nobodys", project_id="shop")
    seen = b""
    while own.encode() not in seen:
        seen += stream.readline()
    assert b"task.pending" in seen
    assert seen.count(b"data:") == 1

    master.post(f"/api/v1/keys/{key_id}:revoke")
    master.submit(task_type="nobodys", project_id="shop")
    begun = time.monotonic()
    rest = stream.read()
    assert b"data:" not in rest
    assert time.monotonic() - begun < 30


def test_numbers_are_those_of_the_project(master: Master, shop: Shop) -> None:
    status = master.get("/api/v1/status", key=shop.key)["totals"]
    statistics = master.get("/api/v1/statistics", key=shop.key)
    listed = master.get(f"{TASKS}?limit=1000", key=shop.key)["items"]

    assert sum(status["tasks"].values()) == sum(statistics["tasks"].values()) == len(listed)
    assert status["ready"] == sum(task["status"] == "pending" for task in listed)
    assert status["nodes"] == statistics["nodes"] == statistics["health"] == {}
    assert statistics["throughput"]["hour"]["submitted"] == len(listed)
    everything = master.get("/api/v1/statistics")["throughput"]["hour"]["submitted"]
    assert everything > len(listed)
