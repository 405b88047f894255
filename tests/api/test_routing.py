"""How a request finds its route."""

import re
from typing import Any

from starlette.routing import Match

from crawlfleet.api.app import ROUTES
from crawlfleet.api.http.routing import NODES, mount

NOBODY: Any = None
MOUNTED = mount(ROUTES, NOBODY, NOBODY, NOBODY, max_body_bytes=1)


def found(method: str, path: str) -> tuple[int, str]:
    """How many routes are tried for a request, and the path of the one that takes it."""
    scope = {"type": "http", "method": method, "path": path, "root_path": "", "headers": []}
    for tried, route in enumerate(MOUNTED, start=1):
        if route.matches(scope)[0] is Match.FULL:
            return tried, route.path.replace("_id:id}", "_id}")
    raise AssertionError(f"{method} {path} has no route")


def test_every_route_is_found_by_its_own_path() -> None:
    for route in ROUTES:
        path = re.sub(r"\{[^}]*\}", "a-1", route.path)
        assert found(route.method, path)[1] == route.path


def test_nodes_do_not_wait_for_the_routes_of_people() -> None:
    theirs = [route for route in ROUTES if route.roles == NODES]
    assert theirs
    for route in theirs:
        tried, _ = found(route.method, re.sub(r"\{[^}]*\}", "a-1", route.path))
        assert tried <= len(theirs)
