"""Connections that go to allowed addresses only.

The guard looks at the very address that a socket is about to connect to, so that literals, odd
spellings, DNS answers and redirects are all the same to it, and an answer that changes between
check and use has no effect: there is no second look-up.
"""

import socket
from typing import ClassVar

import aiohttp
from aiohappyeyeballs import AddrInfoType
from aiohttp.abc import AbstractResolver, ResolveResult

from crawlfleet.core import egress
from crawlfleet.errors import CrawlfleetError
from crawlfleet.model.task import ErrorClass


class AddressRefused(CrawlfleetError):
    """The guard does not let a connection through; the message names the remedy."""

    error_class: ClassVar = ErrorClass.INVALID

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"not connected: {reason}; if this node may reach such addresses,"
            " set `worker.allow_private`"
        )


class NetworkTrouble(CrawlfleetError):
    """The other side could not be reached, broke off, or made no sense."""

    error_class: ClassVar = ErrorClass.NETWORK
    retryable = True


class GuardedResolver(AbstractResolver):
    """Leaves out the forbidden addresses of a name. Raises `AddressRefused` when none is left."""

    def __init__(self, names: AbstractResolver, *, allow_private: bool) -> None:
        self._names = names
        self._allow_private = allow_private

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        answers = await self._names.resolve(host, port, family)
        reasons = [
            egress.refusal(answer["host"], allow_private=self._allow_private) for answer in answers
        ]
        allowed = [answer for answer, reason in zip(answers, reasons, strict=True) if not reason]
        if answers and not allowed:
            raise AddressRefused(f"{host}: {reasons[0]}")
        return allowed

    async def close(self) -> None:
        await self._names.close()


def guarded_connector(
    *, allow_private: bool, names: AbstractResolver | None = None, limit: int = 100
) -> aiohttp.TCPConnector:
    """A connector whose sockets connect to allowed addresses only, at most `limit` at once.

    `names` resolves names, the system by default. Must be called with a running event loop.
    """

    def make_socket(address: AddrInfoType) -> socket.socket:
        family, kind, protocol, _, destination = address
        if reason := egress.refusal(str(destination[0]), allow_private=allow_private):
            raise AddressRefused(reason)
        return socket.socket(family=family, type=kind, proto=protocol)

    resolver = GuardedResolver(names or aiohttp.DefaultResolver(), allow_private=allow_private)
    return aiohttp.TCPConnector(resolver=resolver, socket_factory=make_socket, limit=limit)
