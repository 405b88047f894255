"""The HTTP endpoint for health checks of a node: `/healthz` (alive) and `/readyz` (in a session).

The master's probe and service supervisors use it. It reveals nothing confidential, reads only the
first line of a request, and serves a few requests at once.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from http import HTTPStatus
from ipaddress import ip_address
from types import TracebackType
from typing import Final, NamedTuple, Self

import msgspec

from crawlfleet.errors import ConfigError, CrawlfleetError
from crawlfleet.model.settings import WorkerSettings

PATIENCE_S: Final = 2.0
LONGEST_LINE: Final = 1024
MAX_AT_ONCE: Final = 32
LAST_PORT: Final = 65_535


class HealthInfo(msgspec.Struct, kw_only=True):
    """The identity of a worker, and whether it can take work now; its agent keeps this up to
    date."""

    status: str = "alive"
    node_id: str | None = None
    session: bool = False


class HealthAddress(NamedTuple):
    """The address that a node advertises for the master's health checks."""

    address: str
    port: int


@contextlib.asynccontextmanager
async def answering(
    settings: WorkerSettings, health_info: HealthInfo
) -> AsyncIterator[HealthAddress | None]:
    """Serve the endpoint if the settings enable it; yield the address to advertise."""
    advertised = parse_place(settings.advertise) if settings.advertise else None
    port = settings.health_port
    if port is None and advertised is not None:
        port = advertised.port
    if port is None:
        yield None
        return
    host = settings.health_host or (advertised.address if advertised else "127.0.0.1")
    async with HealthEndpoint(host, port, health_info=health_info) as endpoint:
        if advertised is not None and not advertised.port:
            advertised = HealthAddress(advertised.address, endpoint.port)
        yield advertised


def parse_place(text: str) -> HealthAddress:
    """Return the host and port of `10.0.0.7:8010` or `[2001:db8::7]:8010`; port 0 lets the system
    choose one."""
    address, _, port = text.rpartition(":")
    address = address.removeprefix("[").removesuffix("]")
    try:
        if not (port.isascii() and port.isdigit() and int(port) <= LAST_PORT):
            raise ValueError
        ip_address(address)
    except ValueError:
        raise ConfigError(
            f"worker.advertise: {text!r} is not an IP address with a port; "
            "use one such as 10.0.0.7:8010"
        ) from None
    return HealthAddress(address, int(port))


class HealthEndpoint:
    """The HTTP server of the endpoint: an async context manager. `port` is the one that it listens
    on once entered."""

    def __init__(self, host: str, port: int, *, health_info: HealthInfo) -> None:
        self._host = host
        self.port = port
        self._health_info = health_info
        self._server: asyncio.Server | None = None
        self._guests = 0

    async def __aenter__(self) -> Self:
        try:
            self._server = await asyncio.start_server(
                self._answer, self._host, self.port, limit=LONGEST_LINE
            )
        except OSError as error:
            raise CrawlfleetError(
                f"cannot listen on {self._host}:{self.port}: {error.strerror}; stop what listens "
                "there, or choose another worker.health_port"
            ) from error
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._server is not None
        self._server.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._guests += 1
        try:
            if self._guests <= MAX_AT_ONCE:
                async with asyncio.timeout(PATIENCE_S):
                    line = await reader.readline()
                    writer.write(self._reply(line))
                    await writer.drain()
        except (OSError, TimeoutError, ValueError):
            return
        finally:
            self._guests -= 1
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    def _reply(self, line: bytes) -> bytes:
        method, _, rest = line.decode("latin-1").partition(" ")
        path = rest.partition(" ")[0].partition("?")[0]
        if method not in {"GET", "HEAD"}:
            return _message(HTTPStatus.METHOD_NOT_ALLOWED, b"")
        if path not in {"/healthz", "/readyz"}:
            return _message(HTTPStatus.NOT_FOUND, b"")
        is_well = path == "/healthz" or self._health_info.session
        status = HTTPStatus.OK if is_well else HTTPStatus.SERVICE_UNAVAILABLE
        body = msgspec.json.encode(self._health_info)
        return _message(status, body, is_head=method == "HEAD")


def _message(status: HTTPStatus, body: bytes, *, is_head: bool = False) -> bytes:
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\n"
        "Content-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode() + (b"" if is_head else body)
