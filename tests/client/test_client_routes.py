"""The client has a method for every route that is not spoken by nodes, with the route's answer."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from crawlfleet.api.app import ROUTES
from crawlfleet.api.http.routing import Route
from crawlfleet.client import Client
from crawlfleet.model.key import Role

NAMES: dict[str, Any] = {
    **{name: "x" for route in ROUTES for name in re.findall(r"\{(\w+)\}", route.path)},
    "archive": b"PK",
    "document": {"name": "shop", "steps": {}},
    "task": {"task_type": "sleep"},
    "since": datetime(2026, 11, 15, tzinfo=UTC),
    "until": datetime(2026, 11, 16, tzinfo=UTC),
}
"""What the calls that the table names may use."""
Use = Callable[[Client], Any]


OF_ANOTHER_API = "/api/distribution/"
"""Has a client of its own, elsewhere; ours speaks `/api/v1`."""
FOR_BROWSERS = {"open_session", "close_session"}
"""A program shows its key with each request, and keeps no cookie."""


def is_spoken_by_nodes(route: Route) -> bool:
    """Whether only nodes (and admins, who may everything) ask for it."""
    return route.roles == {Role.NODE, Role.ADMIN}


class Sent(Exception):
    """What a client was about to send."""

    def __init__(self, method: str, path: str, type: Any, options: dict[str, Any]) -> None:
        self.method, self.path, self.type, self.options = method, path, type, options
        super().__init__(method, path)


class Recorder:
    """In place of the transport."""

    async def call(self, method: str, path: str, type: Any, **options: Any) -> Any:
        raise Sent(method, path, type, options)

    async def chunks(self, path: str, **options: Any) -> Any:
        raise Sent("GET", path, str, options)
        yield b""


def sent(use: Use) -> Sent:
    async def scenario() -> None:
        client = Client("http://127.0.0.1:9", "k", patience_s=0)
        client._transport = Recorder()
        found = use(client)
        if isinstance(found, AsyncIterator):
            await anext(found)
        else:
            await found

    with pytest.raises(Sent) as caught:
        asyncio.run(scenario())
    return caught.value


def called(route: Route) -> Use:
    """The call that the table names for a route."""
    call = compile(f"fleet.{route.client}", route.name, "eval")
    return lambda fleet: eval(call, {**NAMES, "fleet": fleet})


def test_every_route_for_people_has_a_method() -> None:
    wanted = {
        route.name
        for route in ROUTES
        if not is_spoken_by_nodes(route) and not route.path.startswith(OF_ANOTHER_API)
    }
    assert wanted == {route.name for route in ROUTES if route.client} | FOR_BROWSERS


@pytest.mark.parametrize(
    "route", [route for route in ROUTES if route.client], ids=lambda route: route.name
)
def test_a_method_asks_for_its_route_and_expects_its_answer(route: Route) -> None:
    asked = sent(called(route))

    assert asked.method == route.method
    assert re.fullmatch(re.sub(r"\{\w+\}", "[^/:]+", route.path), asked.path), asked.path
    assert asked.type == route.response
    body = asked.options.get("body")
    assert set(body or ()) <= set(route.body.__struct_fields__)
    assert set(asked.options.get("query") or ()) <= set(route.query.__struct_fields__)


def test_a_version_becomes_a_header() -> None:
    for use in (
        lambda fleet: fleet.change_project("x", name="Y", if_version=2),
        lambda fleet: fleet.act("x", "cancel", if_version=2),
        lambda fleet: fleet.order("x", "drain", if_version=2),
        lambda fleet: fleet.roll_back_cluster("x", 1, if_version=2),
    ):
        assert sent(use).options["headers"] == {"If-Match": '"2"'}


def test_an_id_cannot_leave_its_place_in_the_path() -> None:
    assert sent(lambda fleet: fleet.task("a/b?c:d")).path == "/api/v1/tasks/a%2Fb%3Fc%3Ad"
