"""Animals whose bodies are not what they seem, or larger than a client wants."""

import gzip
import struct
import zlib
from functools import cache
from typing import Final

import brotli

from crawlfleet import zstd
from crawlfleet.model.crawl.parameters import Outcome
from crawlfleet.testing.zoo.animal import (
    PAGE,
    Animal,
    Behaviour,
    ZooVisitor,
    reply,
    says,
    says_forever,
)

OK, BAD_CONTENT, TOO_LARGE = Outcome.OK, Outcome.BAD_CONTENT, Outcome.TOO_LARGE
UNWANTED: Final = Outcome.UNWANTED

BOMB_BYTES: Final = 200_000_000
ZEROES: Final = bytes(1_000_000)
DEEP: Final = b"<div>" * 100_000
CYRILLIC: Final = "<html><body><p>Широкая электрификация южных губерний</p></body></html>"
WIDE: Final = "<html><body><p>Grüße, 你好</p></body></html>"


def coded(encoding: str, body: bytes) -> Behaviour:
    return says(reply(body, f"Content-Encoding: {encoding}"))


def _raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


@cache
def make_bomb(encoding: str) -> bytes:
    """Return a few kilobytes that decompress to 200 MB."""
    times = BOMB_BYTES // len(ZEROES)
    match encoding:
        case "br":
            press = brotli.Compressor(quality=1)
            return b"".join([*(press.process(ZEROES) for _ in range(times)), press.finish()])
        case "zstd":
            frames = zstd.ZstdCompressor(level=1)
            return b"".join([*(frames.compress(ZEROES) for _ in range(times)), frames.flush()])
        case _:
            # The same block again and again, which is quicker than packing all of it.
            packer = zlib.compressobj(wbits=-15)
            block = packer.compress(ZEROES) + packer.flush(zlib.Z_FULL_FLUSH)
            checksum = 0
            for _ in range(times):
                checksum = zlib.crc32(ZEROES, checksum)
            trailer = struct.pack("<II", checksum, BOMB_BYTES)
            return gzip.compress(b"")[:10] + block * times + packer.flush() + trailer


def bomb(encoding: str) -> Behaviour:
    async def behave(visitor: ZooVisitor) -> None:
        await visitor.send(reply(make_bomb(encoding), f"Content-Encoding: {encoding}"))

    return behave


def prepare() -> None:
    """Prepare slow contents in advance, so that no visit has to wait for them."""
    for encoding in ("gzip", "br", "zstd"):
        make_bomb(encoding)


async def send_much(visitor: ZooVisitor) -> None:
    """Send a hundred megabytes without a length."""
    await visitor.send(reply(length=None))
    for _ in range(1600):
        await visitor.send(b"<p>much</p> " * 5461)


CONTENTS: Final = (
    Animal("gzip", OK, coded("gzip", gzip.compress(PAGE)), body=PAGE),
    Animal(
        "gzip-members",
        OK,
        coded("x-gzip", gzip.compress(PAGE[:20]) + gzip.compress(PAGE[20:])),
        body=PAGE,
    ),
    Animal("gzip-then-junk", OK, coded("gzip", gzip.compress(PAGE) + b"\n\n"), body=PAGE),
    Animal("gzip-twice", OK, coded("gzip, gzip", gzip.compress(gzip.compress(PAGE))), body=PAGE),
    Animal("gzip-truncated", BAD_CONTENT, coded("gzip", gzip.compress(PAGE)[:-12])),
    Animal("gzip-label-only", BAD_CONTENT, coded("gzip", PAGE)),
    Animal("gzip-wrong-checksum", BAD_CONTENT, coded("gzip", gzip.compress(PAGE)[:-8] + bytes(8))),
    Animal("gzip-bomb", TOO_LARGE, bomb("gzip")),
    Animal("encodings-many", BAD_CONTENT, coded(", ".join(["gzip"] * 30), gzip.compress(PAGE))),
    Animal("deflate", OK, coded("deflate", zlib.compress(PAGE)), body=PAGE),
    Animal("deflate-raw", OK, coded("deflate", _raw_deflate(PAGE)), body=PAGE),
    Animal("br", OK, coded("br", brotli.compress(PAGE)), body=PAGE),
    Animal("br-garbage", BAD_CONTENT, coded("br", b"\xff" * 500)),
    Animal("br-truncated", BAD_CONTENT, coded("br", brotli.compress(PAGE)[:-5])),
    Animal("br-bomb", TOO_LARGE, bomb("br")),
    Animal("zstd", OK, coded("zstd", zstd.compress(PAGE)), body=PAGE),
    Animal("zstd-garbage", BAD_CONTENT, coded("zstd", b"\xff" * 500)),
    Animal("zstd-truncated", BAD_CONTENT, coded("zstd", zstd.compress(PAGE)[:-5])),
    Animal("zstd-bomb", TOO_LARGE, bomb("zstd")),
    Animal("encoding-unknown", OK, coded("utf-8", PAGE), body=PAGE),
    Animal(
        "charset-wrong",
        OK,
        says(reply(CYRILLIC.encode("cp1251"), content_type="text/html; charset=utf-8")),
    ),
    Animal(
        "charset-unknown", OK, says(reply(WIDE.encode(), content_type="text/html; charset=klingon"))
    ),
    Animal("charset-wide", OK, says(reply(WIDE.encode("utf-16")))),
    Animal(
        "binary-as-html", BAD_CONTENT, says(reply(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 40))
    ),
    Animal("noise-as-html", BAD_CONTENT, says(reply(bytes(range(256)) * 40))),
    Animal(
        "nuls",
        OK,
        says(reply(PAGE.replace(b"Hello", b"He\0llo"))),
        body=PAGE.replace(b"Hello", b"He\0llo"),
    ),
    Animal("deep", OK, says(reply(DEEP)), body=DEEP),
    Animal("type-missing", OK, says(reply(PAGE, content_type=None)), body=PAGE),
    Animal("type-nonsense", UNWANTED, says(reply(PAGE, content_type="nonsense"))),
    Animal("image", UNWANTED, says(reply(b"\x89PNG" + bytes(50_000), content_type="image/png"))),
    Animal(
        "events-endless",
        UNWANTED,
        says_forever(
            reply(content_type="text/event-stream", length=None), b"data: x\n\n", pause_s=0.05
        ),
    ),
    Animal(
        "camera",
        UNWANTED,
        says_forever(
            reply(content_type="multipart/x-mixed-replace; boundary=b", length=None),
            b"--b\r\nContent-Type: image/jpeg\r\n\r\nxxxx\r\n",
            pause_s=0.05,
        ),
    ),
    Animal("large-and-says-so", TOO_LARGE, says_forever(reply(length=100_000_000), b"x" * 65536)),
    Animal("large", TOO_LARGE, send_much),
    Animal("endless", TOO_LARGE, says_forever(reply(length=None), b"<p>more</p>" * 6000)),
    Animal(
        "cookie-bomb",
        OK,
        says(reply(PAGE, *(f"Set-Cookie: c{n}={'x' * 300}; Path=/" for n in range(180)))),
        body=PAGE,
    ),
)
