"""Versions in headers: `ETag` on what is read, `If-None-Match` to read only news, `If-Match` to
change only what was read.

A tag begins with the thing's version. Where an answer shows more than the version covers, such as
measurements, a digest of it follows (`"7-3fa9c1d2e4b58a01"`): reading compares the whole tag,
changing only the version, since what was measured since stands in nobody's way.
"""

import hashlib
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

import msgspec

from crawlfleet.api.http.parameters import invalid
from crawlfleet.api.http.routing import Call, Reply

IF_MATCH: Final = r'^(\*|"[0-9]{1,18}(-[0-9a-f]{16})?")$'
_WANTED: Final = re.compile(IF_MATCH.rstrip("$") + r"\Z")
_TAG: Final = re.compile(r'(?:W/)?("[^"]*")')


def tagged(
    call: Call,
    body: msgspec.Struct,
    version: int,
    *,
    volatile: bool = False,
    status: HTTPStatus = HTTPStatus.OK,
    headers: Mapping[str, str] | None = None,
) -> Reply:
    """The answer with its tag; nothing but that (304) when the caller has it already.

    `volatile` where the answer may differ though the version does not.
    """
    content = msgspec.json.encode(body)
    digest = f"-{hashlib.blake2b(content, digest_size=8).hexdigest()}" if volatile else ""
    tag = f'"{version}{digest}"'
    sent = {"ETag": tag, **(headers or {})}
    known = call.headers.get("if-none-match")
    if call.body is None and known is not None and _is_known(tag, known):
        return Reply(body=b"", status=HTTPStatus.NOT_MODIFIED, headers=sent)
    return Reply(body=content, status=status, headers=sent)


def wanted_version(call: Call) -> int | None:
    """Return the version that the thing must have (`If-Match`), or `None` for none or `*`."""
    given: str | None = call.headers.get("if-match")
    if given is None:
        return None
    if not _WANTED.match(given):
        raise invalid(
            "If-Match",
            "is not the ETag of a thing",
            'send the ETag that it was read with, such as "3", or leave the header out',
            given,
        )
    return None if given == "*" else int(given.strip('"').partition("-")[0])


def _is_known(tag: str, known: str) -> bool:
    return known.strip() == "*" or tag in _TAG.findall(known)


def header_parameter(method: str) -> dict[str, Any]:
    """Return the OpenAPI description of the header that routes with this method understand."""
    if method == "GET":
        return {
            "name": "If-None-Match",
            "in": "header",
            "required": False,
            "description": "An `ETag` from before: answered with 304 when nothing is new.",
            "schema": {"type": "string"},
        }
    return {
        "name": "If-Match",
        "in": "header",
        "required": False,
        "description": "The `ETag` that it was read with: 412 when it has changed since.",
        "schema": {"type": "string", "pattern": IF_MATCH},
    }
