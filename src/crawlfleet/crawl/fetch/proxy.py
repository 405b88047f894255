"""Ways through a proxy: which one, and how to ask it for a connection to somewhere else."""

import asyncio
import base64
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit

from crawlfleet.errors import CrawlfleetError

SCHEMES: Final = {"http": 80, "https": 443, "socks5": 1080, "socks5h": 1080}
MAX_REPLY_BYTES: Final = 16_384
HIDDEN_NAMES: Final = frozenset({"metadata.google.internal", "metadata.goog", "instance-data"})
"""Metadata services by name: only the proxy's side may be able to resolve them."""


class BadProxy(CrawlfleetError):
    """The address of a proxy cannot be used; the message names the remedy."""


class ProxyRefused(CrawlfleetError):
    """The proxy did not give a connection."""

    retryable = True


class Proxy(NamedTuple):
    scheme: str
    host: str
    port: int
    username: str | None
    password: str | None

    @property
    def authorization(self) -> str | None:
        """The value of a Proxy-Authorization header."""
        if self.username is None:
            return None
        secret = f"{self.username}:{self.password or ''}".encode()
        return f"Basic {base64.b64encode(secret).decode()}"


@lru_cache(maxsize=1000)
def read_proxy(url: str) -> Proxy:
    """The proxy that a URL names. Raises `BadProxy`."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme not in SCHEMES or not parts.hostname:
        raise BadProxy(
            "the proxy must be an http://, https:// or socks5:// address with a host;"
            " correct `fetching.proxy`"
        )
    return Proxy(
        parts.scheme,
        parts.hostname,
        port or SCHEMES[parts.scheme],
        unquote(parts.username) if parts.username is not None else None,
        unquote(parts.password) if parts.password is not None else None,
    )


class Tunnel(asyncio.Protocol):
    """Requests a connection from an HTTP proxy (CONNECT), and reads its reply."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self._reply = b""
        self._opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]

    async def open(self, proxy: Proxy, host: str, port: int) -> None:
        """Raises `ProxyRefused`. Afterwards the transport leads to the host."""
        authority = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        secret = proxy.authorization
        extra = f"Proxy-Authorization: {secret}\r\n" if secret else ""
        self.transport.write(
            f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n{extra}\r\n".encode()
        )
        await self._opened

    def data_received(self, data: bytes) -> None:
        self._reply += data
        head, end, rest = self._reply.partition(b"\r\n\r\n")
        if self._opened.done():
            return
        if not end:
            if len(self._reply) > MAX_REPLY_BYTES:
                self._refuse("made no sense")
            return
        words = head.split(b"\r\n", 1)[0].split(None, 2)
        status = words[1] if len(words) > 1 and words[0].startswith(b"HTTP/1.") else b""
        if not status.isdigit():
            self._refuse("made no sense")
        elif not status.startswith(b"2"):
            self._refuse(f"answered {status.decode()} when asked for a connection")
        elif rest:
            self._refuse("sent more than was asked for")
        else:
            self._opened.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        if not self._opened.done():
            self._refuse("closed the connection")

    def _refuse(self, what: str) -> None:
        self._opened.set_exception(ProxyRefused(f"the proxy {what}"))
