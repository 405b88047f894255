"""Static checks of expressions: the kind of their value, and the steps and fields that they need.

Faults that do not depend on results are found here, when the document is submitted: unknown
functions, wrong numbers of arguments, a text in place of a number, an unknown state.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from crawlfleet.features.workflows.model import SETTLED, Kind
from crawlfleet.features.workflows.rules.language import syntax
from crawlfleet.features.workflows.rules.language.functions import (
    DEFAULT,
    WORDS,
    check_default,
    function_called,
    kind_of,
)
from crawlfleet.features.workflows.rules.language.syntax import BadExpression, Expression

STEP_FIELDS: Final = {
    "status": Kind.TEXT,
    "count": Kind.NUMBER,
    "error": Kind.ANY,
    "result": Kind.ANY,
    "results": Kind.LIST,
    "metrics": Kind.OBJECT,
}
OF_RESULTS: Final = frozenset({"result", "results", "metrics"})
"""Fields of a step that have to be read from its tasks."""
_STATES: Final = sorted(str(status) for status in SETTLED)


class TypeContext:
    """The names that an expression may use, with their kinds."""

    def __init__(
        self,
        *,
        spread: Mapping[str, bool],
        parameters: Mapping[str, Kind],
        is_instance: bool,
    ) -> None:
        """Set up the context. `spread` is true for each step that has instances."""
        self.spread = spread
        self.parameters = parameters
        self.is_instance = is_instance


def walk(node: Expression) -> Iterator[Expression]:
    """Yield all parts of an expression."""
    stack = [node]
    while stack:
        part = stack.pop()
        yield part
        match part:
            case (
                syntax.ElementAccess(of=one, index=other)
                | syntax.Each(of=one, rest=other)
                | syntax.Binary(left=one, right=other)
            ):
                stack += (one, other)
            case syntax.ListExpression(items=items) | syntax.FunctionCall(arguments=items):
                stack += items
            case syntax.FieldAccess(of=of) | syntax.Unary(of=of):
                stack.append(of)


def references(node: Expression) -> Iterator[tuple[str, str]]:
    """Yield the steps that an expression names, each with the field it reads, or with an empty
    text."""
    for part in walk(node):
        match part:
            case syntax.FieldAccess(of=syntax.StepNode(name=step), name=name):
                yield step, name
            case syntax.StepNode(name=step):
                yield step, ""


def is_settled(node: Expression) -> bool:
    """Return true if an expression has the same value in every run."""
    return not any(isinstance(part, syntax.StepNode | syntax.Root) for part in walk(node))


def kind_at(node: Expression, around: TypeContext) -> Kind:
    """Return the kind of an expression's value, `ANY` if unknown; raises `BadExpression`."""
    match node:
        case syntax.Constant(value=value):
            return kind_of(value)
        case syntax.Root(name=name):
            return _of_root(name, around)
        case syntax.FieldAccess() | syntax.ElementAccess() | syntax.Each():
            return _of_access(node, around)
        case syntax.ListExpression(items=items):
            for item in items:
                kind_at(item, around)
            return Kind.LIST
        case syntax.FunctionCall(name=name, arguments=arguments):
            return _of_call(name, arguments, around)
        case syntax.Unary(sign=sign, of=of):
            wanted, shown = (Kind.NUMBER, "-") if sign == "-" else (Kind.FLAG, "not")
            _demand(kind_at(of, around), wanted, f"gives to `{shown}`", WORDS[wanted])
            return wanted
        case syntax.Binary():
            return _of_binary(node, around)
        case syntax.StepNode(name=step):
            raise BadExpression(
                f"speaks of steps.{step} as a whole", f"write steps.{step}.result or .status"
            )
    return Kind.ANY


def _of_access(node: Expression, around: TypeContext) -> Kind:
    match node:
        case syntax.FieldAccess(of=syntax.StepNode(name=step), name=name):
            return _of_step(step, name, around)
        case syntax.FieldAccess(of=syntax.Root(name="parameters"), name=name):
            return _of_parameter(name, around)
        case syntax.FieldAccess(of=of, name=name):
            _demand(kind_at(of, around), Kind.OBJECT, f"asks for the field {name!r} of", "[*]")
        case syntax.ElementAccess(of=of, index=index):
            kind_at(of, around)
            kind_at(index, around)
        case syntax.Each(of=of, rest=rest):
            _demand(kind_at(of, around), Kind.LIST, "goes by [*] through", "a list")
            kind_at(rest, around)
            return Kind.LIST
    return Kind.ANY


def _of_root(name: str, around: TypeContext) -> Kind:
    if name in {"item", "index"} and not around.is_instance:
        raise BadExpression(
            f"speaks of `{name}` in a step without for_each", "add for_each, or take it out"
        )
    return Kind.NUMBER if name == "index" else Kind.ANY if name == "item" else Kind.OBJECT


def _of_step(step: str, name: str, around: TypeContext) -> Kind:
    if name not in STEP_FIELDS:
        raise BadExpression(
            f"asks for steps.{step}.{name}", f"a step has {', '.join(sorted(STEP_FIELDS))}"
        )
    spread = around.spread.get(step, False)
    if spread and name in {"result", "metrics"}:
        raise BadExpression(
            f"asks for the one {name} of {step!r}, which has for_each",
            f"write steps.{step}.results, a list",
        )
    if not spread and name == "results":
        raise BadExpression(
            f"asks for the results of {step!r}, which has no for_each",
            f"write steps.{step}.result",
        )
    return STEP_FIELDS[name]


def _of_parameter(name: str, around: TypeContext) -> Kind:
    if name not in around.parameters:
        known = ", ".join(around.parameters)
        raise BadExpression(
            f"knows no parameter {name!r}",
            f"there are {known}" if known else "declare it under `parameters`",
        )
    kind = around.parameters[name]
    return Kind.NUMBER if kind is Kind.INTEGER else kind


def _of_call(name: str, arguments: tuple[Expression, ...], around: TypeContext) -> Kind:
    kinds = [kind_at(argument, around) for argument in arguments]
    if name == DEFAULT:
        check_default(len(kinds))
        return kinds[1] if kinds[0] in (kinds[1], Kind.ANY) else Kind.ANY
    function = function_called(name, len(kinds))
    for kind, wanted in zip(kinds, function.takes, strict=True):
        if wanted is not Kind.ANY:
            _demand(kind, wanted, f"gives to {name}()", WORDS[wanted])
    return function.gives


def _of_binary(node: syntax.Binary, around: TypeContext) -> Kind:
    left, right = kind_at(node.left, around), kind_at(node.right, around)
    sign = node.sign
    if sign in {"and", "or"}:
        for kind in (left, right):
            _demand(kind, Kind.FLAG, f"gives to `{sign}`", "a comparison")
        return Kind.FLAG
    if sign in {"==", "!="}:
        _check_state(node.left, node.right)
        _check_state(node.right, node.left)
        return Kind.FLAG
    if sign == "in":
        return Kind.FLAG
    if Kind.ANY not in (left, right) and left is not right:
        raise BadExpression(
            f"has {WORDS[left]} and {WORDS[right]} around `{sign}`", "use two of the same kind"
        )
    known = left if right is Kind.ANY else right
    if sign in {"<", "<=", ">", ">="}:
        if known not in {Kind.ANY, Kind.NUMBER, Kind.TEXT}:
            raise BadExpression(f"has {WORDS[known]} beside `{sign}`", "compare numbers or texts")
        return Kind.FLAG
    if sign == "+" and known in {Kind.ANY, Kind.TEXT, Kind.LIST}:
        return known
    _demand(known, Kind.NUMBER, f"has beside `{sign}`", "a number")
    return Kind.NUMBER


def _check_state(one: Expression, other: Expression) -> None:
    """A state that a step can never be in is a slip of the pen."""
    match one, other:
        case syntax.FieldAccess(of=syntax.StepNode(), name="status"), syntax.Constant(value=value):
            if value not in _STATES:
                raise BadExpression(
                    f"compares a status with {value!r}", f"use one of {', '.join(_STATES)}"
                )


def _demand(kind: Kind, wanted: Kind, does: str, remedy: str) -> None:
    if kind not in (wanted, Kind.ANY):
        raise BadExpression(f"{does} {WORDS[kind]}", f"use {remedy}")
