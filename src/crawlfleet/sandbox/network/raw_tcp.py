"""The way out of a cell for programs that know of no proxy: connections as they make them.

In the cell's namespace every connection ends at a door of the agent's
(`sandbox.network.raw_tcp_setup`), which learns from the kernel where it was meant to go, and
carries it there by the rules of the proxy: the same guard, the same lists, the same pace, the same
counts. Names are answered here, too, so that lists of names decide about them; and an address is
known by a name that it was given out for.
"""

import asyncio
import socket
from collections import OrderedDict
from collections.abc import Coroutine, Iterable
from typing import Any, Final

from crawlfleet.crawl.fetch.request import Origin
from crawlfleet.sandbox.network import dns
from crawlfleet.sandbox.network.proxy import AT_ONCE, QUEUE, EgressProxy, Turned, break_off

MOST_REMEMBERED: Final = 10_000
"""Addresses of which a name is known; the oldest are forgotten first."""
MOST_ASKED: Final = 64
"""Questions at once; further ones get no answer, and are asked again."""
_ORIGINAL_DESTINATION: Final = 80


class RawTcp:
    """Of one cell, beside its proxy."""

    def __init__(self, proxy: EgressProxy) -> None:
        self._proxy = proxy
        self._names: OrderedDict[str, str] = OrderedDict()
        """One for each address is enough: only those that are allowed are given out."""
        self._servers: list[asyncio.Server] = []
        self._ears: list[asyncio.DatagramTransport] = []
        self._carrying: set[asyncio.Task[None]] = set()
        self._asking: set[asyncio.Task[None]] = set()

    async def open(self, doors: Iterable[socket.socket]) -> None:
        """Answer at all of them."""
        loop = asyncio.get_running_loop()
        for door in doors:
            door.setblocking(False)
            if door.type == socket.SOCK_STREAM:
                server = await asyncio.start_server(self._admit, sock=door, backlog=AT_ONCE)
                self._servers.append(server)
                door.listen(QUEUE)
            else:
                ear, _ = await loop.create_datagram_endpoint(lambda: _Ear(self), sock=door)
                self._ears.append(ear)

    def shut(self) -> None:
        """Hear nobody any more, and answer nobody; may be called twice."""
        for server in self._servers:
            server.close()
        for ear in self._ears:
            ear.close()
        self._servers, self._ears = [], []
        for task in (*self._carrying, *self._asking):
            task.cancel()

    async def close(self) -> None:
        """Break off everything; may be called twice."""
        self.shut()
        if at_work := [*self._carrying, *self._asking]:
            await asyncio.wait(at_work, timeout=1.0)

    def asked(self, question: bytes, where: Any, ear: asyncio.DatagramTransport) -> None:
        """Somebody wants to know a name."""
        if len(self._asking) < MOST_ASKED:
            _begin(self._answer(question, where, ear), self._asking)

    def _admit(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _begin(self._carry(reader, writer), self._carrying)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            host, port = destination(writer.get_extra_info("socket"))
            # By a name that is allowed, if it was given out for one.
            names = [self._names[host]] if host in self._names else []
            place = f"[{host}]" if ":" in host else host
            origin = Origin(tls=False, host=host, port=port, authority=f"{place}:{port}")
            await self._proxy.carry(origin, reader, writer, known_as=names)
        except (Turned, OSError):
            break_off(writer)  # there is no other way to tell
        finally:
            writer.close()

    async def _answer(self, question: bytes, where: Any, ear: asyncio.DatagramTransport) -> None:
        asked = dns.read(question)
        if asked is None:
            return
        addresses, trouble = await self._proxy.look_up(asked.name)
        if self._proxy.allows_by_name:
            self._remember(asked.name, addresses)
        if not ear.is_closing():
            ear.sendto(dns.answer(question, asked, addresses, trouble), where)

    def _remember(self, name: str, addresses: Iterable[str]) -> None:
        for address in addresses:
            self._names[address] = name
            self._names.move_to_end(address)
        while len(self._names) > MOST_REMEMBERED:
            self._names.popitem(last=False)


def _begin(work: Coroutine[Any, Any, None], among: set[asyncio.Task[None]]) -> None:
    task = asyncio.create_task(work, name="raw TCP of a cell")
    among.add(task)
    task.add_done_callback(among.discard)


class _Ear(asyncio.DatagramProtocol):
    def __init__(self, owner: RawTcp) -> None:
        self._owner = owner

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._ear: Any = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self._owner.asked(data, addr, self._ear)


def destination(sock: Any) -> tuple[str, int]:
    """Where a connection was meant to go before it was redirected. Raises `OSError`."""
    if sock.family == socket.AF_INET:
        told = sock.getsockopt(socket.SOL_IP, _ORIGINAL_DESTINATION, 16)
        return socket.inet_ntop(socket.AF_INET, told[4:8]), int.from_bytes(told[2:4], "big")
    told = sock.getsockopt(socket.IPPROTO_IPV6, _ORIGINAL_DESTINATION, 28)
    return socket.inet_ntop(socket.AF_INET6, told[8:24]), int.from_bytes(told[2:4], "big")
