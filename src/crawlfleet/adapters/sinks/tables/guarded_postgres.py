"""The connection of a task's sink to its database, with the address guard of crawls.

Names are looked up here, once, and connections go to the addresses that the guard let through.
Nothing comes from the files and variables of the node: no password file, no certificate, no
service, no socket.
"""

import asyncio
import ssl
from typing import Any, Final

import asyncpg  # type: ignore[import-untyped]

from crawlfleet.adapters.sinks.tables.postgres import CONNECT_S, MANNERS, Connection
from crawlfleet.crawl.fetch.dial import Dialler
from crawlfleet.model.crawl.parameters import PostgresAddress

CHECKED: Final = ("verify-ca", "verify-full")
"""SSL modes in which the certificate must be of an authority that the node trusts."""


class GuardedPostgres:
    """Connects to one database."""

    def __init__(self, address: PostgresAddress, *, allow_private: bool) -> None:
        self._address = address
        self._allow_private = allow_private

    async def connect(self) -> Connection:
        """Connect to the first host that accepts. Raises `AddressRefused` if any of the hosts has
        an address that the guard refuses.
        """
        places = await self._places()
        trouble: OSError | None = None
        for name, addresses, port in places:
            try:
                return await self._to(name, addresses, port)
            except OSError as error:
                trouble = error
        raise trouble or OSError("no host")

    async def _places(self) -> list[tuple[str, list[str], int]]:
        """Return each host with its allowed addresses: all hosts are checked before the first
        connection.
        """
        dialler = Dialler(allow_private=self._allow_private, connect_s=CONNECT_S)
        try:
            async with asyncio.timeout(CONNECT_S):
                return [
                    (host, [*await dialler.allowed(host)], port)
                    for host, port in self._address.hosts
                ]
        finally:
            await dialler.close()

    async def _to(self, name: str, addresses: list[str], port: int) -> Connection:
        mode = self._address.sslmode
        if mode == "disable":
            return await self._once(addresses, port, tls=False)
        try:
            return await self._once(addresses, port, tls=_context(name, mode))
        except ConnectionRefusedError:
            raise
        except ConnectionError:  # what the driver says of a server without TLS
            if mode != "prefer":
                raise
        return await self._once(addresses, port, tls=False)

    async def _once(
        self, addresses: list[str], port: int, *, tls: ssl.SSLContext | bool
    ) -> Connection:
        to: dict[str, Any] = {
            "host": addresses,
            "port": [port] * len(addresses),
            "user": self._address.user,
            # Not `None`, which would ask the node's own variables and files for one.
            "password": self._address.password,
            "database": self._address.database,
            "ssl": tls,
            "direct_tls": False,
            "target_session_attrs": "any",
        }
        return await asyncpg.connect(**to, **MANNERS)


class _Named(ssl.SSLContext):
    """Asks for the certificate of a name, though it is connected to an address of it."""

    name: str

    def wrap_bio(self, *args: Any, **options: Any) -> ssl.SSLObject:
        return super().wrap_bio(*args, **{**options, "server_hostname": self.name})


def _context(name: str, mode: str) -> ssl.SSLContext:
    context = _Named(ssl.PROTOCOL_TLS_CLIENT)
    context.name = name
    context.check_hostname = mode == "verify-full"
    context.verify_mode = ssl.CERT_REQUIRED if mode in CHECKED else ssl.CERT_NONE
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if mode in CHECKED:
        context.load_default_certs()
    return context
