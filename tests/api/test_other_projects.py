"""The key of one project against all that another project has, through every route that there is.

What is refused or absent follows from what a route declares. A route that answers such a key with
its own project's things is tried with requests that name the other's: none of them may show it, act
on it, or answer otherwise than if it were not there. A route that is not known here fails.
"""

import json
import re
import time
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

import pytest

from crawlfleet.api.app import ROUTES
from crawlfleet.api.http.routing import Route, Scope
from tests.api.plain_http import (
    CrawlingNode,
    Master,
    Node,
    dead_task,
    deploy,
    webhook_with_delivery,
)

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("api other projects")]

TASKS: Final = "/api/v1/tasks"
ABSENT: Final = "rival_none"
"""An id that nobody has, and that is long enough for none of the rival's to be in it."""

CHOSEN_AGAIN: Final = ("of-rival", "rival-rule", "rival.example")
"""Names of the rival's that the other project chooses for its own things, too."""


class World(NamedTuple):
    """What the rival has, and the key of another project."""

    key: str
    ids: dict[str, str]
    own_task: str
    node: Node


@pytest.fixture(scope="module")
def world(master: Master) -> World:
    master.post("/api/v1/projects", {"id": "rival"}, status=201)
    cluster = {"id": "rival-cluster", "project_id": "rival", "configuration": {"max_slots": 7}}
    master.post("/api/v1/clusters", cluster, status=201)
    # One that no request names: an answer that lists clusters shows it.
    annex = {"id": "rival-annex", "project_id": "rival"}
    master.post("/api/v1/clusters", annex, status=201)
    node = master.node(
        name="rival-node",
        cluster_id="rival-cluster",
        task_types=["rival_kind"],
        resources={"slots": 1},
    )
    waiting = master.submit(
        task_type="rival_kind",
        project_id="rival",
        cluster_id="rival-cluster",
        dedup_key="same-work",
        idempotency_key="same-request",
    )
    crawling = CrawlingNode(master, project_id="rival")
    crawling.keep(b'{"title": "rival-item"}\n')
    deploy(master, "rival", "rival-bundle")
    secret = {"name": "RIVAL_PASSWORD", "value": "rival-secret"}
    master.post("/api/v1/projects/rival/secrets", secret, status=201)
    task = {"task_type": "rival_kind", "project_id": "rival", "cluster_id": "rival-cluster"}
    schedule = {"name": "rival-schedule", "every_s": 1e6, "task": task}
    steps = {"a": {"task_type": "rival_kind", "cluster_id": "rival-cluster"}}
    document = {"name": "rival-workflow", "project_id": "rival", "steps": steps}
    ran = master.post("/api/v1/workflows:submit", {"document": document}, status=201)
    until = time.monotonic() + 30
    while len(master.get(f"{TASKS}?project_id=rival&task_type=rival_kind")["items"]) < 2:
        assert time.monotonic() < until, "the run has begun no task"
        time.sleep(0.02)
    webhook, delivery = webhook_with_delivery(master, "rival")
    rule = {"name": "rival-rule", "source": "error_share", "above": 1.0, "project_id": "rival"}
    execution = node.take()
    ids = {
        "task_id": crawling.task,
        "execution_id": execution["execution_id"],
        "project_id": "rival",
        "cluster_id": "rival-cluster",
        "node_id": node.id,
        "device_id": node.id,
        "schedule_id": master.post("/api/v1/schedules", schedule, status=201)["id"],
        "workflow_id": ran["workflow_id"],
        "run_id": ran["id"],
        "webhook_id": webhook,
        "delivery_id": delivery,
        "alert_id": master.post("/api/v1/alerts", rule, status=201)["id"],
        "bundle_id": "rival-bundle",
        "secret_id": "RIVAL_PASSWORD",
        "series_id": "rival-series",
        "target": "rival.example",
        "key_id": master.key("rival-key", "viewer", project_id="rival")[0],
        "join_token_id": master.join_token(cluster_id="rival-cluster")[0],
        "waiting": waiting,
        "dead": dead_task(master, project_id="rival"),
    }
    own = master.submit(task_type="lonely", project_id="shop")
    return World(master.key("shop", "operator", project_id="shop")[1], ids, own, node)


Asked = tuple[dict[str, Any], ...]
"""Queries of a GET, or bodies of anything else; `{waiting}` and such stand for the rival's ids."""

OF_RIVAL: Final = {"project_id": "rival"}
MANY: Final[Asked] = (
    {"ids": ["{waiting}", "{task_id}", "{dead}"]},
    {"filter": OF_RIVAL},
    {"filter": {"cluster_id": "rival-cluster"}},
    {"filter": {"assigned_node": "{node_id}"}},
    {"filter": {"workflow_id": "{workflow_id}"}},
)
LISTS: Final[Asked] = (
    {},
    OF_RIVAL,
    {"cluster_id": "rival-cluster"},
    {"assigned_node": "{node_id}"},
    {"workflow_id": "{workflow_id}"},
)
PLACED: Final = {"task_type": "nobodys", "cluster_id": "rival-cluster"}
STEPS: Final = {"a": PLACED}
WORKFLOWS: Final[Asked] = (
    {"document": {"name": "w", "project_id": "rival", "steps": {"a": {"task_type": "x"}}}},
    {"document": {"name": "rival-workflow", "steps": STEPS}},
    {
        "document": {
            "name": "w",
            "steps": {"a": {"task_type": "scrapy_spider", "bundle": "rival-bundle"}},
        }
    },
    {"document": {"name": "w", "steps": {"a": {"task_type": "x", "secrets": ["RIVAL_PASSWORD"]}}}},
)
SUBMITTED: Final[Asked] = (
    {"task_type": "nobodys", **OF_RIVAL},
    PLACED,
    {"task_type": "scrapy_spider", "bundle": "rival-bundle"},
    {"task_type": "nobodys", "secrets": ["RIVAL_PASSWORD"]},
    {"task_type": "nobodys", "dedup_key": "same-work", "idempotency_key": "same-request"},
)

OWN: Final[dict[str, Asked]] = {
    "create_task": SUBMITTED,
    "create_tasks": ({"tasks": [*SUBMITTED]},),
    "list_tasks": (*LISTS, {"parent_id": "{task_id}"}),
    "cancel_tasks": MANY,
    "pause_tasks": MANY,
    "resume_tasks": MANY,
    "retry_tasks": MANY,
    "reprioritise_tasks": tuple({**each, "priority": 9} for each in MANY),
    "list_crawls": ({}, OF_RIVAL),
    "list_dead_letters": LISTS,
    "requeue_dead_letters": MANY,
    "discard_dead_letters": MANY,
    "list_schedules": ({}, OF_RIVAL, {"name": "rival-schedule"}),
    "create_schedule": (
        {"name": "s", "every_s": 1e6, "task": {"task_type": "x", **OF_RIVAL}},
        {"name": "s", "every_s": 1e6, "task": PLACED},
        {"name": "s", "every_s": 1e6, "workflow": {"name": "rival-workflow"}},
        {"name": "s", "every_s": 1e6, "workflow": {"name": "{workflow_id}"}},
        {"name": "s", "every_s": 1e6, "workflow": {"name": "rival-workflow", **OF_RIVAL}},
    ),
    "preview_schedule": ({"every_s": 60},),
    "list_workflows": ({}, OF_RIVAL, {"name": "rival-workflow"}),
    "save_workflow": WORKFLOWS,
    "validate_workflow": WORKFLOWS,
    "submit_workflow": WORKFLOWS,
    "get_workflow_schema": ({},),
    "list_runs": ({}, OF_RIVAL, {"workflow_id": "{workflow_id}"}),
    "list_webhooks": ({}, OF_RIVAL, {"name": "of-rival"}),
    "create_webhook": (
        {"name": "of-rival", "url": "http://127.0.0.1:9/", **OF_RIVAL},
        {"name": "of-rival", "url": "http://127.0.0.1:9/"},
        {"name": "of-node", "url": "http://127.0.0.1:9/", "node_id": "{node_id}"},
    ),
    "list_alerts": ({}, OF_RIVAL, {"name": "rival-rule"}),
    "create_alert": (
        {"name": "rival-rule", "source": "error_share", "above": 0.5, **OF_RIVAL},
        {"name": "rival-rule", "source": "error_share", "above": 0.6},
    ),
    "list_breakers": ({}, {"all": "true"}, OF_RIVAL),
    "close_breaker": (OF_RIVAL, {}),
    "list_projects": ({}, {"cursor": "a"}),
    "list_quotas": ({}, {"cursor": "a"}),
    "get_usage": ({}, OF_RIVAL),
    "list_series": ({}, OF_RIVAL),
    "list_measured_runs": ({}, OF_RIVAL),
    "get_session": ({},),
    "close_session": ({},),
    "create_session_link": ({},),
    "list_events": (
        {"limit": 1000},
        {"newest": "true"},
        {"subject": "{waiting}"},
        {"subject": "rival-cluster"},
        {"subject": "{node_id}"},
        {"kind": "cluster."},
        {"kind": "node."},
    ),
    "get_status": ({},),
    "get_statistics": ({},),
    "get_series": ({},),
    "list_attention": ({},),
    "list_task_types": ({},),
    "list_clusters": ({}, {"limit": 1}, {"cursor": "r"}),
    "create_distributed_task": ({"task_type": "x", **OF_RIVAL},),
    "list_distributed_tasks": ({}, {"device_id": "{node_id}"}),
    "get_task_stats": ({},),
}
"""Of each route that is for the own project's things: what a key of another project asks it."""

LASTING: Final = ("id", "name", "status", "description", "number", "digest", "priority")
"""What changes by an order alone."""

OF_OWN_TASK: Final[dict[str, Asked]] = {
    "explain_task": ({},),
    "get_task": ({},),
    "list_task_events": ({},),
    "assign_task": ({"device_id": "{node_id}"}, {"device_id": "rival-node"}),
}
"""Of routes whose path names a task: what is asked of the key's own task."""


def told(route: Route, world: World, asked: dict[str, Any]) -> dict[str, Any]:
    """The request with the rival's ids filled in."""
    text = json.dumps(asked)
    for name, id in world.ids.items():
        text = text.replace(f'"{{{name}}}"', json.dumps(id))
    filled: dict[str, Any] = json.loads(text)
    return filled


def shown(text: str, sent: str, world: World) -> set[str]:
    """What of the rival an answer shows that was not sent."""
    for name in CHOSEN_AGAIN:
        text = text.replace(name, "")
    marks = {*re.findall(r"(?i)rival[-_.][\w.-]+", text)}
    marks |= {id for id in world.ids.values() if id in text}
    if re.search(r"\brival\b(?![-_.]\w)", text):
        marks.add("rival")
    return {mark for mark in marks if mark not in sent}


def call(master: Master, world: World, route: Route, path: str, asked: dict[str, Any]) -> str:
    """The text of an answer, which may be a no but no failure of the master."""
    if route.method == "GET":
        answer = master.call("GET", f"{path}?{urlencode(asked)}" if asked else path, key=world.key)
    else:
        answer = master.call(route.method, path, asked, key=world.key)
    assert answer.status < 500, answer.content[:500]
    return answer.content.decode()


def possessions(master: Master) -> dict[str, Any]:
    """All that the rival has, as an administrator sees it."""
    paths = {
        "tasks": f"{TASKS}?project_id=rival&limit=1000",
        "schedules": "/api/v1/schedules?project_id=rival",
        "workflows": "/api/v1/workflows?project_id=rival",
        "runs": "/api/v1/runs?project_id=rival",
        "alerts": "/api/v1/alerts?project_id=rival",
        "webhooks": "/api/v1/webhooks?project_id=rival",
        "cluster": "/api/v1/clusters/rival-cluster",
        "project": "/api/v1/projects/rival",
        "bundles": "/api/v1/projects/rival/bundles",
        "secrets": "/api/v1/projects/rival/secrets",
    }
    found = {name: master.get(path) for name, path in paths.items()}
    # A webhook counts its tries meanwhile.
    return {
        name: [{key: each.get(key) for key in LASTING} for each in answer.get("items", [answer])]
        for name, answer in found.items()
    }


def test_every_route_is_known_here() -> None:
    names = {route.name for route in ROUTES if route.scope is Scope.OWN}
    assert names - OWN.keys() == set(), "say in OWN what the key of another project asks them"
    assert OWN.keys() - names == set()
    assert OF_OWN_TASK.keys() <= {route.name for route in ROUTES if route.scope is Scope.PATH}


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
def test_nothing_of_another_project_is_shown_or_touched(
    route: Route, master: Master, world: World
) -> None:
    if route.scope is Scope.PUBLIC:
        return
    before = possessions(master)
    path = route.path.format(service="frontier", **world.ids)
    if route.scope is not Scope.OWN:
        answer = master.call(
            route.method, path, None if route.method == "GET" else {}, key=world.key
        )
        assert answer.status == (403 if route.scope is Scope.FLEET else 404), answer.content
        assert shown(answer.content.decode(), path, world) == set()
    for asked in OWN.get(route.name, ()):
        sent = told(route, world, asked)
        text = call(master, world, route, path, sent)
        assert shown(text, f"{path} {json.dumps(sent)}", world) == set(), text
    for asked in OF_OWN_TASK.get(route.name, ()):
        sent = told(route, world, asked)
        path = route.path.format(**{**world.ids, "task_id": world.own_task})
        text = call(master, world, route, path, sent)
        assert shown(text, f"{path} {json.dumps(sent)}", world) == set(), text
    assert possessions(master) == before


def test_another_projects_cluster_is_answered_like_none(master: Master, world: World) -> None:
    asked = {"task_type": "nobodys", "cluster_id": "rival-cluster"}
    (theirs,) = master.post(TASKS, asked, key=world.key, status=422)["errors"]
    asked["cluster_id"] = ABSENT
    (nobodys,) = master.post(TASKS, asked, key=world.key, status=422)["errors"]
    assert theirs == {**nobodys, "value": "rival-cluster"}
    assert theirs["remedy"] == "use one of default"


def test_a_cluster_takes_tasks_of_its_project_whatever_key_hands_them_in(
    master: Master, world: World
) -> None:
    asked = {"task_type": "nobodys", "cluster_id": "rival-cluster", "project_id": "shop"}
    (problem,) = master.post(TASKS, asked, status=422)["errors"]
    assert problem["field"] == "cluster_id"
    master.submit(**{**asked, "project_id": "rival"})


def test_its_own_and_shared_clusters_are_listed_read_and_used(master: Master, world: World) -> None:
    master.post("/api/v1/clusters", {"id": "of-shop", "project_id": "shop"}, status=201)
    master.post("/api/v1/clusters", {"id": "of-all"}, status=201)
    listed = master.get("/api/v1/clusters", key=world.key)["items"]
    assert [each["id"] for each in listed] == ["default", "of-all", "of-shop"]
    for id in ("default", "of-all", "of-shop"):
        assert master.get(f"/api/v1/clusters/{id}", key=world.key)["id"] == id
        master.get(f"/api/v1/clusters/{id}/configuration/versions", key=world.key)
        asked = {"task_type": "nobodys", "cluster_id": id}
        master.post(TASKS, asked, key=world.key, status=201)
        master.call("POST", f"/api/v1/clusters/{id}:close", key=world.key).expect(403)
    assert master.get("/api/v1/clusters/of-shop/health", key=world.key)["ready"] == 1
    # It would count the tasks of all.
    shared = master.call("GET", "/api/v1/clusters/of-all/health", key=world.key)
    assert "shared" in shared.expect(403)["detail"]


def test_explain_counts_the_nodes_of_ones_own_clusters(master: Master, world: World) -> None:
    path = f"{TASKS}/{world.own_task}:explain"
    everything = master.get(path)["placement"]
    own = master.get(path, key=world.key)["placement"]
    assert "rival-node" in {each["name"] for each in everything["details"]}
    assert own["nodes"] == everything["nodes"] - 1
    assert "rival-node" not in {each["name"] for each in own["details"]}


def test_a_node_kept_for_another_project_is_told_without_its_name(
    master: Master, world: World
) -> None:
    master.call("PATCH", "/api/v1/projects/rival/quotas", {"nodes": {"for": "them"}}).expect(200)
    node = master.node(name="kept", task_types=["lonely"], labels={"for": "them"})
    path = f"{TASKS}/{world.own_task}:explain"
    try:
        (kept,) = [
            reason
            for each in master.get(path, key=world.key)["placement"]["details"]
            for reason in each["reasons"]
            if reason["filter"] == "reservation"
        ]
        assert "'rival'" in json.dumps(master.get(path))
        assert kept["message"] == "the node is kept for another project"
        task, refused = world.own_task, {"device_id": node.id}
        answer = master.call(
            "PUT", f"/api/distribution/tasks/{task}/assign", refused, key=world.key
        )
        assert "another project" in answer.expect(409)["detail"]
        assert "rival" not in answer.json["detail"]
    finally:
        master.call("PATCH", "/api/v1/projects/rival/quotas", {"nodes": None}).expect(200)
        node.leave()
