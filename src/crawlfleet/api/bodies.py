"""The bodies of requests and answers as they travel: within a bound, and packed by agreement."""

from http import HTTPStatus
from typing import Final

from starlette.requests import Request

from crawlfleet.api.problems import Malformed
from crawlfleet.core.packing import (
    ENCODINGS,
    PACKED_FROM_BYTES,
    TooLarge,
    Unpackable,
    chosen,
    pack,
    unpack,
)

JSON: Final = "application/json"
AS_THEY_ARE: Final = {"Cache-Control", "ETag"}
"""Answers with one of these headers are not packed: the size of a secret should tell nothing, and
an `ETag` stands for these very bytes."""


async def read_body(request: Request, *, max_bytes: int) -> bytes:
    """The JSON of a request, unpacked; raises `Malformed` for what is too large or no JSON."""
    announced = request.headers.get("content-length", "0")
    if announced.isdigit() and int(announced) > max_bytes:
        raise _too_large(max_bytes)
    chunks, size = [], 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > max_bytes:
            raise _too_large(max_bytes)
        chunks.append(chunk)
    content_type = request.headers.get("content-type", JSON).partition(";")[0]
    if size and content_type.strip().lower() not in {JSON, ""}:
        raise Malformed(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            "unsupported-media-type",
            f"the body is {content_type!r}; send {JSON}",
        )
    body = b"".join(chunks)
    encoding = request.headers.get("content-encoding")
    return _unpacked(body, encoding.strip().lower(), max_bytes) if encoding else body


def packed(
    content: bytes, headers: dict[str, str], request: Request
) -> tuple[bytes, dict[str, str]]:
    """An answer as small as its reader understands, with its headers."""
    if len(content) < PACKED_FROM_BYTES or not headers.keys().isdisjoint(AS_THEY_ARE):
        return content, headers
    headers = {**headers, "Vary": "Accept-Encoding"}
    if encoding := chosen(request.headers.get("accept-encoding", "")):
        return pack(content, encoding), {**headers, "Content-Encoding": encoding}
    return content, headers


def _unpacked(body: bytes, encoding: str, max_bytes: int) -> bytes:
    if encoding == "identity":
        return body
    if encoding not in ENCODINGS:
        raise Malformed(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            "unsupported-encoding",
            f"the body is encoded as {encoding[:40]!r}; use one of {', '.join(ENCODINGS)}, or none",
        )
    try:
        return unpack(body, encoding, most_bytes=max_bytes)
    except TooLarge:
        raise _too_large(max_bytes) from None
    except Unpackable as error:
        raise Malformed(
            HTTPStatus.BAD_REQUEST, "malformed-encoding", f"the body: {error}"
        ) from None


def _too_large(max_bytes: int) -> Malformed:
    return Malformed(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        "too-large",
        f"the body is larger than {max_bytes / 1e6:g} MB; send less at once",
    )
