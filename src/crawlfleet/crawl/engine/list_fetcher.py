"""Sends the requests of a list at the times that the fleet's ledger grants, so that crawls and
lists together respect the limits of a shared host, domain or address."""

import asyncio
import time
from types import TracebackType
from typing import ClassVar, Final, Self

from crawlfleet.core.politeness.host_clock import MAX_RETRY_AFTER_S, HostClock
from crawlfleet.core.urls.canonical import Canonicaliser, host_key
from crawlfleet.crawl.engine.outcomes import asked_to_wait
from crawlfleet.crawl.fetch.fetcher import Fetcher
from crawlfleet.crawl.fetch.messages import Fetched, FetchRequest
from crawlfleet.crawl.politeness.ledger_client import Granted
from crawlfleet.crawl.politeness.robots_gate import LeftAlone
from crawlfleet.crawl.public_suffixes import bundled
from crawlfleet.errors import CrawlfleetError
from crawlfleet.model.crawl.parameters import Fetching, Limits, Outcome, Politeness
from crawlfleet.model.task import ErrorClass
from crawlfleet.ports.ledger import Ledger

AT_ONCE: Final = 32
"""Maximum number of requests under way, to all hosts together."""


class HostLeftAlone(CrawlfleetError):
    """The host asked for a pause longer than a list waits."""

    error_class: ClassVar = ErrorClass.ERROR


class GrantedFetch:
    """Fetches for one list. An async context manager."""

    def __init__(
        self,
        ledger: Ledger,
        *,
        delay_s: float,
        concurrency: int,
        timeout_s: float,
        allow_private: bool,
    ) -> None:
        self._politeness = Politeness(delay_s=delay_s, concurrency=concurrency)
        self._timeout_s = timeout_s
        limits = Limits(
            connect_s=timeout_s, first_byte_s=timeout_s, idle_s=timeout_s, total_s=timeout_s
        )
        # Nothing is kept between requests: no cookies, no connections.
        self._fetcher = Fetcher(
            limits=limits, fetching=Fetching(), allow_private=allow_private, keep_s=0
        )
        self._granted = Granted(
            self._politeness,
            ledger=ledger,
            fetcher=self._fetcher,
            longest_s=timeout_s,
            suffixes=bundled,
        )
        self._canonical = Canonicaliser().canonical
        self._clocks: dict[str, HostClock] = {}
        self._gate = asyncio.Semaphore(AT_ONCE)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._granted.close()
        await self._fetcher.close()

    async def fetch(self, request: FetchRequest, left_s: float) -> Fetched:
        """One request, which may take so long once it goes out. Raises `HostLeftAlone`."""
        url = self._canonical(request.url)
        if url is None:
            return Fetched(url=request.url, outcome=Outcome.REFUSED, reason="is no web address")
        name = host_key(url)
        clock = self._clocks.get(name)
        if clock is None:
            clock = self._clocks[name] = HostClock(self._politeness)

        async def send(granted: FetchRequest) -> Fetched:
            async with self._gate:
                return await self._within(granted, left_s)

        try:
            fetched = await self._granted.fetch(name, clock, request, send)
        except LeftAlone as error:
            raise HostLeftAlone(f"{error}, as it told a crawl or list of this fleet") from error
        if wait_s := asked_to_wait(fetched, time.time()):
            wait_s = min(wait_s, MAX_RETRY_AFTER_S)
            self._granted.pause(name, wait_s, f"Retry-After of {wait_s:g} s")
        return fetched

    async def _within(self, request: FetchRequest, left_s: float) -> Fetched:
        """Fetch within the time left after redirects, which may be less than the fetcher's own
        timeout."""
        if left_s >= self._timeout_s:
            return await self._fetcher.fetch(request)
        try:
            async with asyncio.timeout(left_s):
                return await self._fetcher.fetch(request)
        except TimeoutError:
            return Fetched(url=request.url, outcome=Outcome.TIMEOUT)
