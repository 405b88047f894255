"""Errors of the JSON decoder, put into words: which field is wrong, and what to send.

The decoder speaks of `int`, `str` and `$.a[...]`; people read of whole numbers, texts and `a.b`, or
`a.*` where the entry cannot be found. The right value is looked up in the type that was decoded
into.
"""

import difflib
import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import inspect

from crawlfleet.core.text.nesting import is_too_deep
from crawlfleet.errors import FieldProblem

MAX_BYTES: Final = 100_000
MAX_ENTRIES: Final = 100
"""Limit of map entries that are searched for the error; each entry costs a decoding of the rest of
the JSON."""
ANY: Final = "[...]"


def culprits(raw: bytes, type: Any, steps: Sequence[str], complaint: str) -> list[str]:
    """Return the steps with entry names in place of wildcards, as far as found: the wrong entry is
    the one that, alone in its map, causes the same complaint."""
    named = list(steps)
    if ANY not in steps or len(raw) > MAX_BYTES or is_too_deep(raw):
        return named
    try:
        document = msgspec.json.decode(raw)
        place = document
        for number, step in enumerate(steps):
            if step == ANY:
                named[number] = _only(document, place, type, complaint)
            place = place[int(step) if isinstance(place, list) else named[number]]
    except (msgspec.DecodeError, LookupError, TypeError, ValueError):
        pass  # it is no more than a name that would have been of help
    return named


def _only(document: Any, entries: dict[str, Any], type: Any, complaint: str) -> str:
    """Return the name of the wrong entry, which is left alone in the document. Raises
    `LookupError`."""
    all = dict(entries)
    if len(all) > MAX_ENTRIES:
        raise LookupError
    for name, value in all.items():
        entries.clear()
        entries[name] = value
        try:
            msgspec.json.decode(msgspec.json.encode(document), type=type)
        except msgspec.ValidationError as error:
            if str(error) == complaint:
                return name
    raise LookupError


LONGEST_NAME: Final = 64
"""Length up to which a name from the input is repeated."""

ONLY: Final = "only"
"""Key in the `extra` of a type: those of its values that may be sent here."""

_AT: Final = " - at "
"""Separator before the path, searched from the end, since names from the input may precede it."""
_PATH: Final = re.compile(r"(`key` in )?`\$([^`]*)`\Z")
_STEP: Final = re.compile(r"\[\.\.\.\]|[^.\[\]]+")
_KEY: Final = re.compile(r"'(.*)'", re.DOTALL)
_NAMED: Final = re.compile(r"`(.*)`", re.DOTALL)
_EXPECTED: Final = re.compile(r"Expected `([^`]+)`([^,]*)(?:, got `([^`]+)`)?\Z")
_WORDS: Final = {
    "int": "a whole number",
    "float": "a number",
    "str": "a text",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
    "datetime": "an instant such as 2026-11-18T08:00:00Z",
}


def field_problem(
    error: msgspec.ValidationError, type: Any, *, within: str = "", raw: bytes = b""
) -> FieldProblem:
    """Return the field, the problem and the remedy; `within` is the place of the JSON, and `raw`
    the JSON itself, if available."""
    text = str(error)
    complaint, _, place = text.rpartition(_AT)
    found = _PATH.match(place)
    path = found.group(2).lstrip(".") if found else ""
    complaint = complaint if found else text
    names = iter(culprits(raw, type, _STEP.findall(path), text))
    place = _STEP.sub(lambda step: _shown(step.group(), next(names)), path)
    field = _joined(within, place.removeprefix("."))
    wanted = _type_at(type, path)
    if found and found.group(1):
        key = _KEY.search(complaint)
        field = _joined(field, key.group(1)[:LONGEST_NAME] if key else "*")
        wanted = wanted.key_type if isinstance(wanted, inspect.DictType) else None
    named = _NAMED.search(complaint)
    if "unknown field" in complaint and named:
        name = named.group(1)[:LONGEST_NAME]
        return FieldProblem(
            field=_joined(field, name),
            message="is not a known field",
            remedy=_instead_of(name, _known_fields(wanted)),
        )
    if "missing required field" in complaint and named:
        return FieldProblem(
            field=_joined(field, named.group(1)), message="is missing", remedy="add it"
        )
    message, remedy = _wrong(complaint, wanted)
    return FieldProblem(field=field or "(body)", message=message, remedy=remedy)


def _shown(step: str, name: str) -> str:
    """Return a step of a path as people read it."""
    if step != ANY:
        return step
    return ".*" if name == ANY else f".{name[:LONGEST_NAME]}"


def _wrong(complaint: str, wanted: Any) -> tuple[str, str]:
    """Return the problem of a value, and its remedy."""
    if choices := _choices(wanted):
        return "is not one of the possible values", f"use one of {', '.join(map(str, choices))}"
    if "out of range" in complaint:
        return "is a number that is too large", "send a smaller number"
    if "RFC3339" in complaint:
        return "is not an instant", f"send {_WORDS['datetime']}"
    found = _EXPECTED.match(complaint)
    if found is None:
        # Our own structs say what is wrong and, after a semicolon, what to do about it.
        wrong, _, remedy = complaint.partition("; ")
        return wrong[:1].lower() + wrong[1:], remedy or "send a value of the expected type"
    expected, limit, got = _in_words(found.group(1)), found.group(2), found.group(3)
    if got is None:
        return "is out of range", f"send {expected}{limit}"
    return f"is {_in_words(got)}, not {expected}", f"send {expected}"


def _in_words(kinds: str) -> str:
    names = [name for name in kinds.split(" | ") if name != "null"] or ["null"]
    return " or ".join(_WORDS.get(name, name) for name in names)


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path and name else path or name


def _instead_of(name: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    if near:
        return f"did you mean {near[0]!r}?"
    return f"remove it; known are {', '.join(known)}" if known else "remove it"


def _type_at(type: Any, path: str) -> Any:
    """Return the description of the type at a path such as `reports[0].kind`."""
    info: Any = inspect.type_info(type)
    for step in _STEP.findall(path):
        info = _inner(info, step)
    return _without_null(info)


def _inner(info: Any, step: str) -> Any:
    match _without_null(info):
        case inspect.StructType(fields=fields):
            return next((field.type for field in fields if field.encode_name == step), None)
        case inspect.DictType(value_type=inner) if step == ANY:
            return inner
        case inspect.ListType(item_type=inner) | inspect.VarTupleType(item_type=inner):
            return inner
        case inspect.UnionType(types=types):
            found = (_inner(each, step) for each in types)
            return next((each for each in found if each is not None), None)
        case _:
            return None


def _without_null(info: Any) -> Any:
    if isinstance(info, inspect.Metadata):
        if info.extra and ONLY in info.extra:
            return inspect.LiteralType(tuple(info.extra[ONLY]))
        return _without_null(info.type)
    if isinstance(info, inspect.UnionType):
        others = [each for each in info.types if not isinstance(each, inspect.NoneType)]
        return others[0] if len(others) == 1 else info
    return info


def _known_fields(info: Any) -> tuple[str, ...]:
    if isinstance(info, inspect.StructType):
        return tuple(field.encode_name for field in info.fields)
    return ()


def _choices(info: Any) -> tuple[Any, ...]:
    match info:
        case inspect.EnumType(cls=kinds):
            return tuple(kind.value for kind in kinds)
        case inspect.LiteralType(values=values):
            return values
        case _:
            return ()
