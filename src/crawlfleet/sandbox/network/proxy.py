"""The egress proxy: an HTTP proxy in the agent, by which a cell reaches the network.

It answers CONNECT and plain requests with the whole URL, as every HTTP library can send them
(`HTTP_PROXY`). The egress guard checks the address that the proxy connects to, so the spelling of
a name and the answers of DNS do not matter. A cell has no DNS and needs none. The proxy counts all
bytes and limits them to the bandwidth of the execution.
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
from crawlfleet.crawl.fetch.request import RequestOrigin, read_target
from crawlfleet.model.isolation import Egress
from crawlfleet.ports.sandbox import ADDRESS_HEADER, OUTCOME_HEADER, PUBLIC_HEADER

HEAD_BYTES: Final = 32_768
HEAD_WAIT_S: Final = 30.0
CHUNK_BYTES: Final = 1 << 16
CONNECT_S: Final = 20.0
LINGER_S: Final = 60.0
"""Seconds that a response may pause after the cell has closed its half of the connection."""
BURST_S: Final = 0.1
"""The part of a second whose bytes may pass in one burst."""
BITS_OF_A_MEGABIT: Final = 1e6
LENGTH_DIGITS: Final = 18
ACCEPT_BATCH: Final = 8
"""Connections to accept before they are counted again."""
MAX_WAITING: Final = 128
"""Connections that may wait to be accepted."""
_HOP_HEADERS: Final = (
    *(b"proxy-", b"connection:", b"keep-alive:"),
    PUBLIC_HEADER.lower().encode(),
)
_RESET: Final = struct.pack("ii", 1, 0)


class EgressCheck(Protocol):
    """Returns why a cell may not reach a host by its lists; `None` when it may."""

    def __call__(
        self, host: str, rules: Egress, *, reached_port: int | None = None, is_own: bool = False
    ) -> str | None:
        """Check a host name, or with `reached_port` the address to connect to. `is_own` says that
        the address belongs to this machine."""


class RateLimit:
    """Limits the bytes per second of all connections together."""

    def __init__(self, mbps: float | None) -> None:
        self._rate = mbps * BITS_OF_A_MEGABIT / 8 if mbps else None
        self._free_at: float | None = None

    async def take(self, size: int) -> None:
        """Wait until `size` more bytes are allowed."""
        if self._rate is None:
            return
        now = time.monotonic()
        # A flow that was late may catch up; a new flow has nothing to catch up with.
        since = now if self._free_at is None else max(self._free_at, now - BURST_S)
        self._free_at = since + size / self._rate
        if self._free_at > now:
            await asyncio.sleep(self._free_at - now)


class _Upstream(asyncio.StreamReaderProtocol):
    """The connection to a server, as streams."""

    def __init__(self) -> None:
        self.reader = asyncio.StreamReader(limit=CHUNK_BYTES)
        super().__init__(self.reader)
        self.transport: asyncio.BaseTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.transport = transport

    def is_own(self) -> bool:
        """Return whether the server is this machine: then both ends have the same address."""
        assert self.transport is not None
        ours, theirs = map(self.transport.get_extra_info, ("sockname", "peername"))
        return bool(ours and theirs and ours[0] == theirs[0])

    def writer(self) -> asyncio.StreamWriter:
        loop = asyncio.get_running_loop()
        # A cast, since uvloop's transports are no subclasses of asyncio's.
        transport = cast("asyncio.Transport", self.transport)
        return asyncio.StreamWriter(transport, self, self.reader, loop)


class _FlowEnd(Enum):
    """The way in which a flow of bytes ended."""

    OVER = auto()
    BROKEN = auto()
    """One side reset the connection."""
    TOO_MUCH = auto()


class _Flow:
    """The bytes of one direction."""

    waits_since = math.inf
    """When it began to wait for the next bytes; infinite while it does not wait."""


class ProxyRefusal(Exception):
    """The proxy refuses a request; `status` is the HTTP status."""

    def __init__(self, status: str, reason: str, outcome: str = "") -> None:
        super().__init__(reason)
        self.status = status
        self.outcome = outcome


class EgressProxy:
    """The proxy of one cell."""

    def __init__(
        self,
        rules: Egress,
        *,
        check_egress: EgressCheck,
        password: str = "",
        dialler: Dialler | None = None,
    ) -> None:
        """Make a proxy. With a `password` it answers only requests that carry it; set one where
        other processes can reach the port."""
        self._rules = rules
        self._check_egress = check_egress
        self._credentials = base64.b64encode(f"cell:{password}".encode()) if password else b""
        self._dialler = dialler or Dialler(allow_private=rules.allow_private, connect_s=CONNECT_S)
        self._for_public = self._dialler
        if rules.allow_private:
            self._for_public = self._dialler.for_public_addresses()
        self._rate_limit = RateLimit(rules.bandwidth_mbps)
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._is_shut = False
        self.received = self.sent = self.refused = 0
        """Bytes received and sent, and the number of refused requests."""

    async def open(self, listening: socket.socket) -> None:
        """Serve the connections of a listening socket."""
        listening.setblocking(False)
        self._server = await asyncio.start_server(
            self._admit, sock=listening, limit=HEAD_BYTES, backlog=ACCEPT_BATCH
        )
        listening.listen(MAX_WAITING)

    def shut(self) -> None:
        """Stop accepting connections and passing bytes; may be called twice."""
        self._is_shut = True
        if self._server is not None:
            self._server.close()
            self._server = None
        for connection in self._connections:
            connection.cancel()

    async def close(self) -> None:
        """End all connections; may be called twice."""
        self.shut()
        if connections := list(self._connections):
            await asyncio.wait(connections, timeout=1.0)
        await self._dialler.close()

    def figures(self) -> dict[str, float]:
        """Return the byte and refusal counts as metrics."""
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
        except ProxyRefusal as refusal:
            self.refused += 1
            writer.write(_answer(refusal))
            with contextlib.suppress(OSError):
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # the cell closed the connection, or sent no HTTP
        finally:
            writer.close()

    async def _forward(
        self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        first, *lines = head[:-4].split(b"\r\n")
        self._check_password(lines)
        words = first.split(b" ")
        if len(words) != 3:
            raise ProxyRefusal("400 Bad Request", "not an HTTP request")
        method, url, version = words
        is_tunnel = method == b"CONNECT"
        target = read_target(
            f"http://{url.decode('latin-1')}/" if is_tunnel else url.decode("latin-1")
        )
        if target is None or (not is_tunnel and target.origin.tls):
            raise ProxyRefusal(
                "400 Bad Request", "use CONNECT, or the whole URL of a plain request"
            )
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
        """Refuse the current connection when the cell has too many."""
        most = self._rules.connections
        if len(self._connections) > most:
            raise ProxyRefusal("503 Service Unavailable", f"it has {most} connections already")

    def _check_password(self, lines: list[bytes]) -> None:
        if not self._credentials:
            return
        shown = _header(lines, "proxy-authorization").partition(b" ")[2].strip()
        if hmac.compare_digest(shown, self._credentials):
            return
        raise ProxyRefusal(
            "407 Proxy Authentication Required", "this proxy belongs to another cell"
        )

    async def _dial(
        self, origin: RequestOrigin, *, public_only: bool = False
    ) -> tuple[_Upstream, str]:
        """Connect to a server; return the connection and the address. Raises `ProxyRefusal`."""
        if reason := self._check_egress(origin.host, self._rules):
            raise ProxyRefusal("403 Forbidden", reason)
        dialler = self._for_public if public_only else self._dialler
        try:
            # Never with TLS: the cell itself speaks TLS inside the tunnel.
            upstream, address = await dialler.open(
                origin._replace(tls=False), None, _Upstream, self._refusal
            )
        except AddressRefused as error:
            raise ProxyRefusal("403 Forbidden", error.reason) from None
        except NoConnection as error:
            raise ProxyRefusal("502 Bad Gateway", str(error), str(error.outcome)) from None
        if upstream.is_own() and (reason := self._refusal(address, origin.port, is_ours=True)):
            upstream.writer().close()
            raise ProxyRefusal("403 Forbidden", reason)
        return upstream, address

    def _refusal(self, address: str, port: int = 0, *, is_ours: bool = False) -> str | None:
        """Return why the lists refuse an address. It is checked before connecting, so that a cell
        cannot learn which ports are open."""
        is_ours = is_ours or is_own(address)
        return self._check_egress(address, self._rules, reached_port=port, is_own=is_ours)

    async def _exchange(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        from_out: asyncio.StreamReader,
        out: asyncio.StreamWriter,
        size: int | None = None,
    ) -> None:
        """Carry bytes both ways until the server ends, or pauses too long after the cell has ended.

        An incomplete answer ends with a reset, so that the cell does not take it for whole. With a
        `size` the cell may send that many bytes; more would be another request, perhaps for another
        host, on a connection that the server left open, and ends the connection.
        """
        back = _Flow()
        going = asyncio.create_task(self._carry(reader, out, _Flow(), is_sent=True, size=size))
        coming = asyncio.create_task(self._carry(from_out, writer, back, is_sent=False))
        try:
            await asyncio.wait([going, coming], return_when=asyncio.FIRST_COMPLETED)
            if going.done() and going.result() is _FlowEnd.TOO_MUCH:
                return
            left_s = LINGER_S
            while not coming.done() and left_s > 0:
                await asyncio.wait([coming], timeout=left_s)
                left_s = min(back.waits_since - time.monotonic(), 0.0) + LINGER_S
            if not coming.done() or coming.result() is _FlowEnd.BROKEN:
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
    ) -> _FlowEnd:
        """Carry one direction; more bytes than `size` end it with `TOO_MUCH`."""
        left = size
        try:
            while True:
                flow.waits_since = time.monotonic()
                data = await reader.read(CHUNK_BYTES)
                flow.waits_since = math.inf
                if not data:
                    break
                if self._is_shut:
                    return _FlowEnd.BROKEN
                if left is not None and len(data) > left:
                    return _FlowEnd.TOO_MUCH
                left = None if left is None else left - len(data)
                if is_sent:
                    self.sent += len(data)
                else:
                    self.received += len(data)
                await self._rate_limit.take(len(data))
                writer.write(data)
                await writer.drain()
            if is_sent and writer.can_write_eof():
                writer.write_eof()
        except OSError:
            return _FlowEnd.BROKEN
        return _FlowEnd.OVER


def reset_connection(writer: asyncio.StreamWriter) -> None:
    """End a connection with a reset, so that the cell sees that the answer is incomplete."""
    with contextlib.suppress(OSError, AttributeError):
        sock = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    writer.transport.abort()


def _body_bytes(lines: Sequence[bytes]) -> int | None:
    """Return the length of a request's body; `None` when the request does not state it. Raises
    `ProxyRefusal`."""
    size: int | None = 0
    for line in lines:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"transfer-encoding":
            return None
        if name.strip().lower() == b"content-length":
            if not value.strip().isdigit() or len(value.strip()) > LENGTH_DIGITS:
                raise ProxyRefusal("400 Bad Request", "Content-Length is no length")
            size = int(value)
    return size


def _answer(refusal: ProxyRefusal) -> bytes:
    body = f"crawlfleet: {refusal}\n".encode()
    told = f"{OUTCOME_HEADER}: {refusal.outcome}\r\n" if refusal.outcome else ""
    return (
        f"HTTP/1.1 {refusal.status}\r\nContent-Type: text/plain; charset=utf-8\r\n{told}"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    ).encode() + body


def _header(lines: list[bytes], name: str) -> bytes:
    """Return the value of a header; empty when it is missing."""
    for line in lines:
        found, _, value = line.partition(b":")
        if found.strip().lower() == name.lower().encode():
            return value.strip()
    return b""
