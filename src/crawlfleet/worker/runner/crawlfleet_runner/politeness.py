"""Delays Scrapy's requests between its downloader and the network, until each may start.

The Crawl-delay of robots.txt (where the project obeys it) and the Retry-After of responses are
noted for all crawls of the fleet.
"""

import email.utils
import time
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import urlsplit

from .ledger import Ledger
from .requests import host_of
from .windows import Host

MAX_CRAWL_DELAY_S: Final = 120.0
ROBOTS: Final = "/robots.txt"


class Gate:
    """Delays requests before they reach the download handlers of one crawler."""

    def __init__(
        self,
        crawler: Any,
        ledger: Ledger,
        *,
        room: Callable[[str, int], int],
        answered: Callable[[Any], None],
        left_alone: Callable[[Any], None],
        is_page: Callable[[Any], bool],
    ) -> None:
        """Create the gate. `room` returns how many requests at once this worker can use, by the
        host's name and limit; `answered` and `left_alone` are called with the request; `is_page`
        returns whether a request can be given back."""
        self._crawler = crawler
        self._ledger = ledger
        self._room = room
        self._answered = answered
        self._left_alone = left_alone
        self._is_page = is_page
        settings = crawler.settings
        self._slots = settings.getdict("DOWNLOAD_SLOTS")
        self._delay_s = settings.getfloat("DOWNLOAD_DELAY")
        self._concurrency = settings.getint("CONCURRENT_REQUESTS_PER_DOMAIN")
        self._obeys_robots = settings.getbool("ROBOTSTXT_OBEY")
        self._agent = settings.get("ROBOTSTXT_USER_AGENT") or settings.get("USER_AGENT") or "*"

    def install(self, handlers: Any) -> None:
        """Route all downloads through this gate."""
        if hasattr(handlers, "download_request_async"):
            download = handlers.download_request_async
            handlers.download_request_async = lambda request: self._pass(download, request)
            return
        # Before Scrapy 2.14
        from scrapy.utils.defer import deferred_from_coro

        older = handlers.download_request
        handlers.download_request = lambda request, spider: deferred_from_coro(
            self._pass(older, request, spider)
        )

    def host(self, request: Any) -> Host:
        """The host of a request, on the terms of the project as they are now."""
        host = self._ledger.host(host_of(request.url))
        key = request.meta.get("download_slot") or urlsplit(request.url).hostname or ""
        slot = self._crawler.engine.downloader.slots.get(key)
        if slot is not None:
            host.delay_s, host.concurrency = float(slot.delay), max(int(slot.concurrency), 1)
        else:
            own = self._slots.get(key, {})
            usual_s = getattr(self._crawler.spider, "download_delay", self._delay_s)
            host.delay_s = float(own.get("delay", usual_s))
            host.concurrency = max(int(own.get("concurrency", self._concurrency)), 1)
        host.room = self._room(host.name, host.concurrency)
        return host

    async def _pass(self, download: Callable[..., Any], request: Any, *rest: Any) -> Any:
        if urlsplit(request.url).scheme not in {"http", "https"}:
            return await awaited(download(request, *rest))
        host = self.host(request)
        if why := await self._turn(host, request):
            from scrapy.exceptions import IgnoreRequest

            if self._is_page(request) or urlsplit(request.url).path != ROBOTS:
                self._left_alone(request)
            raise IgnoreRequest(why)
        try:
            response = await awaited(download(request, *rest))
        finally:
            self._answered(request)
            self._ledger.leave(host)
        self._note(host, request, response)
        return response

    async def _turn(self, host: Host, request: Any) -> str:
        """Wait for it; why it will not come, if so."""
        from twisted.internet.defer import Deferred

        turn: Any = Deferred()
        # Without its robots.txt Scrapy would take all of a host for allowed; and an item would
        # pass without what a pipeline wants for it.
        self._ledger.enter(host, turn.callback, patiently=not self._is_page(request))
        return str(await awaited(turn))

    def _note(self, host: Host, request: Any, response: Any) -> None:
        if response.status >= 300:
            asked = response.headers.get("Retry-After")
            seconds = retry_after_s(asked, time.time()) if asked else 0.0
            if seconds > 0.0:
                self._ledger.pause(host, seconds, f"Retry-After of {seconds:.0f} s")
        elif self._obeys_robots and urlsplit(request.url).path == ROBOTS:
            host.crawl_delay_s = crawl_delay_s(response.body, self._agent)


def awaited(given: Any) -> Any:
    """A coroutine or a Deferred, as it can be awaited with the project's reactor."""
    from scrapy.utils.defer import maybe_deferred_to_future
    from twisted.internet.defer import Deferred

    return maybe_deferred_to_future(given) if isinstance(given, Deferred) else given


def crawl_delay_s(robots: bytes, agent: str) -> float:
    """Return the crawl delay of a robots.txt for an agent, up to a limit; 0 if there is none."""
    from protego import Protego

    try:
        asked = Protego.parse(robots.decode("utf-8", "ignore")).crawl_delay(agent)
    except ValueError:
        return 0.0
    return min(max(float(asked or 0.0), 0.0), MAX_CRAWL_DELAY_S)


def retry_after_s(header: bytes, now: float) -> float:
    """Return the seconds of a Retry-After header; 0 if it cannot be read."""
    text = header.decode("latin-1").strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        return max(email.utils.parsedate_to_datetime(text).timestamp() - now, 0.0)
    except (ValueError, TypeError, OverflowError):
        return 0.0
