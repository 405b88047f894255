"""The description of the API: valid, whole, and true to the types that it describes."""

import re
from html.parser import HTMLParser
from typing import Any, Final

import msgspec
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from crawlfleet import __version__
from crawlfleet.api.app import ROUTES
from crawlfleet.api.docs import html
from crawlfleet.api.docs.openapi import PROBLEMS
from crawlfleet.api.http.decoding import decode_body
from crawlfleet.api.http.routing import Nothing, Route
from crawlfleet.errors import InvalidRequest
from tests.api.description import DOCUMENT
from tests.api.plain_http import Master

OPERATIONS: Final = {
    (method.upper(), path): operation
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
}

by_route = pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)


def of(route: Route) -> dict[str, Any]:
    return OPERATIONS[route.method, route.path]


def test_the_document_is_valid_openapi() -> None:
    assert [*OpenAPIV31SpecValidator(DOCUMENT).iter_errors()] == []


def test_every_route_is_one_operation_with_a_name_of_its_own() -> None:
    assert {(route.method, route.path) for route in ROUTES} == set(OPERATIONS)
    assert len({operation["operationId"] for operation in OPERATIONS.values()}) == len(ROUTES)


@by_route
def test_an_operation_tells_its_parameters_and_what_they_mean(route: Route) -> None:
    told = {each["name"]: each for each in of(route)["parameters"] if each["in"] != "header"}

    wanted = set(re.findall(r"\{(\w+)\}", route.path)) | set(route.query.__struct_fields__)
    assert set(told) == wanted
    assert all(each["description"] for each in told.values())
    assert ("requestBody" in of(route)) == (route.body is not Nothing)


def test_a_body_may_be_left_out_where_none_of_its_fields_is_needed() -> None:
    for route in ROUTES:
        if route.body is not Nothing:
            try:
                decode_body(b"", route.body)
            except InvalidRequest:
                is_needed = True
            else:
                is_needed = False
            assert of(route)["requestBody"]["required"] is is_needed, route.name


@by_route
def test_an_operation_tells_who_may_and_how_it_may_be_refused(route: Route) -> None:
    operation = of(route)
    refused = {int(code) for code, answer in operation["responses"].items() if "$ref" in answer}

    assert 422 in refused
    is_guarded = bool(route.roles) or route.signs_in
    assert {401, 403} <= refused if is_guarded else {401, 403}.isdisjoint(refused)
    assert ({400, 413, 415} <= refused) == (route.method != "GET")
    assert (412 in refused) == (route.etag and route.method != "GET")
    assert (404 in refused) == ("{" in route.path)
    assert refused <= set(map(int, PROBLEMS))
    assert all(role in operation["description"] for role in route.roles - {"node"})
    assert bool(operation["security"]) == bool(route.roles)


@by_route
def test_an_example_is_what_the_types_say(route: Route) -> None:
    request, response = route.example.request, route.example.response
    if request is not None:
        msgspec.json.decode(msgspec.json.encode(request), type=route.body)
    if response is not None:
        known = msgspec.json.decode(msgspec.json.encode(response), type=route.response)
        assert msgspec.json.decode(msgspec.json.encode(known)) == response


class Seen(HTMLParser):
    """What a page is made of."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.attributes: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.tags.add(tag)
        self.attributes |= set(given)
        self.links += [given[name] for name in ("href", "src") if name in given]
        self.anchors |= {given["id"]} if "id" in given else set()


def test_the_page_shows_every_operation_and_loads_nothing() -> None:
    seen = Seen(html.draw(DOCUMENT))

    assert {route.name for route in ROUTES} <= seen.anchors
    assert {link[1:] for link in seen.links if link.startswith("#")} <= seen.anchors
    assert {link for link in seen.links if not link.startswith("#")} == {"/api/openapi.json"}
    assert seen.tags.isdisjoint({"script", "link", "img", "iframe", "object", "form"})
    assert seen.attributes.isdisjoint({"style", "src", "onclick", "onload"})
    assert "url(" not in html.STYLE
    assert "@import" not in html.STYLE


def test_the_page_cannot_be_made_to_run_anything() -> None:
    hostile = "<script>alert(1)</script>"
    document = {**DOCUMENT, "info": {**DOCUMENT["info"], "title": hostile, "description": hostile}}

    assert "script" not in Seen(html.draw(document)).tags
    policy = html.HEADERS["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy


@pytest.mark.slow
@pytest.mark.xdist_group("api openapi")
def test_the_master_serves_both_to_anyone(master: Master) -> None:
    document = master.call("GET", "/api/openapi.json", key=None)
    reference = master.call("GET", "/api/reference", key=None)

    served = document.expect(200)
    assert served["paths"] == DOCUMENT["paths"]
    assert served["info"]["version"] == __version__
    assert reference.status == 200
    assert reference.headers["content-type"] == "text/html; charset=utf-8"
    for name, value in html.HEADERS.items():
        assert reference.headers[name.lower()] == value
    assert {route.name for route in ROUTES} <= Seen(reference.content.decode()).anchors
