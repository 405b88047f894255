"""Every "no" as an RFC 9457 problem document that names the field and the remedy."""

from collections.abc import Sequence
from http import HTTPStatus
from math import ceil
from typing import Any, Final
from urllib.parse import quote

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from crawlfleet.errors import (
    Busy,
    Conflict,
    CrawlfleetError,
    FieldProblem,
    InvalidRequest,
    LedgerUnavailable,
    LockedOut,
    NotFound,
    OutputUnavailable,
    PreconditionFailed,
    Refused,
    StoreUnavailable,
    Unauthenticated,
)
from crawlfleet.views.problems import Problem

MEDIA_TYPE: Final = "application/problem+json"
MAX_PATH_CHARACTERS: Final = 200
MAX_VALUE_CHARACTERS: Final = 100
_KINDS: Final[dict[type[CrawlfleetError], tuple[HTTPStatus, str]]] = {
    InvalidRequest: (HTTPStatus.UNPROCESSABLE_ENTITY, "invalid-request"),
    NotFound: (HTTPStatus.NOT_FOUND, "not-found"),
    Conflict: (HTTPStatus.CONFLICT, "conflict"),
    PreconditionFailed: (HTTPStatus.PRECONDITION_FAILED, "precondition-failed"),
    Refused: (HTTPStatus.FORBIDDEN, "refused"),
    Unauthenticated: (HTTPStatus.UNAUTHORIZED, "unauthenticated"),
    LockedOut: (HTTPStatus.TOO_MANY_REQUESTS, "locked-out"),
    StoreUnavailable: (HTTPStatus.SERVICE_UNAVAILABLE, "store-unavailable"),
    OutputUnavailable: (HTTPStatus.SERVICE_UNAVAILABLE, "output-unavailable"),
    LedgerUnavailable: (HTTPStatus.SERVICE_UNAVAILABLE, "ledger-unavailable"),
    Busy: (HTTPStatus.SERVICE_UNAVAILABLE, "busy"),
}


class MalformedBody(CrawlfleetError):
    """The request cannot be read at all; `closes` if it was not taken to its end, so that nothing
    else can come on this connection."""

    def __init__(self, status: HTTPStatus, slug: str, detail: str, *, closes: bool = False) -> None:
        self.status, self.slug, self.closes = status, slug, closes
        super().__init__(detail)


def problem_of(error: CrawlfleetError, instance: str = "") -> Problem:
    """The document for an error that is the caller's to mend, or that will pass."""
    if isinstance(error, MalformedBody):
        status, slug = error.status, error.slug
    else:
        status, slug = _KINDS[type(error)]
    return problem(
        status,
        slug,
        str(error),
        instance,
        error.problems if isinstance(error, InvalidRequest) else (),
    )


def problem(
    status: HTTPStatus,
    slug: str,
    detail: str,
    instance: str = "",
    errors: Sequence[FieldProblem] = (),
) -> Problem:
    """A document; `slug` is the stable name that programs may compare."""
    return Problem(
        type=f"urn:crawlfleet:problem:{slug}",
        title=status.phrase,
        status=int(status),
        detail=detail,
        instance=instance,
        errors=tuple(msgspec.structs.replace(e, value=_short(e.value)) for e in errors),
    )


def place(request: Request) -> str:
    """Return the requested path, URL-encoded and shortened."""
    return quote(request.scope["path"], safe="/:")[:MAX_PATH_CHARACTERS]


def _short(value: Any) -> Any:
    """Return the value if it is short enough to be quoted in an answer, else a shortened text or
    `None`."""
    if isinstance(value, str) and len(value) > MAX_VALUE_CHARACTERS:
        return f"{value[:MAX_VALUE_CHARACTERS]}…"
    small = isinstance(value, str | bool | float) or (isinstance(value, int) and abs(value) < 2**63)
    return value if small else None


def respond(document: Problem, headers: dict[str, str] | None = None) -> Response:
    """The answer that carries a problem document."""
    headers = dict(headers or {})
    if document.status == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = 'Bearer realm="crawlfleet"'
    if document.status == HTTPStatus.SERVICE_UNAVAILABLE:
        headers["Retry-After"] = "1"
    return Response(
        msgspec.json.encode(document),
        status_code=document.status,
        media_type=MEDIA_TYPE,
        headers=headers,
    )


def headers_of(error: CrawlfleetError) -> dict[str, str]:
    """Return the headers of the answer to this error."""
    if isinstance(error, MalformedBody) and error.closes:
        return {"Connection": "close"}
    return {"Retry-After": str(ceil(error.wait_s))} if isinstance(error, LockedOut) else {}


def is_known(error: CrawlfleetError) -> bool:
    """Return whether the error is part of the API's contract."""
    return isinstance(error, MalformedBody) or type(error) in _KINDS
