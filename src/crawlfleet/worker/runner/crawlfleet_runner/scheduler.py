"""A Scrapy scheduler whose requests wait at the master: a crawl that is killed goes on elsewhere.

A request is done when its response was dealt with to the end. Then, in one step, what it led to
waits, its items count, and it is never made again. Until then nothing of it counts, so that whoever
makes it once more repeats nothing. Requests travel as Scrapy's own dictionaries, in JSON.
"""

import hashlib
import json
import logging
import time
from collections import deque
from typing import Any, Final
from urllib.parse import urlsplit

from .frontier import Frontier, Page

KEY: Final = "crawlfleet_page"
"""Where a request carries which page it is; those that are made from it carry it on."""
HOSTS: Final = 200
EACH: Final = 16
"""Requests of one host that are leased at once: so many are made again when a worker dies."""
COMMIT_EVERY_S: Final = 0.3
"""What was done since is done again when the worker dies."""
log = logging.getLogger("crawlfleet")


class Unpackable(ValueError):
    """Something in a request cannot be written down."""


class Scheduler:
    """Implements `scrapy.core.scheduler.BaseScheduler`."""

    frontier: Frontier
    """Set before a crawl begins: Scrapy makes its scheduler itself."""

    def __init__(self, crawler: Any) -> None:
        self._crawler = crawler
        self._ready: deque[tuple[Page, Any]] = deque()
        self._local: deque[Any] = deque()
        """What cannot be written down stays here."""
        self._making: dict[int, Page] = {}
        """By id: what was handed to Scrapy and is not done."""
        self._done: list[Page] = []
        self._seeds: dict[int, list[Any]] = {}
        self._loose: list[bytes] = []
        self._known: set[int] = set()
        self._ordinals: dict[bytes, int] = {}
        self._parents: dict[int, Page] = {}
        """By the identity of a request that a page has just led to."""
        self._is_hooked = self._has_warned = False
        self._committed_at = time.monotonic()

    @classmethod
    def from_crawler(cls, crawler: Any) -> "Scheduler":
        made = crawler.crawlfleet_scheduler = cls(crawler)
        return made

    def open(self, spider: Any) -> None:
        self._spider = spider
        self.frontier.open()

    def close(self, reason: str) -> None:
        self._commit()
        self.frontier.close()

    def has_pending_requests(self) -> bool:
        return bool(
            self._ready or self._local or self._done or self._seeds or self.frontier.waiting
        )

    def __len__(self) -> int:
        return len(self._ready) + len(self._local) + self.frontier.waiting

    def enqueue_request(self, request: Any) -> bool:
        parent = self._parents.pop(id(request), None) or self._page_of(request)
        request.meta.pop(KEY, None)
        key = self._id_of(request, parent)
        if key in self._known:
            self._crawler.stats.inc_value("dupefilter/filtered")
            return False
        self._known.add(key)
        try:
            text = json.dumps(pack(request.to_dict(spider=self._spider)))
        except ValueError as error:
            self._stay(request, error)
            return True
        links = self._seeds if parent is None else parent.links
        links[key] = [key, text, host_of(request.url), max(-128, min(request.priority, 127))]
        self._crawler.stats.inc_value("scheduler/enqueued")
        return True

    def next_request(self) -> Any:
        self._hook()
        if not self._ready and not self._local:
            self._commit()
            if self.frontier.waiting:
                self._lease()
        elif self._done and time.monotonic() - self._committed_at >= COMMIT_EVERY_S:
            self._commit()
        if self._local:
            return self._local.popleft()
        if not self._ready:
            return None
        page, request = self._ready.popleft()
        if (before := self._making.get(page.id)) is not None:
            # Lost while it was made: what it led to so far is found anew.
            self._known -= before.links.keys()
        self._making[page.id] = page
        self._crawler.stats.inc_value("scheduler/dequeued")
        return request

    def led_to(self, request: Any, response: Any) -> None:
        """A page's callback made a request, which is enqueued next."""
        page = self._page_of(response.request)
        if page is not None:
            self._parents[id(request)] = page

    def take_item(self, fields: Any, text: str, response: Any) -> None:
        """An item that has passed the pipelines; it counts with its page."""
        line = self.frontier.items.line(fields, text)
        page = None if response is None else self._page_of(response.request)
        (self._loose if page is None else page.lines).append(line)

    def note_status(self, response: Any, request: Any) -> None:
        page = self._page_of(request)
        if page is not None:
            page.status = response.status

    def _page_of(self, request: Any) -> Page | None:
        return None if request is None else self._making.get(request.meta.get(KEY))

    def _id_of(self, request: Any, parent: Page | None) -> int:
        """Equal for equal requests; one that must not be filtered is another each time, but the
        same when the page that led to it is seen again."""
        mark: bytes = self._crawler.request_fingerprinter.fingerprint(request)
        if request.dont_filter:
            ordinals = self._ordinals if parent is None else parent.ordinals
            ordinals[mark] = number = ordinals.get(mark, 0) + 1
            start = "start" if parent is None else str(parent.id)
            mark = hashlib.blake2b(mark + f"{start} {number}".encode()).digest()
        return int.from_bytes(mark[:8], "big", signed=True)

    def _lease(self) -> None:
        from scrapy.utils.request import request_from_dict

        for page, text in self.frontier.lease(HOSTS, EACH):
            request = request_from_dict(unpack(json.loads(text)), spider=self._spider)
            request.meta[KEY] = page.id
            self._known.add(page.id)
            self._ready.append((page, request))

    def _commit(self) -> None:
        if self._seeds:
            seeds, self._seeds = [*self._seeds.values()], {}
            self.frontier.add(seeds)
        if self._done or self._loose:
            (done, self._done), (loose, self._loose) = (self._done, []), (self._loose, [])
            for page in self.frontier.commit(done, loose):
                # Whoever makes it once more, perhaps this process, is to find them anew.
                self._known -= page.links.keys()
            self._committed_at = time.monotonic()

    def _hook(self) -> None:
        """Hear when Scrapy is done with a request: no signal tells that all of its items are
        through, but the engine's list of what is in progress does."""
        if self._is_hooked:
            return
        self._is_hooked = True
        engine = self._crawler.engine
        slot = getattr(engine, "_slot", None) or engine.slot
        remove = slot.remove_request

        def removed(request: Any) -> None:
            if (page := self._page_of(request)) is not None:
                del self._making[page.id]
                self._done.append(page)
            remove(request)

        slot.remove_request = removed

    def _stay(self, request: Any, error: ValueError) -> None:
        self._crawler.stats.inc_value("scheduler/unserializable")
        if not self._has_warned:
            self._has_warned = True
            log.warning(
                "%s cannot be written down (%s): it and others like it stay in this process, and "
                "are lost when the worker dies",
                request,
                error,
            )
        self._local.append(request)


class Parentage:
    """A spider middleware, the outermost: tells the scheduler what each page led to."""

    def __init__(self, crawler: Any) -> None:
        self._crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Any) -> "Parentage":
        return cls(crawler)

    def process_spider_output(self, response: Any, result: Any, spider: Any = None) -> Any:
        for each in result:
            self._note(each, response)
            yield each

    async def process_spider_output_async(
        self, response: Any, result: Any, spider: Any = None
    ) -> Any:
        async for each in result:
            self._note(each, response)
            yield each

    def _note(self, found: Any, response: Any) -> None:
        from scrapy import Request

        if isinstance(found, Request):
            self._crawler.crawlfleet_scheduler.led_to(found, response)


def host_of(url: str) -> str:
    """What one queue is for."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2].lower()}"


def pack(value: Any) -> Any:
    """A value as JSON has it, so that `unpack` gives the same again; raises `Unpackable`."""
    if value is None or isinstance(value, bool | int | float | str):
        if type(value) not in (type(None), bool, int, float, str):
            raise Unpackable(f"{type(value).__name__} is not a plain value")
        return value
    if isinstance(value, bytes):
        return {"$": "bytes", "is": value.decode("latin-1")}
    if type(value) is list:
        return [pack(each) for each in value]
    if type(value) in (tuple, set, frozenset):
        return {"$": type(value).__name__, "is": [pack(each) for each in value]}
    if type(value) is dict:
        if "$" not in value and all(type(key) is str for key in value):
            return {key: pack(each) for key, each in value.items()}
        return {"$": "dict", "is": [[pack(key), pack(each)] for key, each in value.items()]}
    raise Unpackable(f"{type(value).__name__} is not a plain value")


def unpack(value: Any) -> Any:
    """What `pack` was given."""
    if isinstance(value, list):
        return [unpack(each) for each in value]
    if not isinstance(value, dict):
        return value
    if "$" not in value:
        return {key: unpack(each) for key, each in value.items()}
    held = value["is"]
    if value["$"] == "bytes":
        return held.encode("latin-1")
    if value["$"] == "dict":
        return {unpack(key): unpack(each) for key, each in held}
    made = {"tuple": tuple, "set": set, "frozenset": frozenset}[value["$"]]
    return made(unpack(each) for each in held)
