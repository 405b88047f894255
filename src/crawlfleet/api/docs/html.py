"""An OpenAPI document as one page to read: plain HTML, no script, nothing loaded from anywhere."""

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from typing import Any, Final

STYLE: Final = """
:root { color-scheme: light dark; --line: #8884; --soft: #8882; --mark: #2563eb; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 0; display: grid;
  grid-template-columns: minmax(15rem, 20rem) minmax(0, 56rem); gap: 2.5rem; }
nav { position: sticky; top: 0; height: 100vh; overflow: auto; box-sizing: border-box;
  padding: 1.5rem; border-right: 1px solid var(--line); font-size: 13px; }
nav ul { list-style: none; margin: 0 0 1rem; padding: 0; }
nav a { display: block; padding: .15rem 0; color: inherit; text-decoration: none; }
nav a:hover { color: var(--mark); }
main { padding: 1.5rem 1.5rem 6rem; }
h2 { margin-top: 3rem; border-bottom: 1px solid var(--line); }
article { margin: 2.5rem 0; scroll-margin-top: 1rem; }
h3 { font: 600 15px/1.4 ui-monospace, monospace; overflow-wrap: anywhere; }
code, pre { font-family: ui-monospace, monospace; font-size: .92em; }
code, pre { background: var(--soft); border-radius: 4px; }
code { padding: .1em .3em; } pre { padding: .8rem; overflow: auto; }
table { border-collapse: collapse; width: 100%; margin: .5rem 0; }
th, td { text-align: left; vertical-align: top; padding: .3rem .8rem .3rem 0;
  border-bottom: 1px solid var(--line); }
summary { cursor: pointer; }
.method { display: inline-block; min-width: 3.2em; color: var(--mark); font-weight: 700; }
@media (max-width: 60rem) { body { display: block; } nav { position: static; height: auto; } }
"""
_STYLE_HASH: Final = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; "
    f"style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_CODE: Final = re.compile(r"`([^`]+)`")
_STRONG: Final = re.compile(r"\*\*([^*]+)\*\*")


def draw(document: Mapping[str, Any]) -> str:
    """The page for a document."""
    info = document["info"]
    title = escape(f"{info['title']} {info['version']}")
    tagged = {tag["name"]: [*_operations(document, tag["name"])] for tag in document["tags"]}
    parts = [
        "<!doctype html>",
        f'<html lang="en"><head><meta charset="utf-8"><title>{title}: the API</title>',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<style>{STYLE}</style></head><body>",
        f"<nav><p><strong>{title}</strong></p>{''.join(_menu(tagged))}</nav>",
        f"<main><h1>{title}: the API</h1>{_paragraphs(info['description'])}",
        '<p>The same for programs: <a href="/api/openapi.json">openapi.json</a>.</p>',
    ]
    for tag in document["tags"]:
        name = tag["name"]
        parts.append(f'<h2 id="{_anchor(name)}">{escape(name)}</h2>{_text(tag["description"])}')
        parts += [_article(*operation) for operation in tagged[name]]
    parts.append('<h2 id="problems">Problems</h2>')
    parts += [_table(("status", ""), _problems(document["components"]["responses"]))]
    parts.append('<h2 id="types">Types</h2>')
    parts += [_type(*each) for each in document["components"]["schemas"].items()]
    return "\n".join([*parts, "</main></body></html>"])


def _operations(document: Mapping[str, Any], tag: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if tag in operation["tags"]:
                yield method.upper(), path, operation


def _menu(tagged: Mapping[str, Iterable[tuple[str, str, dict[str, Any]]]]) -> Iterator[str]:
    for tag, operations in tagged.items():
        yield f'<p><a href="#{_anchor(tag)}">{escape(tag)}</a></p><ul>'
        for method, path, operation in operations:
            yield (
                f'<li><a href="#{_anchor(operation["operationId"])}">'
                f'<span class="method">{method}</span> {escape(path)}</a></li>'
            )
        yield "</ul>"
    yield '<p><a href="#problems">problems</a></p><p><a href="#types">types</a></p>'


def _article(method: str, path: str, operation: Mapping[str, Any]) -> str:
    summary, description = _inline(operation["summary"]), _inline(operation["description"])
    parts = [
        f'<article id="{_anchor(operation["operationId"])}">',
        f'<h3><span class="method">{method}</span> {escape(path)}</h3>',
        f"<p><strong>{summary}.</strong> {description}</p>",
    ]
    if operation["parameters"]:
        rows = [
            (f"<code>{escape(each['name'])}</code>", each["in"], *_described(each, each["schema"]))
            for each in operation["parameters"]
        ]
        parts.append(_table(("parameter", "in", "type", "default", ""), rows))
    if body := operation.get("requestBody"):
        parts.append(_content("Request", body["content"]))
    for status, answer in operation["responses"].items():
        if "content" in answer:
            parts.append(_content(f"{status} {answer['description']}", answer["content"]))
    refusals = [status for status, answer in operation["responses"].items() if "$ref" in answer]
    parts.append(f'<p>Or a <a href="#problems">problem</a>: {", ".join(refusals)}.</p>')
    return "".join([*parts, "</article>"])


def _content(title: str, content: Mapping[str, Any]) -> str:
    parts = []
    for kind, answer in content.items():
        parts.append(
            f"<p>{escape(title)}: <code>{escape(kind)}</code>, {_kind(answer['schema'])}</p>"
        )
        if "example" in answer:
            shown = json.dumps(answer["example"], indent=2, ensure_ascii=False)
            parts.append(f"<details><summary>Example</summary><pre>{escape(shown)}</pre></details>")
    return "".join(parts)


def _type(name: str, schema: Mapping[str, Any]) -> str:
    head = f'<article id="{_anchor("type-" + name)}"><h3>{escape(name)}</h3>'
    head += _text(schema.get("description", ""))
    if "enum" in schema:
        return f"{head}<p>One of {_values(schema['enum'])}.</p></article>"
    needed = schema.get("required", ())
    rows = [
        (
            f"<code>{escape(field)}</code>{' (needed)' if field in needed else ''}",
            *_described(own, own),
        )
        for field, own in schema.get("properties", {}).items()
    ]
    return f"{head}{_table(('field', 'type', 'default', ''), rows)}</article>"


def _described(described: Mapping[str, Any], schema: Mapping[str, Any]) -> tuple[str, str, str]:
    """Type, default and text of a field or parameter."""
    default = schema.get("default")
    shown = "" if default is None else f"<code>{escape(json.dumps(default))}</code>"
    return _kind(schema), shown, _inline(described.get("description", ""))


def _kind(schema: Mapping[str, Any]) -> str:
    """A type in a few words."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f'<a href="#{_anchor("type-" + name)}">{escape(name)}</a>'
    if "anyOf" in schema:
        return " or ".join(_kind(each) for each in schema["anyOf"])
    if "enum" in schema:
        return _values(schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    inner = schema.get("additionalProperties")
    if schema.get("type") == "object" and isinstance(inner, dict):
        return f"object of {_kind(inner)}"
    limits = [
        f"{sign} {schema[name]:g}"
        for name, sign in (("minimum", "≥"), ("maximum", "≤"))
        if name in schema
    ]
    return escape(" ".join([str(schema.get("format", schema.get("type", "any JSON"))), *limits]))


def _values(values: Iterable[Any]) -> str:
    return ", ".join(f"<code>{escape(str(value))}</code>" for value in values)


def _problems(responses: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for status, answer in responses.items():
        yield status, _inline(answer["description"])


def _table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _paragraphs(text: str) -> str:
    return "".join(_text(each) for each in text.strip().split("\n\n"))


def _text(text: str) -> str:
    return f"<p>{_inline(text)}</p>" if text else ""


def _inline(text: str) -> str:
    """The little Markdown that descriptions use."""
    return _STRONG.sub(r"<strong>\1</strong>", _CODE.sub(r"<code>\1</code>", escape(text)))


def _anchor(name: str) -> str:
    return escape(name, quote=True)
