"""Bytes and query strings into structs, with errors that name the field and the remedy."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import TypeVar

import msgspec

from crawlfleet.api.problems import Malformed
from crawlfleet.core.complaints import field_problem
from crawlfleet.errors import FieldProblem, InvalidRequest

T = TypeVar("T")


def decode_body(body: bytes, type: type[T]) -> T:
    """The struct in a JSON body; raises `Malformed` or `InvalidRequest`."""
    if not body:
        body = b"{}"
    try:
        # What stays raw is passed over by the decoder, and must be text all the same.
        body.decode()
        return msgspec.json.decode(body, type=type)
    except msgspec.ValidationError as error:
        raise InvalidRequest([field_problem(error, type)]) from None
    except UnicodeDecodeError as error:
        raise _malformed(
            f"the body is not UTF-8 (byte {error.start}); send JSON in UTF-8"
        ) from None
    except msgspec.DecodeError as error:
        raise _malformed(f"the body is not valid JSON: {error}") from None
    except RecursionError:
        raise _malformed("the body is nested too deeply; use a flatter structure") from None


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
        raise InvalidRequest([field_problem(error, type)]) from None


def _malformed(detail: str) -> Malformed:
    return Malformed(HTTPStatus.BAD_REQUEST, "malformed-json", detail)
