"""Who may do what: every route of the table, tried with every kind of key."""

from typing import Final, NamedTuple

import pytest
from plain_http import Master, Node

from crawlfleet.api.app import ROUTES
from crawlfleet.api.routing import Route
from crawlfleet.model.key import Role

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("api roles")]

STRANGERS: Final = ("no key", "wrong key")
PEOPLE: Final = ("viewer", "operator", "admin")
CALLERS: Final = [*STRANGERS, *PEOPLE, "join key", "node token", "another node's token"]

# Written down once more, apart from the code: a role that slips into the wrong set is found here.
OPEN: Final = {"/healthz", "/readyz", "/api/openapi.json", "/api/reference"}
SPOKEN_BY_NODES: Final = (":heartbeat", ":lease", ":report", ":note")


def allowed(method: str, path: str) -> set[str]:
    """Who may ask for this, as the documentation promises."""
    if path in OPEN:
        return set(CALLERS)
    if path.endswith(":register"):
        return {"admin", "join key", "node token", "another node's token"}
    if path.endswith(SPOKEN_BY_NODES):
        return {"admin", "node token"}
    if path.endswith(":unregister"):
        return {"operator", "admin", "node token"}
    if path == "/api/v1/settings" or (path.startswith("/api/v1/clusters") and method != "GET"):
        return {"admin"}
    if method == "GET":
        return {*PEOPLE} | ({"node token"} if path == "/api/v1/nodes/{node_id}" else set())
    return {"operator", "admin"}


class Cast(NamedTuple):
    """Whom and what it is about."""

    node: Node
    another: Node
    task_id: str


@pytest.fixture(scope="module")
def cast(master: Master) -> Cast:
    return Cast(
        master.node(task_types=["none"]),
        master.node(task_types=["none"]),
        master.submit(task_type="nobodys"),
    )


def secret(caller: str, master: Master, cast: Cast) -> str | None:
    return {
        "no key": None,
        "wrong key": "0" * 64,
        "join key": master.keys[Role.NODE],
        "node token": cast.node.token,
        "another node's token": cast.another.token,
        **{role: master.keys[Role(role)] for role in PEOPLE},
    }[caller]


@pytest.mark.parametrize("caller", CALLERS)
@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_a_route_lets_in_whom_it_should_and_nobody_else(
    route: Route, caller: str, master: Master, cast: Cast
) -> None:
    path = route.path.format(
        task_id=cast.task_id,
        node_id=cast.node.id,
        execution_id="exec-of-nobody",
        project_id="default",
        cluster_id="default",
    )
    # Nothing that the route could work with: who is let in is told what is missing.
    body = None if route.method == "GET" else {}

    answer = master.call(route.method, path, body, key=secret(caller, master, cast))

    if caller in allowed(route.method, route.path):
        assert answer.status not in {401, 403}, answer.content
        assert answer.status < 500
    elif caller in STRANGERS:
        assert answer.expect(401)["type"] == "urn:crawlfleet:problem:unauthenticated"
        assert answer.headers["www-authenticate"] == 'Bearer realm="crawlfleet"'
    else:
        assert answer.expect(403)["type"] == "urn:crawlfleet:problem:refused"


def test_nothing_but_liveness_and_descriptions_is_open_to_strangers() -> None:
    assert {route.path for route in ROUTES if not route.roles} == OPEN
