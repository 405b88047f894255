"""Bytes and query strings into structs, with errors that name the field and the remedy."""

import difflib
import re
from http import HTTPStatus
from typing import Any, Final, TypeVar

import msgspec

from crawlfleet.api.problems import Malformed
from crawlfleet.errors import FieldProblem, InvalidRequest

T = TypeVar("T")
_PATH: Final = re.compile(r" - at `\$(.*)`\Z", re.DOTALL)
_NAMED: Final = re.compile(r"`([^`]*)`")


def decode_body(body: bytes, type: type[T]) -> T:
    """The struct in a JSON body; raises `Malformed` or `InvalidRequest`."""
    if not body:
        body = b"{}"
    try:
        return msgspec.json.decode(body, type=type)
    except msgspec.ValidationError as error:
        raise InvalidRequest([field_problem(error, type)]) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Malformed(
            HTTPStatus.BAD_REQUEST, "malformed-json", f"the body is not valid JSON: {error}"
        ) from None
    except RecursionError:
        raise Malformed(
            HTTPStatus.BAD_REQUEST, "malformed-json", "the body is nested too deeply"
        ) from None


def decode_query(query: dict[str, Any], type: type[T]) -> T:
    """The struct in a query string; raises `InvalidRequest`."""
    try:
        return msgspec.convert(query, type=type, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidRequest([field_problem(error, type)]) from None


def field_problem(error: msgspec.ValidationError, type: Any) -> FieldProblem:
    """What a decoder's complaint means for the sender."""
    text = str(error)
    found = _PATH.search(text)
    path = found.group(1).lstrip(".") if found else ""
    message = _PATH.sub("", text)
    named = _NAMED.search(message)
    if "unknown field" in message and named:
        return FieldProblem(
            field=_joined(path, named.group(1)),
            message="is not a known field",
            remedy=_unknown_remedy(named.group(1), path, type),
        )
    if "missing required field" in message and named:
        return FieldProblem(
            field=_joined(path, named.group(1)), message="is missing", remedy="add it"
        )
    return FieldProblem(
        field=path or "(body)",
        message=message[:1].lower() + message[1:],
        remedy="send a value of the expected type",
    )


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _unknown_remedy(name: str, path: str, type: Any) -> str:
    known = getattr(type, "__struct_fields__", ())
    if path or not known:
        return "remove it"
    near = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {near[0]!r}?" if near else f"remove it; known are {', '.join(known)}"
