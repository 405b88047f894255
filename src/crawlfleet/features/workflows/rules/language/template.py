"""Values with `${…}` in them: found when a document is read, filled in when a step begins.

A text that is one `${…}` becomes the value itself, whatever it is; within other text a value is
written out. `$${` stands for `${`. A reference to a secret, `${secret:NAME}`, stays as it is, and
has to stand in the document: no value that is filled in may bring one along.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from crawlfleet.core.tasks.credentials import BEGIN, REFERENCE
from crawlfleet.features.workflows.rules.language.evaluation import ExpressionScope, evaluate
from crawlfleet.features.workflows.rules.language.functions import as_text
from crawlfleet.features.workflows.rules.language.syntax import BadExpression, Expression, parse

_INSIDE: Final = re.compile(r"(?:[^'\"{}]|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")*", re.DOTALL)


BYTES_FOR_ONE: Final = 512
"""Bytes of output that cost one unit of work."""
IN_A_SINK: Final = "keep large results in a sink, and pass on where they are"


class Whole(msgspec.Struct, frozen=True):
    """A text that is one expression."""

    node: Expression


class Mixed(msgspec.Struct, frozen=True):
    """A text with expressions in it."""

    parts: tuple[str | Expression, ...]


class Template(msgspec.Struct, frozen=True):
    """A JSON value with expressions to fill in."""

    value: Any
    """The value, with a `Whole` or a `Mixed` in place of each text that has expressions."""
    nodes: tuple[tuple[str, Expression], ...]
    """The expressions, each with its path."""

    def fill(self, scope: ExpressionScope, room: "Room | None" = None) -> Any:
        """Return the value with its expressions filled in; raises `BadExpression`.

        With `room`, the size of the filled-in values is counted as they are written.
        """
        return _filled(self.value, scope, room) if self.nodes else self.value


class Room(msgspec.Struct):
    """A limit on the bytes that may be filled in."""

    most: int
    used: int = 0

    def take(self, size: int) -> None:
        """Count some bytes; raises `BadExpression` when the limit is exceeded."""
        self.used += size
        if self.used > self.most:
            raise BadExpression(f"come to more than {self.most} bytes", IN_A_SINK)


class BadTemplate(BadExpression):
    """Raised for a faulty expression within a value, with its path."""

    def __init__(self, path: str, problem: BadExpression) -> None:
        self.path = path
        super().__init__(problem.message, problem.remedy)


def compiled(value: Any, path: str) -> Template:
    """The template of a value; raises `BadTemplate`."""
    nodes: list[tuple[str, Expression]] = []
    return Template(_compiled(value, path, nodes), tuple(nodes))


def whole(text: str) -> Expression:
    """The expression of a text that is one, with or without `${…}` around it."""
    stripped = text.strip()
    if stripped.startswith("${") and stripped.endswith("}"):
        stripped = stripped[2:-1]
    return parse(stripped)


def _compiled(value: Any, path: str, nodes: list[tuple[str, Expression]]) -> Any:
    if isinstance(value, str):
        return _text(value, path, nodes) if "${" in value else value
    if isinstance(value, dict):
        return {name: _compiled(inner, f"{path}.{name}", nodes) for name, inner in value.items()}
    if isinstance(value, list):
        return [_compiled(inner, f"{path}[{at}]", nodes) for at, inner in enumerate(value)]
    return value


def _text(text: str, path: str, nodes: list[tuple[str, Expression]]) -> Any:
    try:
        parts = [*_parts(text)]
    except BadExpression as problem:
        raise BadTemplate(path, problem) from problem
    found = [part for part in parts if isinstance(part, Expression)]
    nodes += ((path, node) for node in found)
    if not found:
        return "".join(part for part in parts if isinstance(part, str))
    return Whole(found[0]) if len(parts) == 1 else Mixed(tuple(parts))


def _parts(text: str) -> Iterator[str | Expression]:
    place = 0
    while (begin := text.find("${", place)) >= 0:
        if begin > place and text[begin - 1] == "$":
            yield text[place : begin - 1] + "${"
            place = begin + 2
            continue
        if begin > place:
            yield text[place:begin]
        if reference := REFERENCE.match(text, begin):
            yield reference[0]
            place = reference.end()
            continue
        found = _INSIDE.match(text, begin + 2)
        end = found.end() if found else begin + 2
        if text[end : end + 1] != "}":
            raise BadExpression("has a ${ without its }", "close it; $${ stands for ${ itself")
        yield parse(text[begin + 2 : end])
        place = end + 1
    if place < len(text):
        yield text[place:]


def _filled(value: Any, scope: ExpressionScope, room: Room | None) -> Any:
    scope.charge(1)
    match value:
        case Whole(node=node):
            found = evaluate(node, scope)
            encoded = msgspec.json.encode(found)
            if BEGIN.encode() in encoded:
                raise _brought_along()
            if room is not None:
                size = len(encoded)
                scope.charge(size // BYTES_FOR_ONE)
                room.take(size)
            return found
        case Mixed(parts=parts):
            text = "".join(_texts(parts, scope, room))
            meant = [name for part in parts if isinstance(part, str) for name in _names(part)]
            if text.count(BEGIN) != len(meant) or _names(text) != meant:
                raise _brought_along()
            return text
        case dict():
            return {name: _filled(inner, scope, room) for name, inner in value.items()}
        case list():
            return [_filled(inner, scope, room) for inner in value]
        case _:
            return value


def _brought_along() -> BadExpression:
    return BadExpression(
        "comes to a reference to a secret, which has to stand in the document itself",
        "write ${secret:NAME} where it is needed, and compute none",
    )


def _names(text: str) -> list[str]:
    """The secrets that a text refers to."""
    return REFERENCE.findall(text)


def _texts(
    parts: tuple[str | Expression, ...], scope: ExpressionScope, room: Room | None
) -> Iterator[str]:
    """Each is counted before the next is made."""
    for part in parts:
        text = as_text(evaluate(part, scope)) if isinstance(part, Expression) else part
        scope.charge(len(text) // 16)
        if room is not None:
            room.take(len(text))
        yield text
