"""Projects, clusters, settings, dead letters and versions, over plain HTTP."""

import asyncio
import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, get_args

import pytest

from crawlfleet.api.routes.dead_letters import Kind
from crawlfleet.model.key import Role
from crawlfleet.model.task import ErrorClass
from tests.api.plain_http import Answer, Master, dead_task, started

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("api projects")]

numbers = itertools.count(1)


def new_id(kind: str) -> str:
    return f"{kind}-{next(numbers)}"


def project(master: Master, **fields: Any) -> str:
    id = new_id("project")
    master.post("/api/v1/projects", {"id": id, **fields}, status=201)
    return id


def cluster(master: Master, **fields: Any) -> str:
    id = new_id("cluster")
    master.post("/api/v1/clusters", {"id": id, **fields}, status=201)
    return id


def patch(master: Master, path: str, body: Any, **headers: str) -> Answer:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return master.call("PATCH", path, body, headers=names)


def test_a_project_is_made_once_read_changed_and_listed(master: Master) -> None:
    id = new_id("project")
    request = {"id": id, "name": "Prices", "description": "nightly"}

    made = master.call("POST", "/api/v1/projects", request)
    again = master.call("POST", "/api/v1/projects", request)
    other = master.call("POST", "/api/v1/projects", {**request, "name": "Other"})

    view = made.expect(201)
    assert made.headers["location"] == f"/api/v1/projects/{id}"
    assert (view["status"], view["tasks"], view["version"]) == ("active", {}, 1)
    assert again.expect(200) == view
    assert "PATCH" in other.expect(409)["detail"]
    changed = patch(master, f"/api/v1/projects/{id}", {"name": "All prices"}).expect(200)
    assert (changed["name"], changed["description"], changed["version"]) == (
        "All prices",
        "nightly",
        2,
    )
    listed = master.get("/api/v1/projects?limit=1000")["items"]
    assert id in [each["id"] for each in listed]
    assert listed == sorted(listed, key=lambda each: each["id"])


def test_pages_of_projects_join_without_gap(master: Master) -> None:
    mine = [project(master) for _ in range(3)]
    found, cursor = [], ""
    while cursor is not None:
        page = master.get(f"/api/v1/projects?limit=2{cursor and f'&cursor={cursor}'}")
        found += [each["id"] for each in page["items"]]
        cursor = page["next_cursor"]
    assert found == sorted({*found})
    assert {*mine, "default"} <= {*found}


def test_a_closed_project_takes_no_new_tasks_and_those_it_has_go_on(master: Master) -> None:
    id, task_type = project(master), new_id("kind").replace("-", "_")
    node = master.node(task_types=[task_type])
    task_id = master.submit(task_type=task_type, project_id=id)
    running = node.take()

    assert master.post(f"/api/v1/projects/{id}:close")["status"] == "closed"

    refused = master.call("POST", "/api/v1/tasks", {"task_type": "nobodys", "project_id": id})
    assert f"/api/v1/projects/{id}:reopen" in refused.expect(409)["detail"]
    tasks = [{"task_type": "nobodys", "project_id": id}, {"task_type": "nobodys"}]
    first, second = master.post("/api/v1/tasks:batch", {"tasks": tasks})["items"]
    assert (first["error"]["status"], second["status"]) == (409, "pending")
    assert node.report(running, "succeeded", data=1) == "recorded"
    assert master.task(task_id)["status"] == "completed"
    assert master.get(f"/api/v1/projects/{id}")["tasks"] == {"completed": 1}
    assert master.post(f"/api/v1/projects/{id}:close")["status"] == "closed", "once more"
    master.post(f"/api/v1/projects/{id}:reopen")
    master.submit(task_type="nobodys", project_id=id)
    node.leave()


def test_an_unknown_project_is_made_on_first_use(master: Master) -> None:
    id = new_id("unheard-of")
    master.call("GET", f"/api/v1/projects/{id}").expect(404)
    master.submit(task_type="nobodys", project_id=id)
    assert master.get(f"/api/v1/projects/{id}")["tasks"] == {"pending": 1}


def test_an_unknown_project_is_refused_where_that_is_switched_off(tmp_path: Any) -> None:
    with started(tmp_path / "fleet", CRAWLFLEET_TASKS_CREATE_PROJECTS="false") as strict:
        body = {"task_type": "nobodys", "project_id": "unheard"}
        (problem,) = strict.call("POST", "/api/v1/tasks", body).expect(422)["errors"]
        assert problem["field"] == "project_id"
        assert "POST /api/v1/projects" in problem["remedy"]
        assert "tasks.create_projects" in problem["remedy"]
        strict.call("GET", "/api/v1/projects/unheard").expect(404)
        strict.post("/api/v1/projects", {"id": "unheard"}, status=201)
        strict.submit(**body)
        strict.submit(task_type="nobodys")


@pytest.mark.parametrize("status", ["maintenance", "inactive"])
def test_a_cluster_that_is_not_active_gets_no_new_work(master: Master, status: str) -> None:
    id, task_type = cluster(master), new_id("kind").replace("-", "_")
    node = master.node(task_types=[task_type], cluster_id=id)
    running_id = master.submit(task_type=task_type, cluster_id=id)
    running = node.take()
    waiting_id = master.submit(task_type=task_type, cluster_id=id)

    patch(master, f"/api/v1/clusters/{id}", {"status": status}).expect(200)
    node.report(running, "succeeded")
    submitted = master.call("POST", "/api/v1/tasks", {"task_type": task_type, "cluster_id": id})

    assert master.task(running_id)["status"] == "completed"
    assert submitted.status == (201 if status == "maintenance" else 409)
    if status == "inactive":
        assert f"/api/v1/clusters/{id}:reopen" in submitted.json["detail"]
    later = master.call("POST", "/api/v1/tasks", {"task_type": task_type, "cluster_id": id})
    if status == "maintenance":
        explained = master.get(f"/api/v1/tasks/{later.json['id']}:explain")
        assert f"the cluster '{id}' takes no new work" in str(explained)
    assert master.post(f"/api/v1/clusters/{id}:reopen")["status"] == "active"
    assert waiting_id in {each["task_id"] for each in node.lease()["assignments"]}
    node.leave()


def test_settings_have_versions_reach_nodes_and_can_be_rolled_back(master: Master) -> None:
    id = cluster(master, configuration={"max_slots": 3})
    path = f"/api/v1/clusters/{id}"
    node = master.node(cluster_id=id, task_types=["none"])
    told = node.registered["terms"]
    assert (told["version"], told["max_slots"]) == (1, 3)
    assert told["session_timeout_s"] == node.registered["session_timeout_s"] == 600

    body = {"configuration": {"max_slots": None, "session_timeout_s": 500, "log_level": "debug"}}
    changed = patch(master, path, body).expect(200)

    assert changed["configuration"] == {"session_timeout_s": 500, "log_level": "debug"}
    assert (changed["configuration_version"], changed["version"]) == (2, 2)
    assert master.get(f"{path}/health")["outdated_nodes"] == 1
    terms = node.beat(number=1, configuration_version=1, session_timeout_s=600)["terms"]
    assert (terms["version"], terms["session_timeout_s"], terms["log_level"]) == (2, 500, "debug")
    reply = node.beat(number=2, configuration_version=2, session_timeout_s=500)
    assert "terms" not in reply
    assert node.view()["configuration_version"] == 2
    assert master.get(f"{path}/health")["outdated_nodes"] == 0

    back = master.post(f"{path}:rollback", {"version": 1})
    assert back["configuration"] == {"max_slots": 3}
    assert back["configuration_version"] == 3
    versions = master.get(f"{path}/configuration/versions")
    assert [each["version"] for each in versions["items"]] == [3, 2, 1]
    assert "rolled back to version 1" in versions["items"][0]["cause"]
    assert versions["items"][2]["settings"] == {"max_slots": 3}
    page = master.get(f"{path}/configuration/versions?limit=2")
    assert page["next_cursor"] == "2"
    rest = master.get(f"{path}/configuration/versions?limit=2&cursor=2")
    assert [each["version"] for each in rest["items"]] == [1]
    assert master.post(f"{path}:rollback", {"version": 0})["configuration"] == {}
    (problem,) = master.call("POST", f"{path}:rollback", {"version": 99}).expect(422)["errors"]
    assert problem["field"] == "version"
    node.leave()


def test_a_patch_that_changes_nothing_makes_no_version(master: Master) -> None:
    id = cluster(master, configuration={"max_slots": 3})
    path = f"/api/v1/clusters/{id}"
    before = master.get(path)
    assert patch(master, path, {"configuration": {"max_slots": 3}}).expect(200) == before
    assert patch(master, path, {}).expect(200) == before


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"configuration": {"default_strategy": "luck"}}, "configuration.default_strategy"),
        ({"configuration": {"session_timeout_s": 61}}, "configuration.session_timeout_s"),
        ({"configuration": {"heartbeat_interval_s": 400}}, "configuration.session_timeout_s"),
        ({"configuration": {"log_level": "loud"}}, "configuration.log_level"),
        ({"configuration": {"max_slots": -1}}, "configuration.max_slots"),
        ({"configuration": {"timeout": 5}}, "configuration.timeout"),
        ({"status": "closed"}, "status"),
        ({"name": "a\nb"}, "name"),
        ({"project_id": "other"}, "project_id"),
    ],
)
def test_bad_settings_are_refused_with_field_and_remedy(
    master: Master, body: Any, field: str
) -> None:
    (problem,) = patch(master, "/api/v1/clusters/default", body).expect(422)["errors"]
    assert problem["field"] == field
    assert problem["remedy"]
    assert master.get("/api/v1/clusters/default")["version"] == 1


@pytest.mark.parametrize("kind", ["projects", "clusters"])
@pytest.mark.parametrize("id", ["", "a b", "a/b", "-a", "x" * 65, "ü"])
def test_bad_ids_are_refused(master: Master, kind: str, id: str) -> None:
    (problem,) = master.call("POST", f"/api/v1/{kind}", {"id": id}).expect(422)["errors"]
    assert problem["field"] == "id"


def test_a_cluster_of_an_unknown_project_is_refused(master: Master) -> None:
    body = {"id": new_id("cluster"), "project_id": "nobodys-project"}
    (problem,) = master.call("POST", "/api/v1/clusters", body).expect(422)["errors"]
    assert problem["field"] == "project_id"


def test_a_cluster_says_what_is_wrong_first(master: Master) -> None:
    id = cluster(master)
    path = f"/api/v1/clusters/{id}/health"
    assert [each["message"] for each in master.get(path)["troubles"]] == ["it has no node"]
    master.submit(task_type="nobodys", cluster_id=id)

    worse = master.get(path)

    assert (worse["health"], worse["ready"], worse["tasks"]) == ("unhealthy", 1, {"pending": 1})
    assert worse["troubles"][0]["severity"] == "critical"
    assert f"worker.cluster` = '{id}'" in worse["troubles"][0]["remedy"]
    assert worse["oldest_ready_s"] >= 0
    node = master.node(cluster_id=id, resources={"cpu": 8, "slots": 3}, task_types=["none"])
    node.beat(number=1, configuration_version=0, session_timeout_s=600)
    better = master.get(path)
    assert (better["health"], better["nodes"]) == ("healthy", {"online": 1})
    assert better["capacity"] == better["free"] == {"cpu_cores": 8.0, "slots": 3.0}
    node.leave()


def test_settings_are_shown_with_their_origin_to_admins_only(master: Master) -> None:
    found = {each["name"]: each for each in master.get("/api/v1/settings")["items"]}
    assert found["session.timeout_s"]["value"] == 600
    assert found["session.timeout_s"]["origin"] == "environment CRAWLFLEET_SESSION_TIMEOUT_S"
    assert found["server.port"]["origin"] == "flag --port"
    assert found["retention.tasks_days"]["origin"] == "default"
    for role in (Role.VIEWER, Role.OPERATOR):
        master.call("GET", "/api/v1/settings", key=master.keys[role]).expect(403)


def test_every_class_of_error_can_be_asked_for() -> None:
    assert {*get_args(Kind)} == {*ErrorClass}


def test_dead_letters_are_listed_filtered_sent_back_and_discarded(master: Master) -> None:
    mine = project(master)
    first, second = dead_task(master, project_id=mine), dead_task(master, project_id=mine)
    master.submit(task_type="nobodys", project_id=mine)
    path = f"/api/v1/dead-letters?project_id={mine}"

    listed = master.get(path)["items"]

    assert [each["id"] for each in listed] == [second, first]
    assert listed[0]["reason"] == "failed 1 times (max_retries 0)"
    assert (listed[0]["error_class"], listed[0]["status"]) == ("network", "failed")
    page = master.get(f"{path}&limit=1")
    assert page["next_cursor"] == second
    assert [each["id"] for each in master.get(f"{path}&cursor={second}")["items"]] == [first]
    for query, count in (
        ("error_class=network", 2),
        ("error_class=crash", 0),
        ("status=timeout", 0),
        ("reason=failed%201%20times", 2),
        ("reason=vanished", 0),
        ("cluster_id=default", 2),
    ):
        assert len(master.get(f"{path}&{query}")["items"]) == count, query

    reply = master.post("/api/v1/dead-letters:discard", {"ids": [first]})
    assert (reply["changed"], reply["refused_count"]) == (1, 0)
    assert master.task(first)["status"] == "failed"
    assert master.post("/api/v1/dead-letters:discard", {"ids": [first]})["unchanged"] == 1
    chosen = {"filter": {"project_id": mine, "error_class": "network"}}
    assert master.post("/api/v1/dead-letters:requeue", chosen)["changed"] == 1
    assert master.task(second)["status"] == "pending"
    assert master.get(path)["items"] == []
    refused = master.post("/api/v1/dead-letters:requeue", {"ids": [first]})
    assert refused["refused_count"] == 1
    assert "not a dead letter" in refused["refused"][0]["detail"]
    for query in ("status=null", "status=pending", "error_class=bad", "reason=", "cursor=x"):
        answer = master.call("GET", f"/api/v1/dead-letters?{query}").expect(422)
        assert answer["errors"][0]["field"] == query.partition("=")[0]
        assert answer["errors"][0]["remedy"]
    for body in ({}, {"ids": [first], "filter": {}}):
        master.call("POST", "/api/v1/dead-letters:requeue", body).expect(422)


def things(master: Master) -> Iterator[tuple[str, str, Any]]:
    """One of each kind: its path, an order or patch, and a body."""
    yield f"/api/v1/tasks/{master.submit(task_type='nobodys')}", ":pause", None
    yield f"/api/v1/nodes/{master.node(task_types=['none']).id}", ":maintenance", None
    yield f"/api/v1/projects/{project(master)}", "", {"name": "other"}
    yield f"/api/v1/clusters/{cluster(master)}", "", {"status": "maintenance"}


def test_a_thing_is_read_again_only_when_it_has_changed(master: Master) -> None:
    for path, verb, body in things(master):
        first = master.call("GET", path)
        tag = first.headers["etag"]
        same = master.call("GET", path, headers={"If-None-Match": tag})
        assert (same.status, same.content, same.headers["etag"]) == (304, b"", tag), path
        for known in ("*", f'"0", W/{tag}'):
            assert master.call("GET", path, headers={"If-None-Match": known}).status == 304
        assert master.call("POST" if verb else "PATCH", f"{path}{verb}", body).status == 200
        changed = master.call("GET", path, headers={"If-None-Match": tag})
        assert changed.status == 200
        assert changed.headers["etag"] != tag


def test_a_node_that_measures_anew_is_news_to_readers_but_in_nobodys_way(master: Master) -> None:
    node = master.node(task_types=["none"])
    node.beat(load=0.4)  # its health is known from now on
    tag = master.call("GET", node.path).headers["etag"]
    node.beat(load=0.5)
    assert master.call("GET", node.path, headers={"If-None-Match": tag}).status == 200
    drained = master.call("POST", f"{node.path}:drain", headers={"If-Match": tag})
    assert drained.expect(200)["status"] == "draining"


def test_an_order_based_on_an_old_version_is_refused_and_changes_nothing(master: Master) -> None:
    for path, verb, body in things(master):
        method = "POST" if verb else "PATCH"
        tag = master.call("GET", path).headers["etag"]
        before = master.get(path)
        stale = master.call(method, f"{path}{verb}", body, headers={"If-Match": '"99"'})
        problem = stale.expect(412)
        assert problem["type"] == "urn:crawlfleet:problem:precondition-failed"
        assert "99" in problem["detail"]
        assert master.get(path) == before
        bad = master.call(method, f"{path}{verb}", body, headers={"If-Match": "99"})
        assert bad.expect(422)["errors"][0]["field"] == "If-Match"
        made = master.call(method, f"{path}{verb}", body, headers={"If-Match": tag})
        assert made.status == 200, path
        again = master.call(method, f"{path}{verb}", body, headers={"If-Match": tag})
        assert again.status == 200, "what is as ordered may be ordered again"


@pytest.mark.parametrize("kind", ["projects", "clusters"])
def test_of_patches_of_one_version_one_wins_and_the_others_are_told(
    master: Master, kind: str
) -> None:
    id = project(master) if kind == "projects" else cluster(master)
    path = f"/api/v1/{kind}/{id}"

    async def race(version: int) -> list[int]:
        def send(number: int) -> int:
            peer = Master.__new__(Master)
            peer.__dict__ |= {**master.__dict__, "_connection": None}
            body = {"name": f"{version}.{number}", "description": f"{version}.{number}"}
            try:
                answer = peer.call("PATCH", path, body, headers={"If-Match": f'"{version}"'})
            finally:
                peer.close()
            return answer.status

        with ThreadPoolExecutor(8) as pool:
            return [*pool.map(send, range(8))]

    for version in range(1, 6):
        statuses = asyncio.run(race(version))
        view = master.get(path)
        assert statuses.count(200) == 1, statuses
        assert {*statuses} <= {200, 409, 412}
        assert view["version"] == version + 1
        assert view["name"] == view["description"], "nothing is half done"
