"""The way out of a cell: a proxy of the agent's, which connects to what may be reached.

It speaks what every HTTP library can (`HTTP_PROXY`): CONNECT, and plain requests with the whole
URL. The guard judges the address that is connected to, so that it is the same how a name is
spelt or what DNS says of it; a cell needs no DNS, and has none. What goes through is counted, and
slowed down to what the execution was allocated.
"""

import asyncio
import base64
import contextlib
import hmac
import math
import socket
import struct
import time
from collections.abc import Sequence
from enum import Enum, auto
from typing import Final, Protocol, cast

from crawlfleet.crawl.fetch.dial import AddressRefused, Dialler, NoConnection, is_own
from crawlfleet.crawl.fetch.request import Origin, read_target
from crawlfleet.model.isolation import Egress
from crawlfleet.ports.sandbox import ADDRESS_HEADER, OUTCOME_HEADER, PUBLIC_HEADER

HEAD_BYTES: Final = 32_768
HEAD_WAIT_S: Final = 30.0
CHUNK_BYTES: Final = 1 << 16
CONNECT_S: Final = 20.0
LINGER_S: Final = 60.0
"""How long nothing need come of an answer when whoever asked has no more to say."""
BURST_S: Final = 0.1
"""So much of a second's bytes may go at once."""
BITS_OF_A_MEGABIT: Final = 1e6
LENGTH_DIGITS: Final = 18
AT_ONCE: Final = 8
"""So many are let in before the next look at how many there are."""
QUEUE: Final = 128
"""So many may wait for that."""
_HOP_HEADERS: Final = (
    *(b"proxy-", b"connection:", b"keep-alive:"),
    PUBLIC_HEADER.lower().encode(),
)
_RESET: Final = struct.pack("ii", 1, 0)


class Judge(Protocol):
    """Says why a host may not be reached, by the lists of a cell; `None` when it may."""

    def __call__(
        self, host: str, rules: Egress, *, reached_port: int | None = None, is_own: bool = False
    ) -> str | None:
        """With a `reached_port` the host is an address that is connected to, `is_own` if it is
        one of this machine's."""


class Pace:
    """So many bytes a second, of all connections together."""

    def __init__(self, mbps: float | None) -> None:
        self._rate = mbps * BITS_OF_A_MEGABIT / 8 if mbps else None
        self._free_at: float | None = None

    async def take(self, size: int) -> None:
        """Wait until so many bytes more may have gone."""
        if self._rate is None:
            return
        now = time.monotonic()
        # Who was kept waiting makes up for it; who has only begun has nothing to make up for.
        since = now if self._free_at is None else max(self._free_at, now - BURST_S)
        self._free_at = since + size / self._rate
        if self._free_at > now:
            await asyncio.sleep(self._free_at - now)


class _Upstream(asyncio.StreamReaderProtocol):
    """A connection to somebody, as streams."""

    def __init__(self) -> None:
        self.reader = asyncio.StreamReader(limit=CHUNK_BYTES)
        super().__init__(self.reader)
        self.transport: asyncio.BaseTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.transport = transport

    def is_own(self) -> bool:
        """Whether it leads to this machine: who connects to an address of it comes from there."""
        assert self.transport is not None
        ours, theirs = map(self.transport.get_extra_info, ("sockname", "peername"))
        return bool(ours and theirs and ours[0] == theirs[0])

    def writer(self) -> asyncio.StreamWriter:
        loop = asyncio.get_running_loop()
        # Not by its type: those of uvloop are no subclasses of asyncio's.
        transport = cast("asyncio.Transport", self.transport)
        return asyncio.StreamWriter(transport, self, self.reader, loop)


class _End(Enum):
    """How a flow of bytes came to its end."""

    OVER = auto()
    BROKEN = auto()
    """Off, by whoever it came from or went to."""
    TOO_MUCH = auto()


class _Flow:
    """Bytes one way."""

    waits_since = math.inf
    """For the next ones to come."""


class Turned(Exception):
    """Somebody is turned away; `status` is what HTTP says of it."""

    def __init__(self, status: str, reason: str, outcome: str = "") -> None:
        super().__init__(reason)
        self.status = status
        self.outcome = outcome


class EgressProxy:
    """Of one cell. `password` is asked for where others could reach the door, too."""

    def __init__(
        self, rules: Egress, *, judge: Judge, password: str = "", dialler: Dialler | None = None
    ) -> None:
        self._rules = rules
        self._judge = judge
        self._asked = base64.b64encode(f"cell:{password}".encode()) if password else b""
        self._dialler = dialler or Dialler(allow_private=rules.allow_private, connect_s=CONNECT_S)
        self._for_public = self._dialler
        if rules.allow_private:
            self._for_public = self._dialler.for_public_addresses()
        self._pace = Pace(rules.bandwidth_mbps)
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._is_shut = False
        self.received = self.sent = self.refused = 0
        """Bytes from outside, bytes to outside, and requests that were turned down."""

    async def open(self, door: socket.socket) -> None:
        """Answer whoever comes to a listening socket."""
        door.setblocking(False)
        self._server = await asyncio.start_server(
            self._admit, sock=door, limit=HEAD_BYTES, backlog=AT_ONCE
        )
        door.listen(QUEUE)

    def shut(self) -> None:
        """Let nobody in or out any more, and nothing through; may be called twice."""
        self._is_shut = True
        if self._server is not None:
            self._server.close()
            self._server = None
        for connection in self._connections:
            connection.cancel()

    async def close(self) -> None:
        """Break off everything; may be called twice."""
        self.shut()
        if connections := list(self._connections):
            await asyncio.wait(connections, timeout=1.0)
        await self._dialler.close()

    def figures(self) -> dict[str, float]:
        """What went through."""
        return {
            "egress_received_bytes": float(self.received),
            "egress_sent_bytes": float(self.sent),
            "egress_refused": float(self.refused),
        }

    def _admit(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving = asyncio.create_task(self._serve(reader, writer), name="egress of a cell")
        self._connections.add(serving)
        serving.add_done_callback(self._connections.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            self._check_room()
            async with asyncio.timeout(HEAD_WAIT_S):
                head = await reader.readuntil(b"\r\n\r\n")
            await self._forward(head, reader, writer)
        except Turned as refusal:
            self.refused += 1
            writer.write(_answer(refusal))
            with contextlib.suppress(OSError):
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # whoever asked is gone, or made no sense
        finally:
            writer.close()

    async def _forward(
        self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        first, *lines = head[:-4].split(b"\r\n")
        self._check_password(lines)
        words = first.split(b" ")
        if len(words) != 3:
            raise Turned("400 Bad Request", "not an HTTP request")
        method, url, version = words
        is_tunnel = method == b"CONNECT"
        target = read_target(
            f"http://{url.decode('latin-1')}/" if is_tunnel else url.decode("latin-1")
        )
        if target is None or (not is_tunnel and target.origin.tls):
            raise Turned("400 Bad Request", "use CONNECT, or the whole URL of a plain request")
        size = None if is_tunnel else _body_bytes(lines)
        public_only = bool(_header(lines, PUBLIC_HEADER))
        upstream, address = await self._dial(target.origin, public_only=public_only)
        out = upstream.writer()
        try:
            if is_tunnel:
                told = f"{ADDRESS_HEADER}: {address}\r\n\r\n".encode()
                writer.write(b"HTTP/1.1 200 Connection established\r\n" + told)
            else:
                kept = [each for each in lines if not each.lower().startswith(_HOP_HEADERS)]
                request = b" ".join((method, target.path.encode(), version))
                plain = b"\r\n".join((request, *kept, b"Connection: close", b"", b""))
                out.write(plain)
                self.sent += len(plain)
            await self._exchange(reader, writer, upstream.reader, out, size)
        finally:
            out.close()

    def _check_room(self) -> None:
        """Of those who are here, this one among them, some may be too many."""
        most = self._rules.connections
        if len(self._connections) > most:
            raise Turned("503 Service Unavailable", f"it has {most} connections already")

    def _check_password(self, lines: list[bytes]) -> None:
        if not self._asked:
            return
        shown = _header(lines, "proxy-authorization").partition(b" ")[2].strip()
        if hmac.compare_digest(shown, self._asked):
            return
        raise Turned("407 Proxy Authentication Required", "this is somebody else's proxy")

    async def _dial(self, origin: Origin, *, public_only: bool = False) -> tuple[_Upstream, str]:
        """A connection, and the address that it leads to."""
        if reason := self._judge(origin.host, self._rules):
            raise Turned("403 Forbidden", reason)
        dialler = self._for_public if public_only else self._dialler
        try:
            # Never with TLS: what is in the tunnel is between the cell and the other side.
            upstream, address = await dialler.open(
                origin._replace(tls=False), None, _Upstream, self._barred
            )
        except AddressRefused as error:
            raise Turned("403 Forbidden", error.reason) from None
        except NoConnection as error:
            raise Turned("502 Bad Gateway", str(error), str(error.outcome)) from None
        if upstream.is_own() and (reason := self._barred(address, origin.port, is_ours=True)):
            upstream.writer().close()
            raise Turned("403 Forbidden", reason)
        return upstream, address

    def _barred(self, address: str, port: int = 0, *, is_ours: bool = False) -> str | None:
        """Why the lists keep a cell from an address; asked before it is connected to, so that
        nobody learns which of its ports are open."""
        is_ours = is_ours or is_own(address)
        return self._judge(address, self._rules, reached_port=port, is_own=is_ours)

    async def _exchange(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        from_out: asyncio.StreamReader,
        out: asyncio.StreamWriter,
        size: int | None = None,
    ) -> None:
        """Carry bytes both ways until the other side has ended, or has nothing to say for a while
        after this one has. What did not come to its end is broken off, so that nobody takes it for
        whole. With a `size`, so many go out, and whoever has more to say is cut off: it would be
        another request, perhaps for another host, on a connection that its server left open."""
        back = _Flow()
        going = asyncio.create_task(self._carry(reader, out, _Flow(), is_sent=True, size=size))
        coming = asyncio.create_task(self._carry(from_out, writer, back, is_sent=False))
        try:
            await asyncio.wait([going, coming], return_when=asyncio.FIRST_COMPLETED)
            if going.done() and going.result() is _End.TOO_MUCH:
                return
            left_s = LINGER_S
            while not coming.done() and left_s > 0:
                await asyncio.wait([coming], timeout=left_s)
                left_s = min(back.waits_since - time.monotonic(), 0.0) + LINGER_S
            if not coming.done() or coming.result() is _End.BROKEN:
                reset_connection(writer)
        finally:
            going.cancel()
            coming.cancel()
            await asyncio.wait([going, coming])

    async def _carry(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        flow: _Flow,
        *,
        is_sent: bool,
        size: int | None = None,
    ) -> _End:
        """Carry all that comes; it is too much if it is more than the `size`."""
        left = size
        try:
            while True:
                flow.waits_since = time.monotonic()
                data = await reader.read(CHUNK_BYTES)
                flow.waits_since = math.inf
                if not data:
                    break
                if self._is_shut:
                    return _End.BROKEN
                if left is not None and len(data) > left:
                    return _End.TOO_MUCH
                left = None if left is None else left - len(data)
                if is_sent:
                    self.sent += len(data)
                else:
                    self.received += len(data)
                await self._pace.take(len(data))
                writer.write(data)
                await writer.drain()
            if is_sent and writer.can_write_eof():
                writer.write_eof()
        except OSError:
            return _End.BROKEN
        return _End.OVER


def reset_connection(writer: asyncio.StreamWriter) -> None:
    """End a connection so that the other side sees that it was not meant to end here."""
    with contextlib.suppress(OSError, AttributeError):
        sock = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    writer.transport.abort()


def _body_bytes(lines: Sequence[bytes]) -> int | None:
    """How much follows the head of a request; `None` where it does not say. Raises `Turned`."""
    size: int | None = 0
    for line in lines:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"transfer-encoding":
            return None
        if name.strip().lower() == b"content-length":
            if not value.strip().isdigit() or len(value.strip()) > LENGTH_DIGITS:
                raise Turned("400 Bad Request", "Content-Length is no length")
            size = int(value)
    return size


def _answer(refusal: Turned) -> bytes:
    body = f"crawlfleet: {refusal}\n".encode()
    told = f"{OUTCOME_HEADER}: {refusal.outcome}\r\n" if refusal.outcome else ""
    return (
        f"HTTP/1.1 {refusal.status}\r\nContent-Type: text/plain; charset=utf-8\r\n{told}"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    ).encode() + body


def _header(lines: list[bytes], name: str) -> bytes:
    """The value of a header; empty when there is none."""
    for line in lines:
        found, _, value = line.partition(b":")
        if found.strip().lower() == name.lower().encode():
            return value.strip()
    return b""
