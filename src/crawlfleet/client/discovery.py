"""Masters on the local network, announced and found by multicast DNS (zeroconf).

A found address is only a place to look. Anybody in the network can announce anything: a worker
sends its join token nowhere before the other side has proved to have the key that the token names,
or a certificate of the authority that the worker was given.
"""

import asyncio
import socket
from collections.abc import Callable
from ipaddress import ip_address
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

import psutil  # type: ignore[import-untyped]

from crawlfleet.errors import ConfigError
from crawlfleet.listening import is_any
from crawlfleet.model.wire.node_protocol import PROTOCOL
from crawlfleet.telemetry import Component, logger

if TYPE_CHECKING:
    from zeroconf.asyncio import AsyncServiceBrowser, AsyncServiceInfo, AsyncZeroconf

log = logger(Component.WORKER)
SERVICE: Final = "_crawlfleet._tcp.local."
ASK_WITHIN_MS: Final = 3_000
MAX_MASTERS: Final = 16
"""Maximum number of masters to use: announcing thousands must not keep a worker busy for long."""
MAX_ADDRESSES: Final = 4


class Announcement:
    """Announces a master on the local network, for as long as the block is entered."""

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self._radio: AsyncZeroconf | None = None
        self._info: AsyncServiceInfo | None = None

    async def __aenter__(self) -> Self:
        asyncio_part = _zeroconf()
        addresses = _addresses_of(self._host)
        machine = socket.gethostname().partition(".")[0]
        self._info = asyncio_part.AsyncServiceInfo(
            SERVICE,
            f"{machine}-{self._port}.{SERVICE}",
            port=self._port,
            parsed_addresses=addresses,
            properties={"protocol": str(PROTOCOL)},
            server=f"{machine}.local.",
        )
        self._radio = _radio(self._host)
        # What is awaited first is that it begins.
        await (await self._radio.async_register_service(self._info, allow_name_change=True))
        log.info("announced on the local network", addresses=addresses, port=self._port)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._radio is not None and self._info is not None:
            await (await self._radio.async_unregister_service(self._info))
            await self._radio.async_close()


class Discovery:
    """Looks for masters for as long as it is entered, and passes on where they seem to be."""

    def __init__(self, use: Callable[[list[str]], None], *, host: str = "") -> None:
        self._use = use
        self._host = host
        self._found: dict[str, list[str]] = {}
        self._first_found = asyncio.Event()
        self._asking: set[asyncio.Task[None]] = set()
        self._radio: AsyncZeroconf | None = None
        self._browser: AsyncServiceBrowser | None = None

    async def __aenter__(self) -> Self:
        asyncio_part = _zeroconf()
        self._radio = _radio(self._host)
        self._browser = asyncio_part.AsyncServiceBrowser(
            self._radio.zeroconf, SERVICE, handlers=[self._on_change]
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for task in self._asking:
            task.cancel()
        if self._browser is not None:
            await self._browser.async_cancel()
        if self._radio is not None:
            await self._radio.async_close()

    async def anybody(self) -> None:
        """Wait until a master has been found."""
        log.info("looking for a master on the local network")
        await self._first_found.wait()

    def _on_change(self, zeroconf: Any, service_type: str, name: str, state_change: Any) -> None:
        if state_change.name == "Removed":
            # It stays until others are found: who leaves may only be starting anew.
            if len(self._found) > 1 and name in self._found:
                del self._found[name]
                self._pass_on()
            return
        task = asyncio.get_running_loop().create_task(self._ask(name), name="discovery")
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    async def _ask(self, name: str) -> None:
        assert self._radio is not None
        info = _zeroconf().AsyncServiceInfo(SERVICE, name)
        if not await info.async_request(self._radio.zeroconf, ASK_WITHIN_MS) or not info.port:
            return
        if name not in self._found and len(self._found) >= MAX_MASTERS:
            log.warning("too many masters are announced", name=name)
            return
        urls = [_url(each, info.port) for each in info.parsed_scoped_addresses()]
        if urls and self._found.get(name) != urls[:MAX_ADDRESSES]:
            self._found[name] = urls[:MAX_ADDRESSES]
            log.info("a master is announced", name=name, urls=self._found[name])
            self._pass_on()

    def _pass_on(self) -> None:
        self._use([url for name in sorted(self._found) for url in self._found[name]])
        self._first_found.set()


def _zeroconf() -> Any:
    try:
        from zeroconf import asyncio as asyncio_part
    except ImportError:
        raise ConfigError(
            "discovery needs the package zeroconf: pip install 'crawlfleet[discovery]'"
        ) from None
    return asyncio_part


def _radio(host: str) -> "AsyncZeroconf":
    """Open zeroconf on the network of that address; on all networks when it names none."""
    from zeroconf import InterfaceChoice

    interfaces = InterfaceChoice.All if is_any(host) else [host]
    radio: AsyncZeroconf = _zeroconf().AsyncZeroconf(interfaces=interfaces)
    return radio


def _addresses_of(host: str) -> list[str]:
    """Return the addresses at which other machines can reach a master that listens there."""
    if not is_any(host):
        return [host]
    found = [
        address.address.partition("%")[0]
        for addresses in psutil.net_if_addrs().values()
        for address in addresses
        if address.family in (socket.AF_INET, socket.AF_INET6)
    ]
    reachable = [each for each in found if not _is_local(each)]
    return [each for each in reachable if host != "0.0.0.0" or ":" not in each]  # noqa: S104


def _is_local(address: str) -> bool:
    parsed = ip_address(address)
    return parsed.is_loopback or parsed.is_link_local


def _url(address: str, port: int) -> str:
    return f"https://{f'[{address}]' if ':' in address else address}:{port}"
