"""The API's reference page shows the route table: each route, its role, its fields, and no more."""

import json
import re
from pathlib import Path

import pytest

from crawlfleet.api.app import ROUTES
from crawlfleet.api.http.routing import ADMINS, NODES, OPERATORS, READERS, Nothing, Route

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "api.md").read_text("utf-8")
ROLES = {
    frozenset(): "anyone",
    READERS: "viewer",
    OPERATORS: "operator",
    NODES: "node",
    ADMINS: "admin",
    READERS | NODES: "viewer, or the node itself",
    OPERATORS | NODES: "operator, or the node itself",
}
SECTIONS = dict(re.findall(r"^### `([^`]+)`\n\n(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL))


def test_the_page_has_every_route_and_no_other() -> None:
    assert sorted(SECTIONS) == sorted(f"{route.method} {route.path}" for route in ROUTES)


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_a_route_is_described_as_the_table_has_it(route: Route) -> None:
    section = SECTIONS[f"{route.method} {route.path}"]

    assert section.startswith(f"{route.summary}. Role: {ROLES[route.roles]}.")
    for kind in (route.body, route.query):
        fields = () if kind is Nothing else kind.__struct_fields__
        assert set(fields) <= told(kind), f"{kind.__name__} has more fields than the page"


def told(kind: type) -> set[str]:
    """The fields that the page names where it describes routes that take this."""
    sections = [
        SECTIONS[f"{route.method} {route.path}"]
        for route in ROUTES
        if issubclass(kind, route.body) or issubclass(kind, route.query)
    ]
    return set(re.findall(r"[`\"?](\w+)[`\"=]", "".join(sections)))


def test_the_examples_of_the_table_are_those_of_the_page() -> None:
    shown = [json.loads(text) for text in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)]

    assert len(shown) >= 20
    for route in ROUTES:
        for example in (route.example.request, route.example.response):
            assert example is None or example in shown, route.name
