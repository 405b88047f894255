"""One kind of misbehaviour: its handler and the expected outcome."""

import asyncio
import contextlib
import socket
import struct
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from crawlfleet.model.crawl.parameters import Outcome


class ZooVisitor:
    """The client of a request, as a handler sees it."""

    def __init__(
        self, path: str, query: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.path, self.query = path, query
        self._reader, self._writer = reader, writer

    async def send(self, data: bytes) -> None:
        """Send bytes, no faster than they are taken."""
        self._writer.write(data)
        await self._writer.drain()

    async def send_forever(self, data: bytes, *, pause_s: float = 0.0) -> None:
        """Again and again, until the visitor goes away."""
        while True:
            await self.send(data)
            await asyncio.sleep(pause_s)

    async def drip(self, data: bytes, *, pause_s: float) -> None:
        """Byte by byte."""
        for at in range(len(data)):
            await self.send(data[at : at + 1])
            await asyncio.sleep(pause_s)

    async def wait(self) -> None:
        """Say nothing until the visitor goes away."""
        while await self._reader.read(65536):
            pass

    def reset(self) -> None:
        """Close so that the other side sees a reset."""
        sock = self._writer.get_extra_info("socket")
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()


Behaviour = Callable[[ZooVisitor], Awaitable[None]]


class Animal(NamedTuple):
    """A row of the zoo's table."""

    name: str
    outcome: Outcome
    """Expected outcome of one request by a fetcher that takes HTML and may visit the loopback."""
    behave: Behaviour | None = None
    """Handler at `/name` of the zoo's plain server; `None` for animals with a server of their
    own."""
    url: str = ""
    """URL of an animal with a server of its own; `{port:NAME}` is the port of the named server."""
    final: Outcome | None = None
    """Expected outcome of a crawl that follows redirects and checks pages, where it differs."""
    body: bytes | None = None
    """Expected body, where it matters."""
    slow: bool = False
    """True if only a timeout ends the request."""


def reply(
    body: bytes = b"",
    *headers: str,
    status: str = "200 OK",
    content_type: str | None = "text/html",
    length: int | None = -1,
) -> bytes:
    """A whole answer; with the right length unless another, or none (`None`), is given."""
    lines = [f"HTTP/1.1 {status}"]
    if content_type is not None:
        lines.append(f"Content-Type: {content_type}")
    if length is not None:
        lines.append(f"Content-Length: {len(body) if length < 0 else length}")
    return "\r\n".join([*lines, *headers, "", ""]).encode("latin-1") + body


def says(data: bytes) -> Behaviour:
    """Sends this and closes."""

    async def behave(visitor: ZooVisitor) -> None:
        await visitor.send(data)

    return behave


def says_forever(head: bytes, again: bytes, *, pause_s: float = 0.0) -> Behaviour:
    """Sends the beginning once and the rest until the visitor goes away."""

    async def behave(visitor: ZooVisitor) -> None:
        await visitor.send(head)
        await visitor.send_forever(again, pause_s=pause_s)

    return behave


PAGE = b"<!doctype html><html><head><title>Zoo</title></head><body><p>Hello.</p></body></html>"
