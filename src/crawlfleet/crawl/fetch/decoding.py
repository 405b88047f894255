"""Decodes content encodings piece by piece, never further than a limit.

A few bytes can stand for gigabytes, so each step has a maximum size of its output.
"""

import zlib
from typing import Final, Protocol

import brotli

from crawlfleet import zstd
from crawlfleet.errors import CrawlfleetError

MAX_LAYERS: Final = 3
STEP_BYTES: Final = 16_384
"""Number of bytes that are decoded at once: at each end of a frame, the rest of a step is
copied."""
MAX_ZSTD_FRAMES: Final = 10_000
"""Maximum number of zstd frames in one body: a frame takes 8 microseconds even if it is empty, and
has 9 bytes."""

_GZIP_MAGIC: Final = b"\x1f\x8b"


class Undecodable(CrawlfleetError):
    """The bytes do not fit their Content-Encoding."""


class Overflowing(CrawlfleetError):
    """The decoded body would exceed its limit."""


class DecodingLayer(Protocol):
    """One encoding of a body."""

    def feed(self, data: bytes, limit: int) -> bytes:
        """Return the decoded bytes. If there is more than `limit`, slightly more than `limit` bytes
        come back."""
        ...

    def finish(self) -> None:
        """Raise `Undecodable` when the end is missing."""
        ...


class Inflate:
    """gzip (one or several members) and deflate (with and, as many servers do, without header)."""

    def __init__(self, *, gzip: bool) -> None:
        self._gzip = gzip
        self._begun = False
        self._inner = zlib.decompressobj(31 if gzip else 15)

    def feed(self, data: bytes, limit: int) -> bytes:
        if data and not self._begun and not self._gzip and not _has_zlib_header(data):
            self._inner = zlib.decompressobj(-15)
        self._begun = self._begun or bool(data)
        pieces: list[bytes] = []
        try:
            for start in range(0, len(data), STEP_BYTES):
                rest = data[start : start + STEP_BYTES]
                while rest:
                    piece = self._inner.decompress(rest, max(1, limit + 1))
                    pieces.append(piece)
                    limit -= len(piece)
                    if limit < 0:
                        return b"".join(pieces)
                    rest = self._next_member()
        except zlib.error as error:
            raise Undecodable(str(error)) from None
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _next_member(self) -> bytes:
        """Return the bytes of the next gzip member. Other bytes after the end are junk, and are
        ignored as in browsers; then nothing comes back."""
        rest = self._inner.unused_data
        if not self._inner.eof or not rest.startswith(_GZIP_MAGIC):
            return b""
        self._inner = zlib.decompressobj(31)
        return rest

    def finish(self) -> None:
        if self._begun and not self._inner.eof:
            raise Undecodable("the end is missing")


def _has_zlib_header(data: bytes) -> bool:
    # The low half of the first byte says "deflate", and the first two are a multiple of 31.
    return data[0] & 15 == 8 and (len(data) < 2 or not (data[0] << 8 | data[1]) % 31)


class Brotli:
    def __init__(self) -> None:
        self._inner = brotli.Decompressor()
        self._begun = False

    def feed(self, data: bytes, limit: int) -> bytes:
        self._begun = self._begun or bool(data)
        pieces = []
        try:
            while True:
                piece = self._inner.process(data, output_buffer_limit=max(1, limit + 1))
                pieces.append(piece)
                limit -= len(piece)
                if limit < 0 or self._inner.can_accept_more_data():
                    return b"".join(pieces)
                data = b""
        except brotli.error as error:
            raise Undecodable(str(error) or "not brotli") from None

    def finish(self) -> None:
        if self._begun and not self._inner.is_finished():
            raise Undecodable("the end is missing")


class Zstandard:
    def __init__(self) -> None:
        self._inner = zstd.web_decompressor()
        self._begun = False
        self._frames = 1

    def feed(self, data: bytes, limit: int) -> bytes:
        self._begun = self._begun or bool(data)
        pieces = []
        try:
            for start in range(0, len(data), STEP_BYTES):
                step = data[start : start + STEP_BYTES]
                while step:
                    if self._inner.eof:
                        self._begin_frame()
                    piece = self._inner.decompress(step, max(1, limit + 1))
                    pieces.append(piece)
                    limit -= len(piece)
                    if limit < 0:
                        return b"".join(pieces)
                    step = self._inner.unused_data
        except zstd.ZstdError as error:
            raise Undecodable(str(error)) from None
        return b"".join(pieces)

    def _begin_frame(self) -> None:
        self._frames += 1
        if self._frames > MAX_ZSTD_FRAMES:
            raise Undecodable(f"more than {MAX_ZSTD_FRAMES} frames")
        self._inner = zstd.web_decompressor()

    def finish(self) -> None:
        if self._begun and not self._inner.eof:
            raise Undecodable("the end is missing")


class Decoder:
    """All encodings of one body, undone up to a limit."""

    def __init__(self, layers: list[DecodingLayer], limit: int) -> None:
        self._layers = layers
        self._limit = limit
        self._pieces: list[bytes] = []
        self.size = 0

    def feed(self, data: bytes) -> None:
        """Decode bytes from the wire. Raises `Undecodable` and `Overflowing`."""
        room = self._limit - self.size
        for layer in self._layers:
            # Also what is between two layers is bounded; it need not be larger than the end.
            data = layer.feed(data, room)
            if len(data) > room:
                self._pieces.append(data if layer is self._layers[-1] else b"")
                raise Overflowing(f"more than {self._limit} bytes when unpacked")
        self._pieces.append(data)
        self.size += len(data)

    def finish(self) -> bytes:
        """Return the whole body. Raises `Undecodable` when the end is missing."""
        for layer in self._layers:
            layer.finish()
        return self.taken()

    def taken(self) -> bytes:
        """The bytes decoded so far, up to the limit."""
        whole = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        return whole if len(whole) <= self._limit else whole[: self._limit]


def decoder(encodings: str, limit: int) -> Decoder | None:
    """Return a decoder for the Content-Encoding; `None` if there is nothing to decode.

    Unknown encodings are ignored, as browsers do: some servers write a charset there. Raises
    `Undecodable` for more nested encodings than anyone uses.
    """
    layers: list[DecodingLayer] = []
    for name in reversed(encodings.lower().split(",")):
        match name.strip():
            case "gzip" | "x-gzip":
                layers.append(Inflate(gzip=True))
            case "deflate":
                layers.append(Inflate(gzip=False))
            case "br":
                layers.append(Brotli())
            case "zstd":
                layers.append(Zstandard())
    if len(layers) > MAX_LAYERS:
        raise Undecodable(f"{len(layers)} encodings upon each other")
    return Decoder(layers, limit) if layers else None
