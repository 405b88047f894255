"""The API's reference page shows the route table: each route, its role, its fields, and no more."""

import json
import re
from pathlib import Path

import pytest

from crawlfleet.api.app import ROUTES
from crawlfleet.api.routing import NODES, OPERATORS, READERS, Nothing, Route

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "api.md").read_text("utf-8")
ROLES = {
    frozenset(): "anyone",
    READERS: "viewer",
    OPERATORS: "operator",
    NODES: "node",
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
    told = set(re.findall(r"[`\"?](\w+)[`\"=]", section))
    for kind in (route.body, route.query):
        fields = () if kind is Nothing else kind.__struct_fields__
        assert set(fields) <= told, f"{kind.__name__} has more fields than the page"


def test_every_example_is_json() -> None:
    examples = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)

    assert len(examples) >= 20
    for example in examples:
        json.loads(example)
