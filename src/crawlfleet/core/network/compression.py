"""Compression of request and response bodies: zstd, or gzip for clients without zstd.

A few bytes can expand to gigabytes, so decompression has a limit of output bytes.
"""

import zlib
from typing import Final

from crawlfleet import zstd
from crawlfleet.errors import CrawlfleetError

PACKED_FROM_BYTES: Final = 4_096
"""Size from which bodies are compressed; smaller ones fit into a few packets anyway."""
ENCODINGS: Final = ("zstd", "gzip")
"""Supported encodings, the preferred one first."""
LEVEL: Final = 1
"""Compression level: the fastest, with most of the gain for a small part of the time."""


class BadCompression(CrawlfleetError):
    """Raised for bytes that do not match their encoding."""


class TooLarge(CrawlfleetError):
    """Raised when the uncompressed body would be larger than allowed."""


def chosen(accepted: str) -> str:
    """Return the best encoding in an `Accept-Encoding` header; empty when it has no supported
    one."""
    offers = [each.partition(";") for each in accepted.lower().replace(" ", "").split(",")]
    wanted = {name for name, _, weight in offers if weight not in {"q=0", "q=0.0", "q=0.00"}}
    return next((each for each in ENCODINGS if each in wanted), "")


def pack(body: bytes, encoding: str) -> bytes:
    """Return the body in one of `ENCODINGS`."""
    if encoding == "zstd":
        return zstd.compress(body, LEVEL)
    return zlib.compress(body, LEVEL, wbits=31)


def unpack(body: bytes, encoding: str, *, most_bytes: int) -> bytes:
    """Return the uncompressed body. Raises `BadCompression`, or `TooLarge` before much more than
    `most_bytes` was unpacked."""
    plain = _unzstd(body, most_bytes) if encoding == "zstd" else _gunzip(body, most_bytes)
    if len(plain) > most_bytes:
        raise TooLarge(f"more than {most_bytes} bytes came out")
    return plain


def _unzstd(body: bytes, most_bytes: int) -> bytes:
    inner = zstd.web_decompressor()
    try:
        plain = inner.decompress(body, most_bytes + 1)
    except zstd.ZstdError as error:
        raise BadCompression(f"it is not zstd: {error}") from None
    if len(plain) <= most_bytes and not inner.eof:
        raise BadCompression("it is not zstd: its end is missing")
    return plain


def _gunzip(body: bytes, most_bytes: int) -> bytes:
    inner = zlib.decompressobj(31)
    try:
        plain = inner.decompress(body, most_bytes + 1)
    except zlib.error as error:
        raise BadCompression(f"it is not gzip: {error}") from None
    if len(plain) <= most_bytes and not inner.eof:
        raise BadCompression("it is not gzip: its end is missing")
    return plain
