"""Writes the reference of the HTTP API, from the table of its routes; `make docs` runs it."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from crawlfleet.api.app import ROUTES
from crawlfleet.api.docs.openapi import describe
from crawlfleet.api.docs.sections import SECTIONS, section_of
from crawlfleet.api.http.bodies import JSON
from crawlfleet.api.http.routing import ADMINS, NODES, OPERATORS, READERS, Route

PAGE: Final = Path(__file__).parent / "reference" / "api.md"
HEAD: Final = """\
# The HTTP API

Every route with its fields and real requests and answers. [Using the HTTP API](../guides/api.md) \
has the rules for all routes: keys, problems, pages, versions, streams, and repeated requests. A \
running master serves its routes as `/api/openapi.json` for programs, and as a page at \
`/api/reference`. `python docs/api.py` writes this page.
"""
ROLES: Final = {
    frozenset(): "anyone",
    READERS: "viewer",
    OPERATORS: "operator",
    NODES: "node",
    ADMINS: "admin",
    READERS | NODES: "viewer, or the node itself",
    OPERATORS | NODES: "operator, or the node itself",
}
WIDTH: Final = 100
"""Examples that fit into so many characters are one line."""


def render() -> str:
    """The whole page."""
    document = describe(ROUTES, version="")
    parts = [HEAD]
    for section in SECTIONS:
        parts.append(f"## {section.title}\n\n{section.text}\n")
        parts += [_route(route, document) for route in ROUTES if section_of(route) == section.name]
    parts.append("## Types\n\nThe objects in requests and answers, by name.\n")
    schemas = document["components"]["schemas"]
    bodies = {route.body.__name__ for route in ROUTES}
    for name, schema in schemas.items():
        if name not in bodies or name in _referred_to(document):
            parts.append(f"### `{name}`\n\n{''.join(_type(schema))}")
    return "\n".join(parts)


def _route(route: Route, document: Mapping[str, Any]) -> str:
    operation = document["paths"][route.path][route.method.lower()]
    details = f" {route.details}" if route.details else ""
    parts = [
        f"### `{route.method} {route.path}`\n",
        f"{route.summary}. Role: {ROLES[route.roles]}.{details}\n",
    ]
    if hints := _hints(route):
        parts.append(f"{hints}\n")
    queries = [each for each in operation["parameters"] if each["in"] == "query"]
    if queries:
        rows = [
            _row(each["name"], each["schema"], each["description"], each["required"])
            for each in queries
        ]
        parts.append(_table("parameter", rows))
    if "requestBody" in operation:
        schema = operation["requestBody"]["content"][JSON]["schema"]
        name = schema["$ref"].rpartition("/")[2]
        parts.append(f"Request, `{name}`:\n")
        parts.append(_fields(document["components"]["schemas"][name]))
    if route.example.request is not None:
        parts.append(_example(route.example.request))
    statuses = ", ".join(str(int(status)) for status in route.statuses)
    for media_type, content in operation["responses"][str(int(route.statuses[0]))][
        "content"
    ].items():
        kind = _kind(content["schema"]) if media_type == JSON else f"`{media_type}`"
        parts.append(f"Answer ({statuses}): {kind}\n")
    if route.example.response is not None:
        parts.append(_example(route.example.response))
    return "\n".join(parts)


def _hints(route: Route) -> str:
    hints = [
        f"Python: `fleet.{route.client}`." if route.client else "",
        f"Command: `crawlfleet {route.command}`." if route.command else "",
        _version(route) if route.etag else "",
    ]
    return " ".join(hint for hint in hints if hint)


def _version(route: Route) -> str:
    header = "The answer has an `ETag`" if route.method == "GET" else "Takes `If-Match`"
    return f"{header} ([versions](../guides/api.md#versions))."


def _type(schema: Mapping[str, Any]) -> Iterator[str]:
    if text := schema.get("description"):
        yield f"{_line(text)}\n\n"
    if "enum" in schema:
        yield f"One of {_values(schema['enum'])}.\n"
        return
    yield _fields(schema)


def _fields(schema: Mapping[str, Any]) -> str:
    needed = schema.get("required", ())
    rows = [
        _row(name, own, own.get("description", ""), name in needed)
        for name, own in schema.get("properties", {}).items()
    ]
    return _table("field", rows) if rows else "It has no fields.\n"


def _referred_to(document: Mapping[str, Any]) -> set[str]:
    """The names of the types that other types or answers consist of."""
    answers = [
        operation["responses"]
        for methods in document["paths"].values()
        for operation in methods.values()
    ]
    text = json.dumps([answers, document["components"]["schemas"]])
    return set(re.findall(r"#/components/schemas/(\w+)", text))


def _table(noun: str, rows: list[str]) -> str:
    return f"| {noun} | type | default | |\n|---|---|---|---|\n{''.join(rows)}"


def _row(name: str, schema: Mapping[str, Any], text: str, needed: bool) -> str:
    default = schema.get("default")
    shown = "needed" if needed else "" if default is None else f"`{json.dumps(default)}`"
    cells = (f"`{name}`", _kind(schema), shown, _line(text))
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |\n"


def _kind(schema: Mapping[str, Any]) -> str:
    """A type in a few words."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[`{name}`](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(_kind(each) for each in schema["anyOf"])
    if "enum" in schema:
        return _values(schema["enum"])
    if schema.get("type") == "array":
        most = f", at most {schema['maxItems']:,}" if "maxItems" in schema else ""
        return f"list of {_kind(schema.get('items', {}))}{most}"
    inner = schema.get("additionalProperties")
    if schema.get("type") == "object" and isinstance(inner, dict):
        return f"object of {_kind(inner)}"
    kind = str(schema.get("format", schema.get("type", "any JSON")))
    if "maxLength" in schema:
        return f"{kind}, at most {schema['maxLength']:,} characters"
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None:
        return f"{kind}, {_number(low)} to {_number(high)}"
    return kind if low is None else f"{kind}, at least {_number(low)}"


def _number(value: float) -> str:
    return f"{int(value):,}" if value == int(value) else f"{value:g}"


def _values(values: list[Any]) -> str:
    return ", ".join(f"`{json.dumps(each) if each is None else each}`" for each in values)


def _example(value: Any) -> str:
    return f"```json\n{_json(value)}\n```\n"


def _json(value: Any, indent: str = "") -> str:
    """JSON that keeps what is short on one line."""
    flat = json.dumps(value, ensure_ascii=False)
    if len(indent) + len(flat) <= WIDTH or not isinstance(value, dict | list) or not value:
        return flat
    inner = indent + "  "
    if isinstance(value, dict):
        lines = [f"{inner}{json.dumps(key)}: {_json(each, inner)}" for key, each in value.items()]
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
    return "[\n" + ",\n".join(inner + _json(each, inner) for each in value) + f"\n{indent}]"


def _line(text: str) -> str:
    return re.sub(r"\s+", " ", text)


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
