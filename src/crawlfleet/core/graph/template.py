"""Values with `${…}` in them: found when a document is read, filled in when a step begins.

A text that is one `${…}` becomes the value itself, whatever it is; within other text a value is
written out. `$${` stands for `${`.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from crawlfleet.core.graph.evaluation import Scope, evaluate
from crawlfleet.core.graph.functions import as_text
from crawlfleet.core.graph.syntax import BadExpression, Node, parse

_INSIDE: Final = re.compile(r"(?:[^'\"{}]|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")*", re.DOTALL)


class Whole(msgspec.Struct, frozen=True):
    """A text that is one expression."""

    node: Node


class Mixed(msgspec.Struct, frozen=True):
    """A text with expressions in it."""

    parts: tuple[str | Node, ...]


class Template(msgspec.Struct, frozen=True):
    """A value, and where in it something is filled in."""

    value: Any
    """With a `Whole` or a `Mixed` in the place of a text."""
    nodes: tuple[tuple[str, Node], ...]
    """The expressions, each with its path."""

    def fill(self, scope: Scope) -> Any:
        """The value as it is for a step; raises `BadExpression`."""
        return _filled(self.value, scope) if self.nodes else self.value


class BadTemplate(BadExpression):
    """An expression within a value that cannot be read, with its path."""

    def __init__(self, path: str, problem: BadExpression) -> None:
        self.path = path
        super().__init__(problem.message, problem.remedy)


def compiled(value: Any, path: str) -> Template:
    """The template of a value; raises `BadTemplate`."""
    nodes: list[tuple[str, Node]] = []
    return Template(_compiled(value, path, nodes), tuple(nodes))


def whole(text: str) -> Node:
    """The expression of a text that is one, with or without `${…}` around it."""
    stripped = text.strip()
    if stripped.startswith("${") and stripped.endswith("}"):
        stripped = stripped[2:-1]
    return parse(stripped)


def _compiled(value: Any, path: str, nodes: list[tuple[str, Node]]) -> Any:
    if isinstance(value, str):
        return _text(value, path, nodes) if "${" in value else value
    if isinstance(value, dict):
        return {name: _compiled(inner, f"{path}.{name}", nodes) for name, inner in value.items()}
    if isinstance(value, list):
        return [_compiled(inner, f"{path}[{at}]", nodes) for at, inner in enumerate(value)]
    return value


def _text(text: str, path: str, nodes: list[tuple[str, Node]]) -> Any:
    try:
        parts = [*_parts(text)]
    except BadExpression as problem:
        raise BadTemplate(path, problem) from problem
    found = [part for part in parts if isinstance(part, Node)]
    nodes += ((path, node) for node in found)
    if not found:
        return "".join(part for part in parts if isinstance(part, str))
    return Whole(found[0]) if len(parts) == 1 else Mixed(tuple(parts))


def _parts(text: str) -> Iterator[str | Node]:
    place = 0
    while (begin := text.find("${", place)) >= 0:
        if begin > place and text[begin - 1] == "$":
            yield text[place : begin - 1] + "${"
            place = begin + 2
            continue
        if begin > place:
            yield text[place:begin]
        found = _INSIDE.match(text, begin + 2)
        end = found.end() if found else begin + 2
        if text[end : end + 1] != "}":
            raise BadExpression("has a ${ without its }", "close it; $${ stands for ${ itself")
        yield parse(text[begin + 2 : end])
        place = end + 1
    if place < len(text):
        yield text[place:]


def _filled(value: Any, scope: Scope) -> Any:
    scope.charge(1)
    match value:
        case Whole(node=node):
            return evaluate(node, scope)
        case Mixed(parts=parts):
            texts = [
                as_text(evaluate(part, scope)) if isinstance(part, Node) else part for part in parts
            ]
            scope.charge(sum(map(len, texts)) // 16)
            return "".join(texts)
        case dict():
            return {name: _filled(inner, scope) for name, inner in value.items()}
        case list():
            return [_filled(inner, scope) for inner in value]
        case _:
            return value
