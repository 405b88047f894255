"""Who may do what: every route of the table, tried with every kind of key.

What must come out is written down here once more, apart from the code: a role or a scope that slips
into the wrong place of the table is found.
"""

import re
import time
from typing import Any, Final, NamedTuple

import pytest

from crawlfleet.api.app import ROUTES
from crawlfleet.api.http.routing import Route, Scope
from crawlfleet.model.key import Role
from tests.api.plain_http import (
    CrawlingNode,
    Master,
    Node,
    deploy,
    sign_in,
    webhook_with_delivery,
)

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("api roles")]

PEOPLE: Final = ("viewer", "operator", "admin")
OF_SHOP: Final = ("shop's viewer", "shop's operator")
"""Bound to the project of the task that is asked for."""
OF_ANOTHER: Final = ("another project's viewer", "another project's operator")
STRANGERS: Final = (
    "no key",
    "wrong key",
    "expired key",
    "revoked key",
    "rotated key",
    "revoked join token",
    "used up join token",
    "expired join token",
    "revoked node's token",
    "renewed node's old token",
    "session's secret as a key",
    "revoked key's session",
    "rotated key's session",
    "session that was closed",
    "session that never was",
)
"""Nobody, or nobody any more."""
SESSIONS: Final = {
    "viewer's session": "viewer",
    "operator's session": "operator",
    "admin's session": "admin",
    "shop's viewer's session": "shop's viewer",
    "shop's operator's session": "shop's operator",
    "another project's operator's session": "another project's operator",
    "graced key's session": "rotated key in its grace",
}
"""Browsers that signed in, and with which key: they may do what that may."""
FORGERS: Final = {
    "admin's session without its csrf token": "admin",
    "admin's session with another's csrf token": "admin",
    "admin's session on another page": "admin",
    "admin's session on no page": "admin",
}
"""They may look, as the admin whose browser it is, and change nothing."""
CALLERS: Final = (
    *STRANGERS,
    *PEOPLE,
    *SESSIONS,
    *FORGERS,
    "rotated key in its grace",
    *OF_SHOP,
    *OF_ANOTHER,
    "join key",
    "join token",
    "node token",
    "another node's token",
)

OPEN: Final = {
    ("GET", "/healthz"),
    ("GET", "/readyz"),
    ("GET", "/api/openapi.json"),
    ("GET", "/api/reference"),
    ("POST", "/api/v1/session"),
}
FOR_ADMINS: Final = ("/api/v1/keys", "/api/v1/join-tokens", "/api/v1/audit", "/api/v1/settings")
ENDS_NODES: Final = (":rotate-token", ":revoke")
SPOKEN_BY_NODES: Final = (
    ":heartbeat",
    "/heartbeat",
    ":lease",
    ":report",
    ":note",
    "/services/{service}",
    ":renew-token",
)
OF_PROJECTS: Final = {
    "{task_id}",
    "{execution_id}",
    "{project_id}",
    "{cluster_id}",
    "{schedule_id}",
    "{workflow_id}",
    "{run_id}",
    "{webhook_id}",
    "{alert_id}",
}
"""What a path may name that is a project, or belongs to one."""
ONLY_THE_ID: Final = {"detail": "", "instance": ""}
FLEET_WIDE: Final = (
    "/api/v1/nodes",
    "/api/v1/hosts",
    "/metrics",
    "/api/distribution/devices",
    "/api/distribution/system",
    "/api/distribution/tasks/pull",
    *FOR_ADMINS,
)


def allowed(method: str, path: str) -> set[str]:
    """Who may ask for this, as the documentation promises."""
    if (method, path) in OPEN:
        return set(CALLERS)
    if path.startswith("/api/v1/session"):
        return {*PEOPLE, *OF_SHOP, *OF_ANOTHER, "rotated key in its grace"}
    if path.startswith(FOR_ADMINS) or path.endswith(ENDS_NODES):
        return {"admin"}
    if path.startswith("/api/v1/clusters") and method != "GET":
        return {"admin"}
    nodes = {"node token", "another node's token"}
    if path.startswith("/api/distribution") and method == "GET" and path.endswith("/pull"):
        return {"admin", *nodes}
    if path.endswith((":register", "/register")):
        return {"admin", "join key", "join token", "node token", "another node's token"}
    if path.endswith(SPOKEN_BY_NODES):
        return {"admin", "node token"}
    operators = {"operator", "admin", "rotated key in its grace"}
    if path.endswith("{task_id}/status"):
        return operators | nodes | {"shop's operator", "another project's operator"}
    if path.endswith((":unregister", ":drain", "{device_id}/status")):
        return operators | {"node token"}
    # What only looks at what it is sent changes nothing either.
    reads = method == "GET" or path.endswith(":validate")
    readers = {"viewer"} if reads else set()
    if (method, path) == ("GET", "/api/v1/nodes/{node_id}"):
        readers.add("node token")
    if not is_fleet_wide(method, path):
        operators |= {"shop's operator", "another project's operator"}
        readers |= {"shop's viewer", "another project's viewer"} if reads else set()
    return operators | readers


def is_fleet_wide(method: str, path: str) -> bool:
    """Whether it is nothing for the key of one project."""
    return (
        path.startswith(FLEET_WIDE)
        or (method, path)
        in {
            ("POST", "/api/v1/projects"),
            ("PATCH", "/api/v1/projects/{project_id}/quotas"),
        }
        or (path.startswith("/api/v1/clusters") and method != "GET")
    )


class Cast(NamedTuple):
    """Whom and what it is about."""

    secrets: dict[str, str | None]
    ids: dict[str, str]
    browsers: dict[str, dict[str, str]]
    """What those without a key of their own send instead."""


@pytest.fixture(scope="module")
def cast(master: Master) -> Cast:
    node: Node = master.node(task_types=["once"])
    master.submit(task_type="once", project_id="shop")
    work = node.take()
    # It has ended, so that whoever follows its log is soon told so.
    node.report(work, "succeeded")
    crawling = CrawlingNode(master, project_id="shop")
    crawling.keep()
    deploy(master, "shop", "quotes")
    another, revoked, renewed = (master.node(task_types=["none"]) for _ in range(3))
    master.post(f"{revoked.path}:revoke")
    new_token = renewed.say("renew-token").expect(200)["node_token"]
    master.get(renewed.path, key=new_token)

    revoked_id, revoked_key = master.key("revoked", "admin")
    master.post(f"/api/v1/keys/{revoked_id}:revoke")
    rotated_id, rotated_key = master.key("rotated", "admin")
    master.post(f"/api/v1/keys/{rotated_id}:rotate", {"grace_s": 0.01})
    graced_id, graced_key = master.key("graced", "operator")
    master.post(f"/api/v1/keys/{graced_id}:rotate", {"grace_s": 600})
    join_id, revoked_join = master.join_token()
    master.post(f"/api/v1/join-tokens/{join_id}:revoke")
    _, used_up_join = master.join_token()
    master.post("/api/v1/nodes:register", {"name": "last"}, key=used_up_join, status=201)
    secrets = {
        "no key": None,
        "wrong key": "0" * 64,
        "expired key": master.key("expired", "admin", expires_in_s=0.01)[1],
        "revoked key": revoked_key,
        "rotated key": rotated_key,
        "rotated key in its grace": graced_key,
        "revoked join token": revoked_join,
        "used up join token": used_up_join,
        "expired join token": master.join_token(expires_in_s=0.01)[1],
        "revoked node's token": revoked.token,
        "renewed node's old token": renewed.token,
        **{role: master.keys[Role(role)] for role in PEOPLE},
        "shop's viewer": master.key("shop-v", "viewer", project_id="shop")[1],
        "shop's operator": master.key("shop-o", "operator", project_id="shop")[1],
        "another project's viewer": master.key("other-v", "viewer", project_id="other")[1],
        "another project's operator": master.key("other-o", "operator", project_id="other")[1],
        "join key": master.keys[Role.NODE],
        "join token": master.join_token(uses=1000)[1],
        "node token": node.token,
        "another node's token": another.token,
    }
    nodes = {"id": "shop-nodes", "project_id": "shop"}
    master.post("/api/v1/clusters", nodes, status=201)
    schedule = {"name": "s", "every_s": 1e6, "task": {"task_type": "x", "project_id": "shop"}}
    scheduled = master.post("/api/v1/schedules", schedule, status=201)
    document = {"name": "w", "project_id": "shop", "steps": {"a": {"task_type": "x"}}}
    ran = master.post("/api/v1/workflows:submit", {"document": document}, status=201)
    webhook, delivery = webhook_with_delivery(master, "shop")
    rule = {"name": "r", "source": "error_share", "above": 0.5, "project_id": "shop"}
    time.sleep(0.05)  # until those that expire have expired
    ids = {
        "node_id": node.id,
        "device_id": node.id,
        "service": "frontier",
        "task_id": crawling.task,
        "execution_id": work["execution_id"],
        "key_id": master.key("somebody", "viewer")[0],
        "join_token_id": master.join_token()[0],
        "project_id": "shop",
        "cluster_id": "shop-nodes",
        "schedule_id": scheduled["id"],
        "workflow_id": ran["workflow_id"],
        "run_id": ran["id"],
        "webhook_id": webhook,
        "delivery_id": delivery,
        "alert_id": master.post("/api/v1/alerts", rule, status=201)["id"],
        "bundle_id": "quotes",
        "secret_id": "SHOP_PASSWORD",
        "series_id": "shop-prices",
        "target": "shop.example",
    }
    return Cast(secrets, ids, browsers(master, secrets))


def browsers(master: Master, secrets: dict[str, str | None]) -> dict[str, dict[str, str]]:
    """The headers of all who signed in."""
    found = {
        caller: sign_in(master, str(secrets[key]))
        for caller, key in {**SESSIONS, **FORGERS}.items()
    }
    found["admin's session without its csrf token"].pop("X-Crawlfleet-Csrf")
    another = found["operator's session"]["X-Crawlfleet-Csrf"]
    found["admin's session with another's csrf token"]["X-Crawlfleet-Csrf"] = another
    found["admin's session on another page"]["Origin"] = "http://evil.example"
    found["admin's session on no page"].pop("Origin")

    revoked_id, revoked = master.key("revoked-later", "admin")
    rotated_id, rotated = master.key("rotated-later", "admin")
    found["revoked key's session"] = sign_in(master, revoked)
    found["rotated key's session"] = sign_in(master, rotated)
    master.post(f"/api/v1/keys/{revoked_id}:revoke")
    master.post(f"/api/v1/keys/{rotated_id}:rotate")
    closed = found["session that was closed"] = sign_in(master, str(secrets["admin"]))
    master.call("DELETE", "/api/v1/session", key=None, headers=closed).expect(200)
    found["session that never was"] = {**closed, "Cookie": f"crawlfleet_session={'0' * 64}"}
    own = sign_in(master, str(secrets["admin"]))["Cookie"].partition("=")[2]
    found["session's secret as a key"] = {"Authorization": f"Bearer {own}"}
    return found


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_a_route_lets_in_whom_it_should_and_nobody_else(
    route: Route, master: Master, cast: Cast
) -> None:
    wrong: dict[str, str] = {}
    for caller in CALLERS:
        try:
            assert_promise_kept(route, caller, master, cast)
        except AssertionError as failure:
            wrong[caller] = str(failure)
    assert wrong == {}


def assert_promise_kept(route: Route, caller: str, master: Master, cast: Cast) -> None:
    # Nothing that the route could work with: who is let in is told what is missing.
    body = None if route.method == "GET" else {"no such field": 1}

    path = route.path.format(**cast.ids)
    shown = {"key": cast.secrets.get(caller), "headers": cast.browsers.get(caller)}
    answer = master.call(route.method, path, body, **shown)

    is_forged = caller in FORGERS and route.method != "GET"
    who = {**SESSIONS, **FORGERS}.get(caller, caller)
    if caller in STRANGERS and (route.method, route.path) not in OPEN:
        assert answer.expect(401)["type"] == "urn:crawlfleet:problem:unauthenticated"
        assert answer.headers["www-authenticate"] == 'Bearer realm="crawlfleet"'
    elif (route.method, route.path) in OPEN:
        assert answer.status in {200, 422}, answer.content
    elif is_forged or who not in allowed(route.method, route.path):
        assert answer.expect(403)["type"] == "urn:crawlfleet:problem:refused"
    elif who in OF_ANOTHER and OF_PROJECTS & set(re.findall(r"{\w+}", route.path)):
        assert answer.expect(404)["type"] == "urn:crawlfleet:problem:not-found"
        unknown = master.call(
            route.method,
            route.path.format(
                task_id="task-none",
                execution_id="exec-none",
                project_id="project-none",
                cluster_id="cluster-none",
                schedule_id="sched-none",
                workflow_id="flow-none",
                run_id="run-none",
                webhook_id="hook-none",
                delivery_id="hook-none.1",
                alert_id="alert-none",
                bundle_id="none",
                secret_id="NONE",
            ),
            body,
            **shown,
        )
        # Nobody learns from the answer whether there is such a thing elsewhere.
        assert {**unknown.expect(404), **ONLY_THE_ID} == {**answer.json, **ONLY_THE_ID}
        assert unknown.json["detail"].split("'")[0] == answer.json["detail"].split("'")[0]
    else:
        assert answer.status in {200, 422}, answer.content


def test_nothing_but_liveness_and_descriptions_is_open_to_strangers() -> None:
    assert {(route.method, route.path) for route in ROUTES if not route.roles} == OPEN
    assert {route.path for route in ROUTES if route.signs_in} == {"/api/v1/session"}


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
def test_a_route_declares_what_it_is_to_the_key_of_a_project(route: Route) -> None:
    assert route.scope is not None
    assert (route.scope is Scope.PUBLIC) == ((route.method, route.path) in OPEN)
    fleet_wide = is_fleet_wide(route.method, route.path)
    assert (route.scope is Scope.FLEET) == fleet_wide
    of_project = any(name in route.path for name in OF_PROJECTS)
    assert (route.scope is Scope.PATH) == (of_project and not fleet_wide)


def test_no_secret_is_in_the_store_or_the_log(master: Master, cast: Cast) -> None:
    kept = repr(master.dump()) + repr(master.fleet.query("select * from crawler_audit"))
    # Not what `up` itself prints for its owner to open.
    told = "".join(log.read_text("utf-8") for log in master.fleet.folder.glob("logs/*"))
    assert "request refused" in told
    for caller, secret in cast.secrets.items():
        if secret is not None and caller != "wrong key":
            assert secret not in kept, caller
            assert secret not in told, caller
    for caller, headers in cast.browsers.items():
        assert (
            caller == "session that never was"
            or headers.get("Cookie", "none sent")[-64:] not in kept
        )
        assert headers.get("Cookie", "none sent")[-64:] not in told, caller


def test_no_answer_shows_a_hash(master: Master) -> None:
    def texts(value: Any) -> list[str]:
        if isinstance(value, dict):
            return [text for each in value.values() for text in texts(each)]
        if isinstance(value, list):
            return [text for each in value for text in texts(each)]
        return [str(value)]

    hashes = {row[0] for row in master.fleet.query("select secret_hash from crawler_keys")}
    hashes |= {row[0] for row in master.fleet.query("select token_hash from crawler_nodes")}
    shown: set[str] = set()
    for path in ("keys", "join-tokens", "nodes", "audit", "events"):
        shown |= set(texts(master.get(f"/api/v1/{path}")))
    assert hashes
    assert hashes.isdisjoint(shown)


def test_a_project_sees_and_closes_its_own_breakers_only(master: Master, cast: Cast) -> None:
    path, key = "/api/v1/breakers/down.example:close", cast.secrets["shop's operator"]
    assert master.post(path, {}, key=key)["project_id"] == "shop"
    refused = master.post(path, {"project_id": "other"}, key=key, status=422)
    assert [each["field"] for each in refused["errors"]] == ["project_id"]
    assert master.post(path, {"project_id": "other"})["project_id"] == "other"
    assert master.post(path, {})["project_id"] is None
    seen = master.call("GET", "/api/v1/breakers?project_id=other&all=true", key=key).expect(200)
    assert seen == {"items": [], "total": 0}
