"""The functions of the expression language: one table, with the kinds of their arguments."""

import difflib
from collections.abc import Callable
from typing import Any, Final

import msgspec

from crawlfleet.features.workflows.model import Kind
from crawlfleet.features.workflows.rules.language.syntax import LARGEST, BadExpression

Charge = Callable[[int], None]
"""Counts an amount of work before it is done; raises when the limit is used up."""


class LanguageFunction(msgspec.Struct, frozen=True):
    """A function of the language: the kinds of its arguments and of its result, and its code."""

    takes: tuple[Kind, ...]
    gives: Kind
    apply: Callable[..., Any]


def kind_of(value: Any) -> Kind:
    """Return the kind of a JSON value; `ANY` for null."""
    match value:
        case bool():
            return Kind.FLAG
        case int() | float():
            return Kind.NUMBER
        case str():
            return Kind.TEXT
        case list() | tuple():
            return Kind.LIST
        case dict():
            return Kind.OBJECT
        case _:
            return Kind.ANY


WORDS: Final = {
    Kind.FLAG: "true or false",
    Kind.NUMBER: "a number",
    Kind.INTEGER: "a whole number",
    Kind.TEXT: "a text",
    Kind.LIST: "a list",
    Kind.OBJECT: "an object",
    Kind.ANY: "null",
}


def described(value: Any) -> str:
    """Return the kind of a value in words, such as "a number", for messages."""
    return WORDS[kind_of(value)]


def bounded(value: Any) -> Any:
    """Return a number unchanged; raises `BadExpression` if it is too large to compute with."""
    # Compared, never converted: a whole number of hundreds of digits is none of the float kind.
    if not -LARGEST <= value <= LARGEST:
        raise BadExpression("comes to a number that is too large", f"stay below {LARGEST}")
    return value


def equal(one: Any, other: Any, charge: Charge) -> bool:
    """Return true if two values are the same JSON; `true` is not 1."""
    # Without recursion: results may be nested deeper than Python's stack.
    pairs = [(one, other)]
    while pairs:
        left, right = pairs.pop()
        charge(1)
        kind = kind_of(left)
        if kind is not kind_of(right):
            return False
        if kind is Kind.LIST:
            if len(left) != len(right):
                return False
            charge(len(left))
            pairs += zip(left, right, strict=True)
        elif kind is Kind.OBJECT:
            if len(left) != len(right):
                return False
            charge(len(left))
            if left.keys() != right.keys():
                return False
            pairs += ((left[name], right[name]) for name in left)
        else:
            if kind is Kind.TEXT and len(left) == len(right):
                charge(len(left) // 16)
            if left != right:
                return False
    return True


def _len(charge: Charge, value: Any) -> int:
    if not isinstance(value, str | list | dict):
        raise BadExpression(
            f"takes the length of {described(value)}", "len() is for a list, a text or an object"
        )
    return len(value)


def _numbers(charge: Charge, name: str, values: list[Any]) -> list[Any]:
    charge(len(values))
    for value in values:
        if kind_of(value) is not Kind.NUMBER:
            raise BadExpression(
                f"has {described(value)} in what {name}() is taken of", "use numbers only"
            )
        bounded(value)
    return values


def _extreme(name: str, choose: Callable[[list[Any]], Any]) -> Callable[..., Any]:
    def apply(charge: Charge, values: list[Any]) -> Any:
        if not values:
            raise BadExpression(f"takes {name}() of an empty list", "check len() first")
        return choose(_numbers(charge, name, values))

    return apply


def _sum(charge: Charge, values: list[Any]) -> Any:
    return sum(_numbers(charge, "sum", values))


def _flags(name: str, choose: Callable[[list[bool]], bool]) -> Callable[..., bool]:
    def apply(charge: Charge, values: list[Any]) -> bool:
        charge(len(values))
        for value in values:
            if not isinstance(value, bool):
                raise BadExpression(
                    f"has {described(value)} in what {name}() is taken of", "use true and false"
                )
        return choose(values)

    return apply


def _flatten(charge: Charge, values: list[Any]) -> list[Any]:
    flat: list[Any] = []
    for value in values:
        part = value if isinstance(value, list) else [value]
        charge(1 + len(part))
        flat += part
    return flat


def _unique(charge: Charge, values: list[Any]) -> list[Any]:
    charge(2 * len(values))
    found: dict[bytes, Any] = {}
    for value in reversed(values):
        # Texts and numbers are told apart by their JSON, as true and 1 are.
        encoded = msgspec.json.encode(value, order="sorted")
        charge(len(encoded) // 16)
        found[encoded] = value
    return [*found.values()][::-1]


def _range(charge: Charge, count: float) -> list[int]:
    if count != int(count) or count < 0:
        raise BadExpression(f"counts up to {count:g}", "range() is for whole numbers from 0 on")
    charge(int(count))
    return [*range(int(count))]


def _chunk(charge: Charge, values: list[Any], size: float) -> list[list[Any]]:
    if size != int(size) or size < 1:
        raise BadExpression(f"cuts into parts of {size:g}", "use a whole number from 1 on")
    charge(len(values))
    return [values[at : at + int(size)] for at in range(0, len(values), int(size))]


def _join(charge: Charge, values: list[Any], between: str) -> str:
    for value in values:
        if not isinstance(value, str):
            raise BadExpression(f"joins {described(value)}", "use texts; text() makes them")
        charge(1 + (len(value) + len(between)) // 16)
    return between.join(values)


def as_text(value: Any) -> str:
    """A value within a text."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _text(charge: Charge, value: Any) -> str:
    made = as_text(value)
    charge(len(made) // 16)
    return made


def _number(charge: Charge, value: Any) -> Any:
    if kind_of(value) is Kind.NUMBER:
        return value
    try:
        return msgspec.convert(value, int | float, strict=False) if _is_text(value) else None
    except msgspec.ValidationError:
        raise BadExpression(f"takes {value[:40]!r} for a number", "it has to be one") from None


def _is_text(value: Any) -> bool:
    if isinstance(value, str):
        return True
    raise BadExpression(f"makes a number of {described(value)}", "number() is for texts")


def _keys(charge: Charge, value: dict[str, Any]) -> list[str]:
    charge(len(value))
    return [*value]


def _values(charge: Charge, value: dict[str, Any]) -> list[Any]:
    charge(len(value))
    return [*value.values()]


def _starts_with(charge: Charge, value: str, begin: str) -> bool:
    charge(len(begin) // 16)
    return value.startswith(begin)


def _lower(charge: Charge, value: str) -> str:
    charge(len(value) // 16)
    return value.lower()


FUNCTIONS: Final[dict[str, LanguageFunction]] = {
    "len": LanguageFunction((Kind.ANY,), Kind.NUMBER, _len),
    "min": LanguageFunction((Kind.LIST,), Kind.NUMBER, _extreme("min", min)),
    "max": LanguageFunction((Kind.LIST,), Kind.NUMBER, _extreme("max", max)),
    "sum": LanguageFunction((Kind.LIST,), Kind.NUMBER, _sum),
    "any": LanguageFunction((Kind.LIST,), Kind.FLAG, _flags("any", any)),
    "all": LanguageFunction((Kind.LIST,), Kind.FLAG, _flags("all", all)),
    "flatten": LanguageFunction((Kind.LIST,), Kind.LIST, _flatten),
    "unique": LanguageFunction((Kind.LIST,), Kind.LIST, _unique),
    "range": LanguageFunction((Kind.NUMBER,), Kind.LIST, _range),
    "chunk": LanguageFunction((Kind.LIST, Kind.NUMBER), Kind.LIST, _chunk),
    "join": LanguageFunction((Kind.LIST, Kind.TEXT), Kind.TEXT, _join),
    "text": LanguageFunction((Kind.ANY,), Kind.TEXT, _text),
    "number": LanguageFunction((Kind.ANY,), Kind.NUMBER, _number),
    "keys": LanguageFunction((Kind.OBJECT,), Kind.LIST, _keys),
    "values": LanguageFunction((Kind.OBJECT,), Kind.LIST, _values),
    "lower": LanguageFunction((Kind.TEXT,), Kind.TEXT, _lower),
    "starts_with": LanguageFunction((Kind.TEXT, Kind.TEXT), Kind.FLAG, _starts_with),
}
DEFAULT: Final = "default"
"""`default(value, instead)`: the second where the first is null or is not there."""


def check_default(given: int) -> None:
    """Raise `BadExpression` unless `default` has both arguments."""
    _demand_count(DEFAULT, 2, given)


def function_called(name: str, given: int) -> LanguageFunction:
    """Return the function of this name if it takes this number of arguments; otherwise raise
    `BadExpression`."""
    function = FUNCTIONS.get(name)
    if function is None:
        known = [*FUNCTIONS, DEFAULT]
        near = difflib.get_close_matches(name, known, n=1)
        raise BadExpression(
            f"knows no function {name!r}",
            f"did you mean {near[0]}()?" if near else f"there are {', '.join(sorted(known))}",
        )
    _demand_count(name, len(function.takes), given)
    return function


def _demand_count(name: str, wanted: int, given: int) -> None:
    if wanted != given:
        raise BadExpression(
            f"gives {given} values to {name}()", f"it takes {wanted}, parted by commas"
        )
