"""Resolves host names, and caches the addresses for their TTL, within bounds.

Nothing is judged here: the dialler asks the guard about each address just before it connects.
"""

import asyncio
import contextlib
import socket
import time
from collections import OrderedDict
from collections.abc import Sequence
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from crawlfleet.errors import CrawlfleetError

if TYPE_CHECKING:
    from aiodns import DNSResolver

REMEMBERED: Final = 10_000
MIN_TTL_S: Final = 10.0
"""Minimum seconds in the cache, even if the TTL is 0: a page has more than one request."""
MAX_TTL_S: Final = 300.0
UNKNOWN_TTL_S: Final = 10.0


class NameUnknown(CrawlfleetError):
    """A name has no address, or could not be resolved."""

    retryable = True


class NameUnanswered(NameUnknown):
    """The resolver did not answer; the name may well have an address."""


class Addresses(NamedTuple):
    addresses: tuple[str, ...]
    ttl_s: float


class Directory(Protocol):
    """A resolver of host names."""

    async def look_up(self, host: str) -> Addresses:
        """Return the addresses of a name, the best first. Raises `NameUnknown` when there is none,
        and `NameUnanswered` when the resolver does not answer."""
        ...

    async def close(self) -> None: ...


class SystemDirectory:
    """Asks the name servers of this machine, and its hosts file, without threads."""

    def __init__(self, *, timeout_s: float = 5.0) -> None:
        self._resolver: DNSResolver | None = None
        self._timeout_s = timeout_s

    async def look_up(self, host: str) -> Addresses:
        import aiodns  # not for those who crawl addresses, or by way of a proxy

        if self._resolver is None:
            self._resolver = aiodns.DNSResolver(timeout=self._timeout_s, tries=2)
        try:
            answer = await self._resolver.getaddrinfo(
                host, family=socket.AF_UNSPEC, type=socket.SOCK_STREAM
            )
        except (aiodns.error.DNSError, UnicodeError) as error:
            reason = error.args[1] if len(error.args) > 1 else error
            has_none = isinstance(error, UnicodeError) or error.args[0] in {
                aiodns.error.ARES_ENOTFOUND,
                aiodns.error.ARES_ENODATA,
                aiodns.error.ARES_EBADNAME,
            }
            trouble = NameUnknown if has_none else NameUnanswered
            raise trouble(f"{host}: {str(reason).lower()}") from None
        found = tuple(dict.fromkeys(bytes(node.addr[0]).decode() for node in answer.nodes))
        if not found:
            raise NameUnknown(f"{host}: no address")
        return Addresses(found, min((float(node.ttl) for node in answer.nodes), default=0.0))

    async def close(self) -> None:
        if self._resolver is not None:
            await self._resolver.close()


class Names:
    """A cache of host addresses. Concurrent look-ups of a name are one request to the resolver."""

    def __init__(self, directory: Directory | None = None, *, size: int = REMEMBERED) -> None:
        self._directory = directory or SystemDirectory()
        self._size = size
        self._known: OrderedDict[str, tuple[Addresses | NameUnknown, float]] = OrderedDict()
        self._asking: dict[str, asyncio.Future[None]] = {}

    async def addresses(self, host: str) -> Sequence[str]:
        """Return the addresses of a host; a literal is its own. Raises `NameUnknown`."""
        if is_literal(host):
            return (host,)
        while True:
            if known := self._known.get(host):
                answer, until = known
                if time.monotonic() < until:
                    self._known.move_to_end(host)
                    if isinstance(answer, NameUnknown):
                        raise type(answer)(str(answer))
                    return answer.addresses
            if not (asking := self._asking.get(host)):
                return await self._ask(host)
            # However that ends: when whoever asks gives up, the next one asks.
            await asyncio.wait([asking])

    async def _ask(self, host: str) -> Sequence[str]:
        done = self._asking[host] = asyncio.get_running_loop().create_future()
        try:
            answer = await self._directory.look_up(host)
        except NameUnknown as error:
            self._remember(host, type(error)(str(error)), UNKNOWN_TTL_S)
            raise
        finally:
            del self._asking[host]
            done.set_result(None)
        self._remember(host, answer, min(max(answer.ttl_s, MIN_TTL_S), MAX_TTL_S))
        return answer.addresses

    def _remember(self, host: str, answer: Addresses | NameUnknown, ttl_s: float) -> None:
        self._known[host] = (answer, time.monotonic() + ttl_s)
        self._known.move_to_end(host)
        if len(self._known) > self._size:
            self._known.popitem(last=False)

    async def close(self) -> None:
        with contextlib.suppress(OSError):
            await self._directory.close()


def is_literal(host: str) -> bool:
    """Return whether the host is an IP address rather than a name."""
    # A name's last letter cannot be a digit, nor can a name have a colon: most are told so.
    if not (host[-1:].isdigit() or ":" in host):
        return False
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
