"""The route table as an OpenAPI 3.1 document.

Everything in it comes from the table and its types; fields are described by their docstrings.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

import msgspec

from crawlfleet.api.docs.field_docs import add_notes, field_notes
from crawlfleet.api.docs.sections import SECTIONS, section_of, without_links
from crawlfleet.api.http.bodies import JSON
from crawlfleet.api.http.browser import COOKIE, CSRF
from crawlfleet.api.http.etags import header_parameter
from crawlfleet.api.http.parameters import MAX_ID_CHARACTERS
from crawlfleet.api.http.problems import MEDIA_TYPE
from crawlfleet.api.http.routing import Nothing, Route
from crawlfleet.api.http.streaming import STREAM
from crawlfleet.model.key import Role
from crawlfleet.views.problems import Problem

PROBLEMS: Final = {
    HTTPStatus.BAD_REQUEST: "Not JSON, not UTF-8, or nested too deeply",
    HTTPStatus.UNAUTHORIZED: "No key, or one that is not (or no longer) valid",
    HTTPStatus.FORBIDDEN: "The key's role or project may not do this, a node meant another node, "
    "or nobody may ask from this address",
    HTTPStatus.NOT_FOUND: "No such thing, or no such path",
    HTTPStatus.METHOD_NOT_ALLOWED: "Not with this method; `Allow` lists those of this path",
    HTTPStatus.CONFLICT: "It contradicts the present state, which `detail` names",
    HTTPStatus.PRECONDITION_FAILED: "It is in another version than `If-Match` names",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "Send less at once",
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: "Send `application/json`",
    HTTPStatus.UNPROCESSABLE_ENTITY: "See `errors`, which name each field and what to do",
    HTTPStatus.TOO_MANY_REQUESTS: "Too many wrong keys from this address; wait for `Retry-After`",
    HTTPStatus.SERVICE_UNAVAILABLE: "Will pass; try again after `Retry-After`",
}
"""Description of each error status."""
_DESCRIPTION: Final = """\
Everything that the command line and the nodes do goes through these routes.

A request that is refused has changed nothing; it is answered with a problem document (RFC 9457). \
Every request may be sent again when no answer came. A path knows only its own methods: another \
is answered with 405, and an unknown path with 404.
"""
_REF: Final = "#/components/schemas/{name}"
_PARAMETER: Final = re.compile(r"\{(\w+)\}")
_THING: Final = re.compile(r"(\w+)_id")


def describe(routes: Sequence[Route], *, version: str) -> dict[str, Any]:
    """The document for all routes."""
    types = [Problem, *(kind for route in routes for kind in (route.body, route.response))]
    schemas, components = msgspec.json.schema_components(types, ref_template=_REF)
    add_notes(types, components)
    components.pop(Nothing.__name__)
    schema_of = dict(zip(types, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, schema_of)
    document = {
        "openapi": "3.1.0",
        "info": {
            "title": "crawlfleet",
            "version": version,
            "summary": "A fleet of crawlers",
            "description": _DESCRIPTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/", "description": "this master"}],
        "tags": [{"name": each.name, "description": without_links(each.text)} for each in SECTIONS],
        "paths": paths,
        "components": {
            "schemas": dict(sorted(components.items())),
            "responses": {_code(status): _problem(status) for status in PROBLEMS},
            "securitySchemes": {
                "key": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "`Authorization: Bearer KEY`",
                },
                "session": {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": COOKIE,
                    "description": "For browsers, from `POST /api/v1/session`. What changes "
                    f"something also needs `{CSRF}`, with what that answered as `csrf`, and an "
                    "`Origin` that is this master's.",
                },
            },
        },
    }
    # As a reader of the JSON would have it: defaults are tuples and structs until then.
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(document))
    return plain


def _operation(route: Route, schema_of: Mapping[Any, dict[str, Any]]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": route.name,
        "tags": [section_of(route)],
        "summary": route.summary,
        "description": " ".join(
            part for part in (without_links(route.details), _who(route)) if part
        ),
        "parameters": [
            *_path_parameters(route),
            *_query_parameters(route),
            *([header_parameter(route.method)] if route.etag else []),
        ],
        "responses": _responses(route, schema_of[route.response]),
        "security": [{"key": []}, {"session": []}] if route.roles else [],
    }
    if route.body is not Nothing:
        operation["requestBody"] = {
            # Nothing is read as an object without members.
            "required": any(field.required for field in msgspec.structs.fields(route.body)),
            "content": {JSON: _content(JSON, schema_of[route.body], route.example.request)},
        }
    return operation


def _responses(route: Route, response: dict[str, Any]) -> dict[str, Any]:
    answers: dict[str, Any] = {
        _code(status): {
            "description": status.phrase,
            "content": {
                kind: _content(kind, response, None if place else route.example.response)
                for kind in route.media_types
            },
        }
        for place, status in enumerate(route.statuses)
    }
    if route.etag and route.method == "GET":
        answers[_code(HTTPStatus.NOT_MODIFIED)] = {"description": "Nothing is new"}
    for status in problems_of(route):
        answers.setdefault(_code(status), {"$ref": f"#/components/responses/{_code(status)}"})
    return dict(sorted(answers.items()))


def problems_of(route: Route) -> Iterator[HTTPStatus]:
    """The refusals that a route may answer with."""
    yield HTTPStatus.UNPROCESSABLE_ENTITY
    if route.method != "GET":
        yield HTTPStatus.BAD_REQUEST
        yield HTTPStatus.REQUEST_ENTITY_TOO_LARGE
        yield HTTPStatus.UNSUPPORTED_MEDIA_TYPE
    if route.roles or route.signs_in:
        yield HTTPStatus.UNAUTHORIZED
        yield HTTPStatus.FORBIDDEN
        yield HTTPStatus.TOO_MANY_REQUESTS
        yield HTTPStatus.SERVICE_UNAVAILABLE
    if _PARAMETER.search(route.path):
        yield HTTPStatus.NOT_FOUND
    if route.conflicts:
        yield HTTPStatus.CONFLICT
    if route.etag and route.method != "GET":
        yield HTTPStatus.PRECONDITION_FAILED


def _problem(status: HTTPStatus) -> dict[str, Any]:
    content = {MEDIA_TYPE: {"schema": {"$ref": _REF.format(name=Problem.__name__)}}}
    return {"description": PROBLEMS[status], "content": content}


def _content(kind: str, schema: dict[str, Any], example: Any) -> dict[str, Any]:
    if kind == STREAM:
        return {"schema": {}}  # a text for some readers, a list of events for others
    if kind != JSON:
        return {"schema": {"type": "string"}}
    return {"schema": schema} if example is None else {"schema": schema, "example": example}


def _path_parameters(route: Route) -> Iterator[dict[str, Any]]:
    for name in _PARAMETER.findall(route.path):
        thing = _THING.fullmatch(name)
        yield {
            "name": name,
            "in": "path",
            "required": True,
            "description": f"Of the {thing[1] if thing else name}.",
            "schema": {"type": "string", "pattern": "^[^/:]+$", "maxLength": MAX_ID_CHARACTERS},
        }


def _query_parameters(route: Route) -> Iterator[dict[str, Any]]:
    kinds = msgspec.json.schema_components([route.query], ref_template="{name}")[1]
    query = kinds[route.query.__name__]
    notes = field_notes(route.query)
    for name, schema in query["properties"].items():
        yield {
            "name": name,
            "in": "query",
            "required": name in query["required"],
            "description": notes.get(name, ""),
            "schema": _without_null(_spelt_out(schema, kinds)),
        }


def _spelt_out(schema: dict[str, Any], kinds: Mapping[str, Any]) -> dict[str, Any]:
    """An enumeration in its place: a query refers to nothing."""
    rest = {key: value for key, value in schema.items() if key != "$ref"}
    if "$ref" not in schema:
        return schema
    return {"type": "string", "enum": kinds[schema["$ref"]]["enum"], **rest}


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Remove `null` from the schema of a query parameter: a parameter that is left out is not
    set."""
    kinds = [kind for kind in schema.get("anyOf", ()) if kind != {"type": "null"}]
    if not kinds:
        return schema
    rest = {
        key: value
        for key, value in schema.items()
        if key != "anyOf" and (key, value) != ("default", None)
    }
    return {**kinds[0], **rest} if len(kinds) == 1 else {"anyOf": kinds, **rest}


def _who(route: Route) -> str:
    if not route.roles:
        return "No key is needed."
    people = [role for role in (Role.VIEWER, Role.OPERATOR, Role.ADMIN) if role in route.roles]
    own = ["the node itself"] if Role.NODE in route.roles else []
    names = " or ".join([f"**{role}**" for role in people] + own)
    return f"Role: {names}."


def _code(status: HTTPStatus) -> str:
    return str(int(status))
