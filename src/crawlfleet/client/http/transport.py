"""HTTP requests to the masters of a fleet, with their keys and problem documents.

A fleet may have several masters that can all answer. When one cannot be reached, the next one is
tried, and stays in use as long as it answers.
"""

import asyncio
import random
import socket
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from types import TracebackType
from typing import Any, Final, Self, TypeVar
from urllib.parse import urlsplit

import aiohttp
import msgspec

from crawlfleet.core.network.compression import (
    ENCODINGS,
    PACKED_FROM_BYTES,
    BadCompression,
    TooLarge,
    chosen,
    pack,
    unpack,
)
from crawlfleet.errors import (
    Busy,
    Conflict,
    CrawlfleetError,
    InvalidRequest,
    MasterFailed,
    MasterUnable,
    MasterUnreachable,
    NotFound,
    PreconditionFailed,
    Refused,
    Unauthenticated,
)
from crawlfleet.tls import Trust
from crawlfleet.views.problems import Problem

T = TypeVar("T")
CONNECT_TIMEOUT_S: Final = 5.0
ANSWER_TIMEOUT_S: Final = 30.0
MAX_LINE_BYTES: Final = 1 << 20
MAX_ANSWER_BYTES: Final = 1 << 30
PACKED: Final = {"Accept-Encoding": ", ".join(ENCODINGS)}
AS_IT_IS: Final = {"Accept-Encoding": "identity"}
MAX_PAUSE_S: Final = 0.1
SLOW_S: Final = 1.0
KEEPALIVE: Final = {
    "TCP_KEEPIDLE": 3,
    "TCP_KEEPINTVL": 2,
    "TCP_KEEPCNT": 3,
    "TCP_USER_TIMEOUT": 9_000,
}
"""TCP keepalive options in seconds, probes, and milliseconds; options that a system lacks are left
out.
"""


class Transport:
    """Sends requests with a key; raises problem documents as the errors that they describe.

    Raises `MasterUnreachable` when no answer came: the master may or may not have acted. What
    could not even be sent is tried at the next address at once.
    """

    def __init__(self, url: str, trust: Trust = Trust()) -> None:  # noqa: B008 (frozen)
        self._addresses = addresses_in(url)
        self._next_address: dict[str, int] = {}
        """The index of the address to ask next, by route."""
        self._trust = trust
        self._trusted: tuple[tuple[Any, ...], ssl.SSLContext] | None = None
        """The stamp of the trust files when they were read, and the context made of them."""
        self._reload_tls = False
        """Set when a call failed: one of the trust files may have been replaced."""
        self._accepted_encodings: dict[str, str] = {}
        """The `Accept-Encoding` that each master has answered."""
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    @property
    def address(self) -> str:
        """The master that is asked next."""
        return self._address()

    def _address(self, route: str = "") -> str:
        return self._addresses[self._next_address.get(route, 0)]

    def use(self, addresses: Sequence[str]) -> None:
        """Ask these masters from now on; the present one first, if it is among them."""
        present = self.address
        self._addresses = tuple(addresses) or self._addresses
        self._next_address = {
            "": self._addresses.index(present) if present in self._addresses else 0
        }

    async def call(
        self,
        method: str,
        path: str,
        type: type[T],
        *,
        key: str,
        body: Any = None,
        query: dict[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        wait_s: float = 0.0,
        route: str = "",
    ) -> T:
        """The answer as `type`; waits `wait_s` longer than usual for a long poll.

        An answer that is not JSON is read as `str`. Calls with a `route` of their own, which only
        some masters can answer, find their master apart from the other calls.
        """
        content = None if body is None else msgspec.json.encode(body)
        sent = {"Authorization": f"Bearer {key}", **(headers or {})}
        if content is not None:
            sent["Content-Type"] = "application/json"
        timeout = aiohttp.ClientTimeout(
            total=ANSWER_TIMEOUT_S + wait_s, sock_connect=CONNECT_TIMEOUT_S
        )
        for others in reversed(range(len(self._addresses))):
            packed, how = self._packed(content, address := self._address(route))
            try:
                with self._reaching(address, is_long=wait_s > 0, route=route):
                    async with self._opened().request(
                        method,
                        address + path,
                        data=packed,
                        params=query,
                        headers={**sent, **how},
                        timeout=timeout,
                        allow_redirects=False,
                        ssl=self._ssl_for(address),
                    ) as response:
                        payload = await response.read()
                    self._accepted_encodings[address] = response.headers.get("Accept-Encoding", "")
                    return _decoded(response, _unpacked(response, payload), type, address)
            except MasterUnreachable as error:
                if error.was_sent or not others:
                    raise
                await _pause()
        raise AssertionError("the last try returns or raises")

    async def lines(
        self,
        path: str,
        *,
        key: str,
        query: Mapping[str, str],
        headers: Mapping[str, str],
        silence_s: float,
    ) -> AsyncGenerator[bytes, None]:
        """The lines of an answer as they come, until it ends; raises after so much silence."""
        async with self._answer(path, key, query, headers, silence_s) as answer:
            async for line in answer.content:
                yield line.rstrip(b"\r\n")

    async def chunks(
        self, path: str, *, key: str, query: Mapping[str, str], silence_s: float
    ) -> AsyncGenerator[bytes, None]:
        """A long answer, piece by piece; raises when it breaks off, and after so much silence."""
        async with self._answer(path, key, query, {}, silence_s) as answer:
            async for chunk in answer.content.iter_any():
                yield chunk

    @asynccontextmanager
    async def _answer(
        self,
        path: str,
        key: str,
        query: Mapping[str, str],
        headers: Mapping[str, str],
        silence_s: float,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """An open answer; a connection that breaks meanwhile raises `MasterUnreachable`, too."""
        timeout = aiohttp.ClientTimeout(sock_connect=CONNECT_TIMEOUT_S, sock_read=silence_s)
        for others in reversed(range(len(self._addresses))):
            try:
                with self._reaching(address := self.address, is_long=True):
                    async with self._opened().get(
                        address + path,
                        params=query,
                        headers={"Authorization": f"Bearer {key}", **AS_IT_IS, **headers},
                        timeout=timeout,
                        read_bufsize=MAX_LINE_BYTES,
                        allow_redirects=False,
                        ssl=self._ssl_for(address),
                    ) as response:
                        if response.status >= 400:
                            raise _problem(response, await response.read(), address)
                        yield response
                    return
            except MasterUnreachable as error:
                if error.was_sent or not others:
                    raise
                await _pause()

    @contextmanager
    def _reaching(self, address: str, *, is_long: bool, route: str = "") -> Iterator[None]:
        """Turn trouble with the connection into `MasterUnreachable`, and ask another master next
        time."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        try:
            yield
        except MasterUnreachable:
            self._use_next(address, route)
            raise
        except asyncio.CancelledError:
            # The caller has waited long enough for what should be quick.
            if not is_long and loop.time() - begun > SLOW_S:
                self._use_next(address, route)
            raise
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            self._use_next(address, route)
            detail = str(error) or error.__class__.__name__
            if isinstance(error, aiohttp.ClientSSLError):
                detail = (
                    f"no trusted connection: {error.os_error or error}; "
                    "check the address, and whom you believe (`--ca`)"
                )
            unreachable = MasterUnreachable(f"{address} did not answer: {detail}")
            # Where no connection was made, the master cannot have acted.
            unreachable.was_sent = not isinstance(
                error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError
            )
            raise unreachable from error

    def _use_next(self, address: str, route: str) -> None:
        self._reload_tls = True
        # Of several calls that fail at once, the first decides.
        if address == self._address(route):
            self._next_address[route] = (self._next_address.get(route, 0) + 1) % len(
                self._addresses
            )

    def _packed(
        self, content: bytes | None, address: str
    ) -> tuple[bytes | None, Mapping[str, str]]:
        """Return the compressed body and its headers, in an encoding that an earlier answer of this
        master has offered. For a master on this machine nothing is compressed.
        """
        if is_near(address):
            return content, AS_IT_IS
        if content is None or len(content) < PACKED_FROM_BYTES:
            return content, PACKED
        encoding = chosen(self._accepted_encodings.get(address, ""))
        if not encoding:
            return content, PACKED
        return pack(content, encoding), {**PACKED, "Content-Encoding": encoding}

    def _ssl_for(self, address: str) -> ssl.SSLContext | bool:
        """The certificates to trust at an address; reads the files again when one was replaced."""
        if not address.startswith("https:"):
            return True
        if self._trusted is None or self._reload_tls:
            self._reload_tls = False
            stamp = self._trust.stamp()
            if self._trusted is None or stamp != self._trusted[0]:
                self._trusted = (stamp, self._trust.context())
        return self._trusted[1]

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=0, socket_factory=_keepalive_socket)
            self._session = aiohttp.ClientSession(
                connector=connector, trust_env=False, auto_decompress=False
            )
        return self._session


def addresses_in(url: str) -> tuple[str, ...]:
    """The addresses of masters that are named, one or several parted by commas."""
    return tuple(each.strip().rstrip("/") for each in url.split(",") if each.strip()) or ("",)


def is_near(address: str) -> bool:
    """Return whether a master is on this machine."""
    return urlsplit(address).hostname in {"127.0.0.1", "::1", "localhost"}


async def _pause() -> None:
    """Wait for a random moment, so that the nodes of a dead master do not all call the next one at
    once."""
    await asyncio.sleep(random.uniform(0.0, MAX_PAUSE_S))  # noqa: S311


def _keepalive_socket(info: Any) -> socket.socket:
    """A socket that notices within seconds when the machine at the other end is gone."""
    family, kind, protocol, _, _ = info
    made = socket.socket(family=family, type=kind, proto=protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEPALIVE.items():
        if (option := getattr(socket, name, None)) is not None:
            made.setsockopt(socket.IPPROTO_TCP, option, value)
    return made


def _unpacked(response: aiohttp.ClientResponse, payload: bytes) -> bytes:
    encoding = response.headers.get("Content-Encoding", "")
    if encoding not in ENCODINGS:
        return payload
    try:
        return unpack(payload, encoding, most_bytes=MAX_ANSWER_BYTES)
    except (BadCompression, TooLarge) as error:
        raise MasterUnreachable(f"the answer cannot be unpacked: {error}") from error


def _decoded(response: aiohttp.ClientResponse, payload: bytes, type: type[T], address: str) -> T:
    if response.status >= 400:
        raise _problem(response, payload, address)
    if type is str:
        return payload.decode()  # type: ignore[return-value]
    try:
        return msgspec.json.decode(payload, type=type)
    except msgspec.DecodeError as error:
        raise MasterUnreachable(
            f"{address} answered something that is not crawlfleet's: {error}"
        ) from error


def _problem(response: aiohttp.ClientResponse, payload: bytes, address: str) -> CrawlfleetError:
    """The error in an answer, with the time to wait if the master names one."""
    problem = _error(response.status, payload, address)
    later = response.headers.get("Retry-After", "")
    problem.retry_after_s = float(later) if later.isdigit() else None
    return problem


def _error(status: int, payload: bytes, url: str) -> CrawlfleetError:
    try:
        document = msgspec.json.decode(payload, type=Problem)
    except msgspec.DecodeError:
        return MasterUnreachable(f"{url} answered {status} without saying why")
    match status:
        case 401:
            return Unauthenticated(document.detail)
        case 403:
            return Refused(document.detail)
        case 404:
            return _not_found(document)
        case 409:
            return Conflict(document.detail)
        case 412:
            return PreconditionFailed(document.detail)
        case 429:
            return Busy(document.detail)
        case 500:
            return MasterFailed(f"{url} answered {status}: {document.detail}")
        case 422 if document.errors:
            return InvalidRequest(document.errors)
        case _ if status >= 500:
            return MasterUnable(f"{url} answered {status}: {document.detail}")
        case _:
            return Refused(document.detail)


def _not_found(document: Problem) -> CrawlfleetError:
    words = document.detail.split()
    if document.detail.startswith("there is no ") and len(words) >= 5:
        return NotFound(words[3], words[4].strip("'"))
    return NotFound("route", document.instance)
