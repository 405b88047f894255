"""The bodies of requests and answers as they travel: within a bound, and packed by agreement."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from http import HTTPStatus
from typing import Final

from starlette.requests import Request

from crawlfleet.api.http.problems import MalformedBody
from crawlfleet.core.network.compression import (
    ENCODINGS,
    PACKED_FROM_BYTES,
    BadCompression,
    TooLarge,
    chosen,
    pack,
    unpack,
)

JSON: Final = "application/json"
AS_THEY_ARE: Final = {"Cache-Control", "ETag"}
"""Headers of answers that are not compressed: the size of a secret should reveal nothing, and an
`ETag` is for exactly these bytes."""
MAX_DROPPED_BYTES: Final = 64_000_000
DROPPED_WITHIN_S: Final = 10.0
SILENT_AFTER_S: Final = 1.0
"""A client that sends nothing for this time waits for the answer."""


async def read_body(request: Request, *, max_bytes: int) -> bytes:
    """Return the JSON of a request, decompressed; raises `MalformedBody` if it is too large or not
    JSON."""
    chunks, size = [], 0
    parts = request.stream()
    announced = request.headers.get("content-length", "0")
    is_too_large = announced.isdigit() and int(announced) > max_bytes
    if is_too_large and "expect" in request.headers:
        raise _too_large(max_bytes, closes=True)  # it asks before it sends
    while not is_too_large and (chunk := await anext(parts, None)) is not None:
        size += len(chunk)
        is_too_large = size > max_bytes
        chunks.append(chunk)
    if is_too_large:
        chunks.clear()
        raise _too_large(max_bytes, closes=not await _drop(parts))
    content_type = request.headers.get("content-type", JSON).partition(";")[0]
    if size and content_type.strip().lower() not in {JSON, ""}:
        raise MalformedBody(
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


async def _drop(parts: AsyncGenerator[bytes, None]) -> bool:
    """Read and drop the rest of a request body, within bounds; return whether it was read to its
    end. Most clients read no answer before they have sent everything; if the connection were closed
    earlier, they would see it break."""
    dropped = 0
    with suppress(TimeoutError):
        async with asyncio.timeout(DROPPED_WITHIN_S):
            while dropped <= MAX_DROPPED_BYTES:
                part = await asyncio.wait_for(anext(parts, None), SILENT_AFTER_S)
                if part is None:
                    return True
                dropped += len(part)
    return False


def _unpacked(body: bytes, encoding: str, max_bytes: int) -> bytes:
    if encoding == "identity":
        return body
    if encoding not in ENCODINGS:
        raise MalformedBody(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            "unsupported-encoding",
            f"the body is encoded as {encoding[:40]!r}; use one of {', '.join(ENCODINGS)}, or none",
        )
    try:
        return unpack(body, encoding, most_bytes=max_bytes)
    except TooLarge:
        raise _too_large(max_bytes) from None
    except BadCompression as error:
        raise MalformedBody(
            HTTPStatus.BAD_REQUEST, "malformed-encoding", f"the body: {error}"
        ) from None


def _too_large(max_bytes: int, *, closes: bool = False) -> MalformedBody:
    return MalformedBody(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        "too-large",
        f"the body is larger than {max_bytes / 1e6:g} MB; send less at once",
        closes=closes,
    )
