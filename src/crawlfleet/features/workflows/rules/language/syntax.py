"""The language of conditions and values: from text to a tree.

It is small on purpose: fields, comparisons, arithmetic, `and`, `or`, `not`, lists, and a handful of
functions. There are no loops, no definitions and no way out of the values that it is given, and
both the length of a text and the depth of its tree are bounded. `evaluation` computes it.
"""

import re
from typing import Any, Final

import msgspec

MAX_EXPRESSION_CHARS: Final = 2_000
DEEPEST: Final = 40
LARGEST: Final = 2**53
"""Whole numbers beyond it are not the same everywhere, and could be made as long as one likes."""
ROOTS: Final = ("steps", "parameters", "item", "index", "run")

_TOKEN: Final = re.compile(
    r"\s*(?:(?P<number>[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<text>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")"
    r"|(?P<sign>==|!=|<=|>=|\[\*\]|[<>()\[\],.+*/%-]))",
    re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r"}
_CONSTANTS: Final = {"true": True, "false": False, "null": None}
_WORDS: Final = frozenset({"and", "or", "not", "in"})
_COMPARISONS: Final = frozenset({"==", "!=", "<", "<=", ">", ">="})


class BadExpression(Exception):
    """Raised for a faulty expression, with the problem and the remedy."""

    def __init__(self, message: str, remedy: str) -> None:
        self.message, self.remedy = message, remedy
        super().__init__(message)


class Expression(msgspec.Struct, frozen=True):
    """A part of an expression."""


class Constant(Expression, frozen=True):
    value: Any


class Root(Expression, frozen=True):
    """`parameters`, `item`, `index` or `run`."""

    name: str


class StepNode(Expression, frozen=True):
    """`steps.fetch`."""

    name: str


class FieldAccess(Expression, frozen=True):
    """`of.name`"""

    of: Expression
    name: str


class ElementAccess(Expression, frozen=True):
    """`of[index]`"""

    of: Expression
    index: Expression


class Each(Expression, frozen=True):
    """`of[*].rest`: the value of `rest` for every element, which is `Here` within it."""

    of: Expression
    rest: Expression


class Here(Expression, frozen=True):
    """The current element of an `Each`."""


class ListExpression(Expression, frozen=True):
    items: tuple[Expression, ...]


class FunctionCall(Expression, frozen=True):
    name: str
    arguments: tuple[Expression, ...]


class Unary(Expression, frozen=True):
    sign: str
    of: Expression


class Binary(Expression, frozen=True):
    sign: str
    left: Expression
    right: Expression


def parse(text: str) -> Expression:
    """The tree of an expression; raises `BadExpression`."""
    if len(text) > MAX_EXPRESSION_CHARS:
        raise BadExpression(
            f"is an expression of {len(text)} characters",
            f"use at most {MAX_EXPRESSION_CHARS}; split the step",
        )
    parser = _Parser(text)
    node = parser.expression()
    parser.end()
    return node


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._place = 0
        self._depth = 0

    def end(self) -> None:
        kind, found = self._next()
        if kind:
            raise BadExpression(
                f"has {found!r} where the expression should end", "join parts by `and` or `or`"
            )

    def expression(self) -> Expression:
        self._depth += 1
        if self._depth > DEEPEST:
            raise BadExpression("is nested too deeply", f"use at most {DEEPEST} levels")
        node = self._chain("or", self._and)
        self._depth -= 1
        return node

    def _and(self) -> Expression:
        return self._chain("and", self._not)

    def _chain(self, word: str, inner: Any) -> Expression:
        node: Expression = inner()
        links = 0
        while self._take(word):
            node = Binary(word, node, inner())
            links += 1
            self._bound(links)
        return node

    def _bound(self, links: int) -> None:
        """Chains lean to the left, and their trees are as deep as they are long."""
        if links > 5 * DEEPEST:
            raise BadExpression("has too long a chain", "use `in`, or split the step")

    def _not(self) -> Expression:
        signs = 0
        while self._take("not"):
            signs += 1
        node = self._comparison()
        return Unary("not", node) if signs % 2 else Unary("bool", node) if signs else node

    def _comparison(self) -> Expression:
        left = self._sum()
        kind, found = self._peek()
        if kind == "sign" and found in _COMPARISONS:
            self._place += 1
            return Binary(found, left, self._sum())
        if self._take("in"):
            return Binary("in", left, self._sum())
        if found == "not" and self._peek(1)[1] == "in":
            self._place += 2
            return Unary("not", Binary("in", left, self._sum()))
        return left

    def _sum(self) -> Expression:
        return self._infix(("+", "-"), lambda: self._infix(("*", "/", "%"), self._unary))

    def _infix(self, signs: tuple[str, ...], inner: Any) -> Expression:
        node: Expression = inner()
        links = 0
        while (found := self._peek())[0] == "sign" and found[1] in signs:
            self._place += 1
            node = Binary(found[1], node, inner())
            links += 1
            self._bound(links)
        return node

    def _unary(self) -> Expression:
        signs = 0
        while self._take("-"):
            signs += 1
        node = self._postfix()
        return Unary("-", node) if signs % 2 else node

    def _postfix(self) -> Expression:
        return self._trail(self._primary())

    def _trail(self, node: Expression) -> Expression:
        """The fields and elements that follow something."""
        links = 0
        while True:
            links += 1
            self._bound(links)
            if self._take("[*]"):
                self._depth += 1
                if self._depth > DEEPEST:
                    raise BadExpression("is nested too deeply", f"use at most {DEEPEST} levels")
                node = Each(node, self._trail(Here()))
                self._depth -= 1
                return node
            if self._take("."):
                node = FieldAccess(node, self._name())
            elif self._take("["):
                index = self.expression()
                self._demand("]")
                node = ElementAccess(node, index)
            else:
                return node

    def _primary(self) -> Expression:
        kind, found = self._next()
        if kind == "number":
            return Constant(_number(found))
        if kind == "text":
            return Constant(_ESCAPE.sub(_unescaped, found[1:-1]))
        if kind == "name" and found not in _WORDS:
            return self._named(found)
        if found == "(":
            node = self.expression()
            self._demand(")")
            return node
        if found == "[":
            return ListExpression(self._items("]"))
        raise BadExpression(
            f"has {found!r} where a value should be" if kind else "ends where a value should be",
            "write a value such as steps.fetch.result, parameters.pages, 3 or 'text'",
        )

    def _named(self, name: str) -> Expression:
        if name in _CONSTANTS:
            return Constant(_CONSTANTS[name])
        if self._peek() == ("sign", "("):
            self._place += 1
            return FunctionCall(name, self._items(")"))
        if name == "steps":
            return self._step()
        if name in ROOTS:
            return Root(name)
        raise BadExpression(
            f"knows no {name!r}",
            f"begin with one of {', '.join(ROOTS)}; a text stands in quotes",
        )

    def _step(self) -> Expression:
        if self._take("."):
            return StepNode(self._name())
        if self._take("["):
            kind, found = self._next()
            self._demand("]")
            if kind == "text":
                return StepNode(found[1:-1])
        raise BadExpression("names no step after `steps`", "write steps.NAME")

    def _name(self) -> str:
        kind, found = self._next()
        if kind != "name":
            raise BadExpression(
                f"has {found!r} where the name of a field should be",
                "write .name, or ['name'] for other characters",
            )
        return found

    def _items(self, end: str) -> tuple[Expression, ...]:
        items: list[Expression] = []
        while not self._take(end):
            if items:
                self._demand(",")
            items.append(self.expression())
        return tuple(items)

    def _peek(self, ahead: int = 0) -> tuple[str, str]:
        place = self._place + ahead
        return self._tokens[place] if place < len(self._tokens) else ("", "")

    def _next(self) -> tuple[str, str]:
        found = self._peek()
        self._place += 1
        return found

    def _take(self, wanted: str) -> bool:
        kind, found = self._peek()
        if found == wanted and kind in {"sign", "name"}:
            self._place += 1
            return True
        return False

    def _demand(self, wanted: str) -> None:
        kind, found = self._peek()
        if not self._take(wanted):
            where = f"has {found!r}" if kind else "ends"
            raise BadExpression(f"{where} where {wanted!r} should be", f"add {wanted!r}")


def _tokens(text: str) -> list[tuple[str, str]]:
    tokens: list[tuple[str, str]] = []
    place, end = 0, len(text.rstrip())
    while place < end:
        found = _TOKEN.match(text, place)
        if found is None or found.end() == place:
            rest = text[place:].lstrip()
            if rest[:1] == "=":
                raise BadExpression("compares by a single '='", "write ==")
            if rest[:1] in {"&", "|"}:
                raise BadExpression(f"has {rest[:2]!r}", "write `and` and `or`")
            if rest[:1] in {"'", '"'}:
                raise BadExpression("has a text without its end", "close the quotes")
            raise BadExpression(f"has {rest[:1]!r}, which means nothing here", "take it out")
        kind = found.lastgroup or ""
        tokens.append((kind, found[kind]))
        place = found.end()
    return tokens


def _number(text: str) -> int | float:
    number = int(text) if text.isdigit() else float(text)
    if not -LARGEST <= number <= LARGEST:
        raise BadExpression(f"has a number of {len(text)} digits", f"use at most {LARGEST}")
    return number


def _unescaped(found: re.Match[str]) -> str:
    return _ESCAPES.get(found[1], found[1])
