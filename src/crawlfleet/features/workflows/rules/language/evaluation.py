"""Computes an expression over the values of a run, at a bounded cost.

Every visited part and every touched element is counted, and nothing works without being counted: so
the time for one step is bounded, whatever its expressions and results are. Values are plain JSON; a
computed value is never a name, and nothing of Python can be reached.
"""

from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any, Final

import msgspec

from crawlfleet.features.workflows.model import Kind
from crawlfleet.features.workflows.rules.language import syntax
from crawlfleet.features.workflows.rules.language.functions import (
    DEFAULT,
    WORDS,
    bounded,
    check_default,
    described,
    equal,
    function_called,
    kind_of,
)
from crawlfleet.features.workflows.rules.language.syntax import BadExpression, Expression

MAX_WORK: Final = 200_000
"""Maximum work of all expressions of one step together."""


class Missing(BadExpression):
    """A field or an element that is not there."""


class TooMuchWork(BadExpression):
    """Raised when an expression exceeds the work limit; its value is unknown."""


class StepValue(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of an ended step that expressions can read."""

    status: str
    count: int = 1
    error: str | None = None
    result: Any = None
    results: list[Any] | None = None
    metrics: dict[str, float] = {}


class ExpressionScope(msgspec.Struct, kw_only=True):
    """The values that an expression can read, and the work that is left for it."""

    steps: Mapping[str, StepValue] = {}
    roots: dict[str, Any] = {}
    """`parameters` and `run`, and for an instance `item` and `index`."""
    left: int = MAX_WORK

    def charge(self, work: int) -> None:
        """Count some work; raises `BadExpression` when the limit is used up."""
        self.left -= work
        if self.left < 0:
            raise TooMuchWork("is too much work", "use shorter lists, or do it in a task")


def evaluate(node: Expression, scope: ExpressionScope) -> Any:
    """The value of an expression; raises `BadExpression`."""
    return _value(node, scope, None)


def _value(node: Expression, scope: ExpressionScope, here: Any) -> Any:
    scope.charge(1)
    return _BY_PART[type(node)](node, scope, here)


def _of_field(node: syntax.FieldAccess, scope: ExpressionScope, here: Any) -> Any:
    if isinstance(node.of, syntax.StepNode):
        return _of_step(scope, node.of.name, node.name)
    return _field(_value(node.of, scope, here), node.name)


def _of_binary(node: syntax.Binary, scope: ExpressionScope, here: Any) -> Any:
    left = _value(node.left, scope, here)
    if node.sign not in {"and", "or"}:
        return _binary(node.sign, left, _value(node.right, scope, here), scope)
    if _flag(left, node.sign) is (node.sign == "or"):
        return left
    return _flag(_value(node.right, scope, here), node.sign)


def _of_whole_step(node: syntax.StepNode, scope: ExpressionScope, here: Any) -> Any:
    raise BadExpression(
        f"speaks of steps.{node.name} as a whole", f"write steps.{node.name}.result or .status"
    )


def _root(scope: ExpressionScope, name: str) -> Any:
    if name not in scope.roots:
        raise BadExpression(f"knows no {name!r} here", "only a step with for_each has it")
    return scope.roots[name]


def _of_step(scope: ExpressionScope, step: str, name: str) -> Any:
    value = scope.steps.get(step)
    if value is None:
        raise Missing(f"has no value of the step {step!r}", "add it to depends_on")
    return getattr(value, name)


def _field(value: Any, name: str) -> Any:
    if not isinstance(value, dict):
        raise Missing(
            f"asks {described(value)} for the field {name!r}",
            "write [*] for each element of a list" if isinstance(value, list) else "see its result",
        )
    if name not in value:
        known = ", ".join(each[:64] for each in islice(value, 8))
        raise Missing(f"finds no field {name!r}", f"there are {known}" if known else "it is empty")
    return value[name]


def _element(value: Any, index: Any) -> Any:
    if isinstance(value, dict) and isinstance(index, str):
        return _field(value, index)
    if not isinstance(value, list | str) or kind_of(index) is not Kind.NUMBER:
        raise Missing(
            f"asks {described(value)} for the element "
            f"{repr(index[:40]) if isinstance(index, str) else described(index)}",
            "use a number for a list, and a text for an object",
        )
    bounded(index)
    if index != int(index) or not -len(value) <= index < len(value):
        raise Missing(f"asks for the element {index:g} of {len(value)}", "check len() first")
    return value[int(index)]


def _each(values: Any, rest: Expression, scope: ExpressionScope) -> list[Any]:
    """Evaluate `rest` for each element of a list, without elements that lack the value."""
    if not isinstance(values, list):
        raise BadExpression(f"goes through {described(values)} by [*]", "use a list")
    found = []
    for value in values:
        scope.charge(1)
        if value is None:
            continue
        try:
            each = _value(rest, scope, value)
        except Missing:
            continue
        if each is not None:
            found.append(each)
    return found


def _call(node: syntax.FunctionCall, scope: ExpressionScope, here: Any) -> Any:
    name, arguments = node.name, node.arguments
    if name == DEFAULT:
        check_default(len(arguments))
        try:
            value = _value(arguments[0], scope, here)
        except Missing:
            value = None
        return _value(arguments[1], scope, here) if value is None else value
    function = function_called(name, len(arguments))
    values = [_value(argument, scope, here) for argument in arguments]
    for value, kind in zip(values, function.takes, strict=True):
        if kind is not Kind.ANY and kind_of(value) is not kind:
            raise BadExpression(
                f"gives {described(value)} to {name}()", f"give it {WORDS[kind]} there"
            )
        if kind is Kind.NUMBER:
            bounded(value)
    made = function.apply(scope.charge, *values)
    return bounded(made) if function.gives is Kind.NUMBER else made


def _unary(sign: str, value: Any) -> Any:
    if sign == "-":
        return -_number(value, sign)
    flag = _flag(value, "not")
    return not flag if sign == "not" else flag


def _binary(sign: str, left: Any, right: Any, scope: ExpressionScope) -> Any:
    match sign:
        case "==":
            return equal(left, right, scope.charge)
        case "!=":
            return not equal(left, right, scope.charge)
        case "in":
            return _contains(right, left, scope)
        case "<" | "<=" | ">" | ">=":
            return _compared(sign, left, right, scope)
        case "+" if kind_of(left) is kind_of(right) and isinstance(left, str | list):
            scope.charge((len(left) + len(right)) // (16 if isinstance(left, str) else 1))
            return left + right
    one, other = _number(left, sign), _number(right, sign)
    if sign in "/%" and other == 0:
        raise BadExpression("divides by zero", "check the divisor first")
    match sign:
        case "+":
            return bounded(one + other)
        case "-":
            return bounded(one - other)
        case "*":
            return bounded(one * other)
        case "/":
            return bounded(one / other)
        case _:
            return bounded(one % other)


def _contains(where: Any, what: Any, scope: ExpressionScope) -> bool:
    if isinstance(where, str) and isinstance(what, str):
        scope.charge(len(where) // 16)
        return what in where
    if isinstance(where, dict) and isinstance(what, str):
        return what in where
    if isinstance(where, list):
        return any(equal(what, each, scope.charge) for each in where)
    raise BadExpression(
        f"looks for {described(what)} in {described(where)}", "`in` is for lists, texts and objects"
    )


def _compared(sign: str, left: Any, right: Any, scope: ExpressionScope) -> bool:
    kind = kind_of(left)
    if kind is not kind_of(right) or kind not in {Kind.NUMBER, Kind.TEXT}:
        raise BadExpression(
            f"compares {described(left)} with {described(right)}",
            "compare numbers with numbers, and texts with texts",
        )
    if kind is Kind.TEXT:
        scope.charge(min(len(left), len(right)) // 16)
    match sign:
        case "<":
            return bool(left < right)
        case "<=":
            return bool(left <= right)
        case ">":
            return bool(left > right)
        case _:
            return bool(left >= right)


def _flag(value: Any, sign: str) -> bool:
    if not isinstance(value, bool):
        raise BadExpression(
            f"gives {described(value)} to `{sign}`", "compare it first, such as with == or >"
        )
    return value


def _number(value: Any, sign: str) -> Any:
    if kind_of(value) is not Kind.NUMBER:
        raise BadExpression(f"gives {described(value)} to `{sign}`", "use numbers on both sides")
    return bounded(value)


_BY_PART: Final[dict[type[Expression], Callable[[Any, ExpressionScope, Any], Any]]] = {
    syntax.Constant: lambda node, scope, here: node.value,
    syntax.Here: lambda node, scope, here: here,
    syntax.Root: lambda node, scope, here: _root(scope, node.name),
    syntax.StepNode: _of_whole_step,
    syntax.FieldAccess: _of_field,
    syntax.ElementAccess: lambda node, scope, here: _element(
        _value(node.of, scope, here), _value(node.index, scope, here)
    ),
    syntax.Each: lambda node, scope, here: _each(_value(node.of, scope, here), node.rest, scope),
    syntax.ListExpression: lambda node, scope, here: [
        _value(item, scope, here) for item in node.items
    ],
    syntax.FunctionCall: _call,
    syntax.Unary: lambda node, scope, here: _unary(node.sign, _value(node.of, scope, here)),
    syntax.Binary: _of_binary,
}
