"""Bytes and query strings into structs, with errors that name the field and the remedy."""

import re
from collections.abc import Sequence
from datetime import datetime
from http import HTTPStatus
from typing import Any, Final, TypeVar, get_args

import msgspec

from crawlfleet.api.http.problems import MalformedBody
from crawlfleet.core.text.decode_errors import field_problem
from crawlfleet.core.text.nesting import MAX_MESSAGE_NESTING, is_too_deep
from crawlfleet.errors import FieldProblem, InvalidRequest

T = TypeVar("T")

_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_HALF: Final = re.compile(
    rb"(?<!\\)(?:\\\\)*\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])",
)
"""The first half of a surrogate pair in JSON, without the second: the decoder reports
truncation."""


def decode_body(body: bytes, type: type[T]) -> T:
    """The struct in a JSON body; raises `MalformedBody` or `InvalidRequest`."""
    if not body:
        body = b"{}"
    try:
        # What stays raw is passed over by the decoder, and must be text all the same.
        body.decode()
        if is_too_deep(body, MAX_MESSAGE_NESTING):
            raise _malformed("the body is nested too deeply; use a flatter structure")
        return msgspec.json.decode(body, type=type)
    except msgspec.ValidationError as error:
        raise InvalidRequest([field_problem(error, type, raw=body)]) from None
    except UnicodeDecodeError as error:
        raise _malformed(
            f"the body is not UTF-8 (byte {error.start}); send JSON in UTF-8"
        ) from None
    except msgspec.DecodeError as error:
        if "surrogate" in str(error) or _HALF.search(body):
            raise _malformed(
                "the body is not valid Unicode: it has one half of a surrogate pair, such as "
                "\\ud800; send both, or the character itself"
            ) from None
        raise _malformed(f"the body is not valid JSON: {error}") from None


def decode_query(pairs: Sequence[tuple[str, str]], type: type[T]) -> T:
    """The struct in a query string; raises `InvalidRequest`."""
    query = dict(pairs)
    if len(query) < len(pairs):
        names = [name for name, _ in pairs]
        raise InvalidRequest(
            [
                FieldProblem(
                    field=next(name for name in names if names.count(name) > 1)[:64],
                    message="is given more than once",
                    remedy="give it once",
                )
            ]
        )
    try:
        return msgspec.convert(query, type=type, strict=False)
    except msgspec.ValidationError as error:
        if (dated := _with_hours(query, type)) != query:
            return decode_query([*dated.items()], type)
        raise InvalidRequest([field_problem(error, type)]) from None


def _with_hours(query: dict[str, str], type: Any) -> dict[str, str]:
    """A query in which each bare date is the beginning of that day in UTC."""
    instants = {
        field.encode_name
        for field in msgspec.structs.fields(type)
        if datetime in (field.type, *get_args(field.type))
    }
    return {
        name: f"{value}T00:00:00Z" if name in instants and _DATE.fullmatch(value) else value
        for name, value in query.items()
    }


def _malformed(detail: str) -> MalformedBody:
    return MalformedBody(HTTPStatus.BAD_REQUEST, "malformed-json", detail)
