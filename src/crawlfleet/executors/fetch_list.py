"""Fetches a list of URLs politely: each host at its own pace, each URL with its own outcome."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import nullcontext
from typing import Final

import msgspec

from crawlfleet.crawl.fetch.request import read_target
from crawlfleet.errors import CrawlfleetError
from crawlfleet.model.task import ErrorClass
from crawlfleet.ports.execution import Context, Measured

AT_ONCE: Final = 32
"""Maximum number of concurrent requests to all hosts together."""
FRAME_BYTES: Final = 120
"""Maximum size of the JSON around a URL and its outcome in the result."""
SHORTEST_MESSAGE: Final = 40
TELL_EVERY_S: Final = 0.5


class FetchedPage(msgspec.Struct, frozen=True, kw_only=True):
    """The response to a request. A body that is not text is in `body_base64`."""

    url: str
    """Final URL after redirects."""
    status: int
    headers: dict[str, str]
    """Headers by lower-case name; repeated ones are joined by commas, `set-cookie` by line
    breaks."""
    bytes: int
    """Size of the kept part of the body; `truncated` is set when the body was larger."""
    truncated: bool
    elapsed_s: float
    body: str | None = None
    body_base64: str | None = None


class ListedPage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The response for one URL of a list."""

    url: str
    """URL as it stands in the list."""
    status: int
    bytes: int
    elapsed_s: float
    truncated: bool = False
    """Set when the body or the headers exceeded the URL's share of the result."""
    ended_at: str | None = None
    """Final URL, if there were redirects."""
    headers: dict[str, str] = {}
    body: str | None = None
    body_base64: str | None = None


class ListedError(msgspec.Struct, frozen=True, kw_only=True):
    """The error of one URL of a list."""

    url: str
    error_class: ErrorClass
    message: str


class FetchedList(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a list: each URL is in `pages` or in `errors`."""

    urls: int
    fetched: int
    failed: int
    pages: list[ListedPage]
    errors: list[ListedError]


class _Host:
    """The URLs of one host, and the time at which the next may be fetched."""

    def __init__(self) -> None:
        self.queue: deque[tuple[str, int]] = deque()
        """URLs to fetch, each with the number of earlier tries."""
        self.next_at = 0.0


Fetch = Callable[[str, int], Awaitable[FetchedPage]]
"""Fetches the page of a URL; the number limits the bytes of its body."""


class ListFetch:
    """One run over a list. A host gets no more than `concurrency` requests at once, and none
    earlier than `delay_s` after the start of the one before it."""

    def __init__(
        self,
        urls: Sequence[str],
        fetch: Fetch,
        *,
        delay_s: float,
        concurrency: int,
        retries: int,
        most_bytes: int,
        is_granted: bool = False,
    ) -> None:
        """Set up the run. With `is_granted`, `fetch` itself limits the concurrent requests: a URL
        that waits for its turn must not block others."""
        self._fetch = fetch
        self._delay_s = delay_s
        self._concurrency = concurrency
        self._retries = retries
        self._urls = [*dict.fromkeys(urls)]
        known = sum(len(msgspec.json.encode(url)) + FRAME_BYTES for url in self._urls)
        self._room = max((most_bytes - known) // len(self._urls), 0)
        """Bytes that each URL may use in the result beyond its name."""
        self._outcomes: dict[str, ListedPage | ListedError] = {}
        self._bytes = 0
        self._gate = nullcontext() if is_granted else asyncio.Semaphore(AT_ONCE)
        self._told_at = 0.0

    async def run(self, context: Context) -> Measured:
        """Fetch all URLs and return the result; failures of sites are outcomes, not exceptions."""
        hosts = self._hosts()
        await context.progress(len(self._outcomes), len(self._urls))
        async with asyncio.TaskGroup() as group:
            for host in hosts:
                for _ in range(min(self._concurrency, len(host.queue))):
                    group.create_task(self._visit(host, context))
        await context.progress(len(self._outcomes), len(self._urls))
        ordered = [self._outcomes[url] for url in self._urls]
        pages = [each for each in ordered if isinstance(each, ListedPage)]
        errors = [each for each in ordered if isinstance(each, ListedError)]
        counts = {"urls": len(ordered), "fetched": len(pages), "failed": len(errors)}
        data = FetchedList(**counts, pages=pages, errors=errors)
        return Measured(data=data, metrics={**counts, "data_size": self._bytes})

    def _hosts(self) -> Iterable[_Host]:
        hosts: dict[object, _Host] = {}
        for url in self._urls:
            target = read_target(url)
            if target is None:
                self._fail(url, ErrorClass.INVALID, "is no web address")
            else:
                hosts.setdefault(target.origin, _Host()).queue.append((url, 0))
        return hosts.values()

    async def _visit(self, host: _Host, context: Context) -> None:
        """Fetch the URLs of a host until none are left."""
        loop = asyncio.get_running_loop()
        while host.queue:
            if (wait_s := host.next_at - loop.time()) > 0:
                await asyncio.sleep(wait_s)
                continue
            async with self._gate:
                if not host.queue or host.next_at > loop.time():
                    continue  # another was faster while this one waited for its turn
                url, tries = host.queue.popleft()
                host.next_at = loop.time() + self._delay_s
                try:
                    self._keep(url, await self._fetch(url, self._room // 2))
                except CrawlfleetError as error:
                    kind = getattr(error, "error_class", ErrorClass.ERROR)
                    if tries < self._retries and kind is ErrorClass.NETWORK:
                        host.queue.append((url, tries + 1))
                    else:
                        self._fail(url, kind, str(error))
            if loop.time() - self._told_at > TELL_EVERY_S:
                self._told_at = loop.time()
                await context.progress(len(self._outcomes), len(self._urls))

    def _keep(self, url: str, page: FetchedPage) -> None:
        """Record a page as far as its share of the result allows: half of the share is for the
        body, half for the rest."""
        self._bytes += page.bytes
        ended_at = None if page.url == url else page.url
        left = self._room - self._room // 2 - len((ended_at or "").encode())
        ended_at = ended_at if left >= 0 else None
        fits = len(msgspec.json.encode(page.headers)) <= left
        self._outcomes[url] = ListedPage(
            url=url,
            status=page.status,
            bytes=page.bytes,
            elapsed_s=round(page.elapsed_s, 3),
            truncated=page.truncated or not fits,
            ended_at=ended_at,
            headers=page.headers if fits else {},
            body=page.body or None,
            body_base64=page.body_base64,
        )

    def _fail(self, url: str, error_class: ErrorClass, message: str) -> None:
        self._outcomes[url] = ListedError(
            url=url,
            error_class=error_class,
            message=message[: SHORTEST_MESSAGE + self._room // 4],
        )
