"""Animals whose answers are not valid HTTP: lengths, chunks, headers, first lines."""

from typing import Final

from crawlfleet.model.crawl.parameters import Outcome
from crawlfleet.testing.zoo.animal import PAGE, Animal, ZooVisitor, reply, says, says_forever

OK, BAD, TOO_LARGE = Outcome.OK, Outcome.BAD_RESPONSE, Outcome.TOO_LARGE

CHUNKED: Final = reply(b"", "Transfer-Encoding: chunked", length=None)
SPACED: Final = reply(PAGE).replace(b"Content-Length:", b"Content-Length :")


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


async def close_at_once(visitor: ZooVisitor) -> None:
    pass


async def reset_at_once(visitor: ZooVisitor) -> None:
    visitor.reset()


async def reset_in_the_body(visitor: ZooVisitor) -> None:
    await visitor.send(reply(PAGE, length=100_000))
    visitor.reset()


FRAMING: Final = (
    Animal("plain", OK, says(reply(PAGE)), body=PAGE),
    Animal("empty", OK, says(reply()), body=b""),
    Animal("until-close", OK, says(reply(PAGE, length=None)), body=PAGE),
    Animal("chunks", OK, says(CHUNKED + chunk(PAGE) + b"0\r\n\r\n"), body=PAGE),
    Animal("closes-at-once", BAD, close_at_once),
    Animal("resets-at-once", BAD, reset_at_once),
    Animal("resets-in-the-body", BAD, reset_in_the_body),
    Animal("length-too-long", BAD, says(reply(PAGE, length=1000))),
    Animal("length-too-short", OK, says(reply(PAGE, length=9)), body=PAGE[:9]),
    Animal(
        "length-negative",
        BAD,
        says(reply(PAGE, length=None, status="200 OK\r\nContent-Length: -5")),
    ),
    Animal("length-overflow", BAD, says(reply(PAGE, length=1 << 80))),
    Animal("length-no-number", BAD, says(reply(PAGE, "Content-Length: many", length=None))),
    Animal("lengths-differ", BAD, says(reply(PAGE, "Content-Length: 5"))),
    Animal(
        "length-and-chunks",
        OK,
        says(reply(chunk(PAGE) + b"0\r\n\r\n", "Transfer-Encoding: chunked", length=5)),
        body=PAGE,
    ),
    Animal("chunk-size-no-number", BAD, says(CHUNKED + b"xyz\r\nhello\r\n0\r\n\r\n")),
    Animal("chunk-size-overflow", BAD, says(CHUNKED + b"f" * 40 + b"\r\nhello")),
    Animal("chunk-longer-than-said", BAD, says(CHUNKED + b"3\r\nhello\r\n0\r\n\r\n")),
    Animal("chunks-without-end", BAD, says(CHUNKED + chunk(PAGE))),
    Animal("chunk-endless", TOO_LARGE, says_forever(CHUNKED + b"fffffffffff\r\n", b"x" * 65536)),
    Animal("chunks-endless", TOO_LARGE, says_forever(CHUNKED, chunk(b"x" * 30_000))),
    Animal("chunks-tiny", TOO_LARGE, says_forever(CHUNKED, chunk(b"x") * 5000)),
    Animal("chunk-extension-endless", TOO_LARGE, says_forever(CHUNKED + b"5;a=", b"x" * 65536)),
    Animal("trailers-endless", TOO_LARGE, says_forever(CHUNKED + b"0\r\n", b"A: b\r\n" * 9000)),
    Animal("transfer-gzip", BAD, says(reply(PAGE, "Transfer-Encoding: gzip", length=None))),
    Animal("transfer-unknown", BAD, says(reply(PAGE, "Transfer-Encoding: xchunked", length=None))),
    Animal("headers-endless", BAD, says_forever(b"HTTP/1.1 200 OK\r\n", b"A: b\r\n" * 100)),
    Animal("header-endless", BAD, says_forever(b"HTTP/1.1 200 OK\r\nA: ", b"x" * 4000)),
    Animal("header-huge", BAD, says(reply(PAGE, "X-Huge: " + "x" * 200_000))),
    Animal("headers-many", BAD, says(reply(PAGE, *(f"X-{n}: 1" for n in range(2000))))),
    Animal("status-line-endless", BAD, says_forever(b"HTTP/1.1 200 ", b"OK" * 2000)),
    Animal("header-without-colon", OK, says(reply(PAGE, "no colon here")), body=PAGE),
    Animal("header-without-name", OK, says(reply(PAGE, ": empty")), body=PAGE),
    Animal("header-name-with-space", OK, says(reply(PAGE, "X Odd: a")), body=PAGE),
    Animal("header-name-latin", OK, says(reply(PAGE, "X-\xdc: a")), body=PAGE),
    Animal("header-name-space-after", OK, says(reply(PAGE, "X-Odd : a")), body=PAGE),
    Animal("length-name-space-after", OK, says(SPACED), body=PAGE),
    Animal("length-name-with-space", BAD, says(reply(PAGE, "Content Length: 5"))),
    Animal("length-without-colon", BAD, says(reply(PAGE, "Content-Length 5"))),
    Animal("transfer-name-odd", BAD, says(reply(PAGE, "Transfer-Encoding\x0b: chunked"))),
    Animal("lengths-differ-odd", BAD, says(reply(PAGE, "X Odd: a", "Content-Length: 5"))),
    Animal("header-with-nul", OK, says(reply(PAGE, "X-Odd: a\0b")), body=PAGE),
    Animal("header-folded", OK, says(reply(PAGE, "X-Folded: a\r\n  b")), body=PAGE),
    Animal("header-latin", OK, says(reply(PAGE, "X-Name: Gr\xfc\xdfe")), body=PAGE),
    Animal(
        "headers-twice", OK, says(reply(PAGE, "X-A: 1", "X-A: 2", "Date: 1", "Date: 2")), body=PAGE
    ),
    Animal("line-feeds-only", OK, says(reply(PAGE).replace(b"\r\n", b"\n")), body=PAGE),
    Animal("answer-split", OK, says(reply(PAGE) + reply(b"<p>Smuggled.</p>")), body=PAGE),
    Animal("no-http", BAD, says(PAGE)),
    Animal("garbage", BAD, says(bytes(range(256)) * 20)),
    Animal("http2-frames", BAD, says(b"\0\0\x12\x04\0\0\0\0\0" + bytes(18))),
    Animal("ssh", BAD, says(b"SSH-2.0-OpenSSH_9.2\r\n")),
    Animal("version-unknown", BAD, says(reply(PAGE).replace(b"HTTP/1.1", b"HTTP/7.3"))),
    Animal("old-version", OK, says(reply(PAGE, length=None).replace(b"1.1", b"1.0", 1)), body=PAGE),
)
