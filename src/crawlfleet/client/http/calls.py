"""The base of all calls of a client: key, retries, pages, and versions."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Protocol, Self, TypeVar
from urllib.parse import quote

from crawlfleet.client.http.credentials import usable_key, usable_url
from crawlfleet.client.http.retries import retry, retry_removal, was_not_sent
from crawlfleet.client.http.stream import stream
from crawlfleet.client.http.transport import Transport
from crawlfleet.tls import Trust

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
API: Final = "/api/v1"
PATIENCE_S: Final = 30.0
MAX_PAGE: Final = 1000


class ListPage(Protocol[T_co]):
    """A part of a list, and where the next part begins."""

    @property
    def items(self) -> Sequence[T_co]: ...

    @property
    def next_cursor(self) -> str | None: ...


class Calls:
    """Sends requests, again if need be. An async context manager."""

    def __init__(
        self,
        url: str,
        key: str,
        *,
        patience_s: float = PATIENCE_S,
        trust: Trust = Trust(),  # noqa: B008 (frozen)
    ) -> None:
        self.url = usable_url(url)
        self._transport = Transport(self.url, trust)
        self._key = usable_key(key)
        self._patience_s = patience_s

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._transport.__aexit__(kind, error, trace)

    async def _get(
        self, path: str, type: type[T], query: dict[str, str] | None = None, wait_s: float = 0.0
    ) -> T:
        return await self._call("GET", API + path, type, query=query, wait_s=wait_s)

    async def _post(
        self, path: str, type: type[T], body: Any = None, if_version: int | None = None
    ) -> T:
        headers = if_match(if_version)
        return await self._call("POST", API + path, type, body=body, headers=headers)

    async def _post_once(self, path: str, type: type[T], body: Any) -> T:
        """Post as `_post` does, but send again only a request that never reached a master: it must
        not be carried out twice. When an answer is lost, the caller decides.
        """
        return await retry(
            lambda: self._transport.call("POST", API + path, type, key=self._key, body=body),
            self._patience_s,
            was_not_sent,
        )

    async def _remove(
        self, path: str, type: type[T], body: Any = None, if_version: int | None = None
    ) -> T | None:
        """Post as `_post` does, for a removal: `None` when an answer was lost, and the thing is
        gone.
        """
        headers = if_match(if_version)
        return await retry_removal(
            lambda: self._transport.call(
                "POST", API + path, type, key=self._key, body=body, headers=headers
            ),
            self._patience_s,
        )

    async def _patch(self, path: str, type: type[T], body: Any, if_version: int | None) -> T:
        headers = if_match(if_version)
        return await self._call("PATCH", API + path, type, body=body, headers=headers)

    async def _call(self, method: str, path: str, type: type[T], **options: Any) -> T:
        return await retry(
            lambda: self._transport.call(method, path, type, key=self._key, **options),
            self._patience_s,
        )

    async def _pages(
        self,
        path: str,
        type: type[ListPage[T]],
        query: Mapping[str, Any],
        *,
        limit: int | None = None,
        cursor: str = "cursor",
    ) -> AsyncGenerator[T, None]:
        """The things of a list, page by page; at most `limit`."""
        asked = as_query(query)
        left = limit
        while left is None or left > 0:
            asked["limit"] = str(min(left or MAX_PAGE, MAX_PAGE))
            page = await self._get(path, type, asked)
            for thing in page.items[:left]:
                yield thing
            left = None if left is None else left - len(page.items)
            if page.next_cursor is None:
                return
            asked[cursor] = page.next_cursor

    def _stream(
        self, path: str, type: type[T], query: Mapping[str, Any], patience_s: float
    ) -> AsyncGenerator[T, None]:
        """Things as they come, over as many connections as it takes.

        At first a master that is away is waited for no longer than for any other answer.
        """
        return stream(
            self._transport,
            API + path,
            type,
            key=self._key,
            query=as_query(query),
            first_patience_s=min(self._patience_s, patience_s),
            patience_s=patience_s,
        )


def as_query(given: Mapping[str, Any]) -> dict[str, str]:
    """Return the parts of a query string; values that are not set, or empty, are left out."""
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in given.items()
        if value is not None and value != ""
    }


def if_match(version: int | None) -> dict[str, str] | None:
    """The header that ties a change to a version."""
    return None if version is None else {"If-Match": f'"{version}"'}


def segment(id: str) -> str:
    """An id as a part of a path."""
    return quote(id, safe="")
