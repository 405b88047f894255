"""One HTTP conversation with the master: keys, problem documents and what can be tried again."""

from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import aiohttp
import msgspec

from crawlfleet.errors import (
    Busy,
    Conflict,
    CrawlfleetError,
    InvalidRequest,
    MasterUnreachable,
    NotFound,
    PreconditionFailed,
    Refused,
    Unauthenticated,
)
from crawlfleet.model.views import Problem

T = TypeVar("T")
CONNECT_TIMEOUT_S: Final = 5.0
ANSWER_TIMEOUT_S: Final = 30.0
LONGEST_LINE: Final = 1 << 20


class Transport:
    """Sends requests with a key; problem documents come back as the errors that they were.

    Raises `MasterUnreachable` when no answer came: the master may or may not have acted.
    """

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
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
    ) -> T:
        """The answer as `type`; waits `wait_s` longer than usual for a long poll."""
        content = None if body is None else msgspec.json.encode(body)
        headers = {"Authorization": f"Bearer {key}", **(headers or {})}
        if content is not None:
            headers["Content-Type"] = "application/json"
        timeout = aiohttp.ClientTimeout(
            total=ANSWER_TIMEOUT_S + wait_s, sock_connect=CONNECT_TIMEOUT_S
        )
        with self._reaching():
            async with self._opened().request(
                method,
                self._url + path,
                data=content,
                params=query,
                headers=headers,
                timeout=timeout,
                allow_redirects=False,
            ) as response:
                payload = await response.read()
                status = response.status
        if status >= 400:
            raise _error(status, payload, self._url)
        try:
            return msgspec.json.decode(payload, type=type)
        except msgspec.DecodeError as error:
            raise MasterUnreachable(
                f"{self._url} answered something that is not crawlfleet's: {error}"
            ) from error

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
        timeout = aiohttp.ClientTimeout(sock_connect=CONNECT_TIMEOUT_S, sock_read=silence_s)
        with self._reaching():
            async with self._opened().get(
                self._url + path,
                params=query,
                headers={"Authorization": f"Bearer {key}", **headers},
                timeout=timeout,
                read_bufsize=LONGEST_LINE,
                allow_redirects=False,
            ) as response:
                if response.status >= 400:
                    raise _error(response.status, await response.read(), self._url)
                async for line in response.content:
                    yield line.rstrip(b"\r\n")

    @contextmanager
    def _reaching(self) -> Iterator[None]:
        try:
            yield
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            detail = str(error) or error.__class__.__name__
            raise MasterUnreachable(f"{self._url} did not answer: {detail}") from error

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=0)
            self._session = aiohttp.ClientSession(connector=connector, trust_env=False)
        return self._session


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
        case 422 if document.errors:
            return InvalidRequest(document.errors)
        case _ if status >= 500:
            return MasterUnreachable(f"{url} answered {status}: {document.detail}")
        case _:
            return Refused(document.detail)


def _not_found(document: Problem) -> CrawlfleetError:
    words = document.detail.split()
    if document.detail.startswith("there is no ") and len(words) >= 5:
        return NotFound(words[3], words[4].strip("'"))
    return NotFound("route", document.instance)
