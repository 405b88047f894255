"""Connects from a cell through the agent's proxy, which resolves names and judges addresses.

A process in a cell has no network and no name servers. It asks the agent for each connection
(CONNECT), and gets a socket to the target, or the reason for a refusal.
"""

import asyncio
import contextlib
import os
import socket
from typing import Final

from crawlfleet.crawl.fetch.proxy import Proxy, read_proxy
from crawlfleet.model.crawl.parameters import Outcome
from crawlfleet.ports.sandbox import ADDRESS_HEADER, OUTCOME_HEADER, PUBLIC_HEADER, WAY_OUT

MAX_REPLY_BYTES: Final = 16_384
END_OF_HEAD: Final = b"\r\n\r\n"


class SandboxProxyClosed(Exception):
    """The agent does not connect there, by its rules."""


class Unreached(Exception):
    """The agent tried and could not connect; `outcome` is the outcome of the visit."""

    def __init__(self, reason: str, outcome: Outcome = Outcome.CONNECT) -> None:
        super().__init__(reason)
        self.outcome = outcome


def door_of_cell() -> "SandboxProxy | None":
    """Return the agent's proxy for the cell that this process is in; `None` when it is in none."""
    told = os.environ.get(WAY_OUT)
    return SandboxProxy(read_proxy(told)) if told else None


class SandboxProxy:
    """Connects to the targets that the agent allows."""

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy

    async def connect(
        self, host: str, port: int, *, public_only: bool
    ) -> tuple[socket.socket, str]:
        """A socket to a host, by its name, and the address that it leads to. `public_only` asks
        for less than the node may allow. Raises `SandboxProxyClosed`, `Unreached` and `OSError`."""
        loop = asyncio.get_running_loop()
        way = socket.socket(socket.AF_INET)
        try:
            way.setblocking(False)
            way.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await loop.sock_connect(way, (self._proxy.host, self._proxy.port))
            await loop.sock_sendall(way, self._request(host, port, public_only))
            status, headers = _read(await _reply(loop, way))
            if status == 200:
                return way, headers.get(ADDRESS_HEADER.lower(), "")
            reason = await _reason(loop, way)
        except BaseException:
            way.close()
            raise
        way.close()
        if status == 403:
            raise SandboxProxyClosed(reason)
        outcome = Outcome.CONNECT
        with contextlib.suppress(ValueError):
            outcome = Outcome(headers.get(OUTCOME_HEADER.lower(), outcome))
        raise Unreached(reason or f"the node's proxy answered {status}", outcome)

    def _request(self, host: str, port: int, public_only: bool) -> bytes:
        authority = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        lines = [f"CONNECT {authority} HTTP/1.1", f"Host: {authority}"]
        if secret := self._proxy.authorization:
            lines.append(f"Proxy-Authorization: {secret}")
        if public_only:
            lines.append(f"{PUBLIC_HEADER}: yes")
        return "\r\n".join((*lines, "", "")).encode()


async def _reply(loop: asyncio.AbstractEventLoop, way: socket.socket) -> bytes:
    """Return the head of the response. Bytes behind it are left unread: a server may be the first
    to send."""
    reply = b""
    while not reply.endswith(END_OF_HEAD) and len(reply) < MAX_REPLY_BYTES:
        await _something(loop, way)
        seen = way.recv(4096, socket.MSG_PEEK)
        if not seen:
            raise Unreached("the node's proxy closed the connection")
        end = (reply + seen).find(END_OF_HEAD)
        reply += way.recv(len(seen) if end < 0 else end + len(END_OF_HEAD) - len(reply))
    return reply.removesuffix(END_OF_HEAD)


async def _something(loop: asyncio.AbstractEventLoop, way: socket.socket) -> None:
    """Wait until there is something to be read."""
    came = asyncio.Event()
    loop.add_reader(way, came.set)
    try:
        await came.wait()
    finally:
        loop.remove_reader(way)


async def _reason(loop: asyncio.AbstractEventLoop, way: socket.socket) -> str:
    """The body of a refusal, which ends with the connection."""
    rest = b""
    while len(rest) < MAX_REPLY_BYTES and (data := await loop.sock_recv(way, 4096)):
        rest += data
    return rest.decode(errors="replace").strip().removeprefix("crawlfleet: ")


def _read(head: bytes) -> tuple[int, dict[str, str]]:
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split()
    status = int(words[1]) if len(words) > 1 and words[1].isdecimal() else 0
    headers = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    return status, headers
