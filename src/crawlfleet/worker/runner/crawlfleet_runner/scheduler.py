"""A Scrapy scheduler whose requests wait at the master: several workers share them, and a crawl
that is killed continues elsewhere.

A request is done when its response was processed to the end. Then, in one step, the requests that
it led to are added, its items count, and it is never made again. Until then nothing of it counts,
so that a worker that makes it again repeats nothing. Hosts are leased, each to one worker at a
time, and requested when the fleet's ledger allows it.
"""

import contextlib
import hashlib
import json
import logging
import time
from collections import deque
from collections.abc import Iterator
from typing import Any, Final

from .frontier import Frontier
from .key_window import LONG_PAUSE_S
from .leased_request import Page
from .ledger import Ledger
from .politeness import Gate
from .requests import KEY, host_of, read, written

HOSTS: Final = 200
EACH: Final = 16
"""Requests of one host that are leased at once: so many are made again when a worker dies."""
COMMIT_EVERY_S: Final = 0.3
"""Interval of commits, in seconds. Requests finished since the last commit are repeated when the
worker dies."""
LEASE_EVERY_S: Final = 1.0
"""Interval at which more requests are leased while there are enough for now."""
FIRST_PATIENCE_S: Final = 0.25
MAX_PATIENCE_S: Final = 2.0
"""Between two questions for work, or for the end, when there was none."""
LOOSE: Final = 500
MAX_LOOKS: Final = 100
"""When a crawl is ended: items that no page led to, leased at once; and how often their queue, or
more of it, is looked for. It came among the first, and queues take turns."""
PART: Final = "#"
"""Between a host and the number of one of its parts."""
ITEMS: Final = "items:"
"""The queue of items that no page led to: each waits like a request, so that it counts once."""
log = logging.getLogger("crawlfleet")


class Scheduler:
    """Implements `scrapy.core.scheduler.BaseScheduler`."""

    frontier: Frontier
    ledger: Ledger
    """Set before a crawl begins: Scrapy makes its scheduler itself."""
    parts = 1
    """Number of parts of each host."""

    def __init__(self, crawler: Any) -> None:
        self._crawler = crawler
        self._ready: dict[str, deque[tuple[Page, Any]]] = {}
        """Leased requests by queue; the queue that was served last comes last."""
        self._local: deque[Any] = deque()
        """Requests that cannot be serialised, and so stay in this process."""
        self._making: dict[int, Page] = {}
        """Requests that Scrapy has and has not finished, by a number of their own."""
        self._made = 0
        self._done: list[Page] = []
        self._returned: list[Page] = []
        self._leaving: set[str] = set()
        """Queues to give to other workers, once their requests under way here are done."""
        self._rests: dict[str, float] = {}
        """End of the pause of each leased queue whose host asked for one."""
        self._seeds: dict[int, list[Any]] = {}
        self._loose: set[int] = set()
        """Ids of items that no page led to and that were not leased here yet."""
        self._known: set[int] = set()
        self._ordinals: dict[bytes, int] = {}
        self._parents: dict[int, tuple[Any, Page]] = {}
        """The page that each new request came from, by the identity of the request. The request is
        kept with it, so that no other object can get its identity."""
        self._gate: Gate | None = None
        self._slot: Any = None
        self._has_warned = False
        self._committed_at = self._leased_at = time.monotonic()
        self._ask_at = 0.0
        self.trouble: Exception | None = None
        """The error that ended the crawl, since Scrapy only logs exceptions from here. Nothing
        counts after it."""
        self._patience_s = FIRST_PATIENCE_S

    @classmethod
    def from_crawler(cls, crawler: Any) -> "Scheduler":
        made = crawler.crawlfleet_scheduler = cls(crawler)
        return made

    def open(self, spider: Any) -> None:
        self._spider = spider
        self.ledger.open()
        self.frontier.open()

    def close(self, reason: str) -> None:
        self._slot = None
        if self.trouble is None:
            with self._noting_trouble():
                self._commit()
                if self._loose:
                    self._count_loose()
                self.frontier.close()

    def has_pending_requests(self) -> bool:
        return bool(
            self._ready
            or self._local
            or self._done
            or self._returned
            or self._seeds
            or self.frontier.outstanding
        )

    def __len__(self) -> int:
        return sum(map(len, self._ready.values())) + len(self._local) + self.frontier.waiting

    def enqueue_request(self, request: Any) -> bool:
        _, parent = self._parents.pop(id(request), (None, self._page_of(request)))
        request.meta.pop(KEY, None)
        if self.trouble is not None:
            return False
        if parent is not None and not self.frontier.has(parent):
            return False  # whoever has that page now finds it, too
        key = self._id_of(request, parent)
        links = self._seeds if parent is None else parent.links
        # Not by what other pages led to that are not done: they may never be.
        if key in self._known or key in links:
            self._crawler.stats.inc_value("dupefilter/filtered")
            return False
        try:
            text = written(request, self._spider)
        except ValueError as error:
            self._known.add(key)
            self._stay(request, error)
            return True
        if parent is not None:
            with self._noting_trouble():
                parent.hold(len(text))
        queue = self._queue_of(host_of(request.url), key)
        links[key] = [key, text, queue, max(-128, min(request.priority, 127))]
        self._crawler.stats.inc_value("scheduler/enqueued")
        return True

    def next_request(self) -> Any:
        self._hook()
        if self.trouble is None:
            with self._noting_trouble():
                self._attend()
        if self.trouble is not None:
            return None
        if self._local:
            return self._local.popleft()
        picked = self._pick()
        if picked is None:
            return None
        page, request = picked
        self._made += 1
        self._making[self._made] = page
        request.meta[KEY] = self._made
        page.request = request
        self._crawler.stats.inc_value("scheduler/dequeued")
        return request

    def tick(self) -> None:
        """Advance the crawl where it waits for a time or for the ledger. Must be called a few times
        a second."""
        with self._noting_trouble():
            self.ledger.tick()
            if self._slot is not None and self.trouble is None:
                self._attend()
                self._wake()

    def led_to(self, request: Any, response: Any) -> None:
        """A page's callback made a request, which is enqueued next."""
        page = self._page_of(response.request)
        if page is not None:
            self._parents[id(request)] = request, page

    def take_item(self, fields: Any, text: str, response: Any) -> None:
        """An item that has passed the pipelines; it counts with its page."""
        if self.trouble is not None:
            return
        page = None if response is None else self._page_of(response.request)
        if page is not None:
            line = self.frontier.items.line(fields, text)
            with self._noting_trouble():
                page.hold(len(line))
                page.lines.append(line)
            return
        mark = self._numbered(text.encode(), self._ordinals, "item")
        id = int.from_bytes(mark[:8], "big", signed=True)
        self._seeds[id] = [id, json.dumps([[*map(str, fields)], text]), ITEMS, 0]
        self._loose.add(id)

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
            start = "start" if parent is None else str(parent.id)
            mark = self._numbered(mark, ordinals, start)
        return int.from_bytes(mark[:8], "big", signed=True)

    def _numbered(self, mark: bytes, ordinals: dict[bytes, int], start: str) -> bytes:
        """Return a new mark each time that the same one comes."""
        ordinals[mark] = number = ordinals.get(mark, 0) + 1
        return hashlib.blake2b(mark + f"{start} {number}".encode()).digest()

    def _queue_of(self, host: str, id: int) -> str:
        return host if self.parts < 2 else f"{host}{PART}{id % self.parts}"

    def _room(self, host: str, concurrency: int) -> int:
        """Return this worker's share of a host's limit of concurrent requests; 0 when it may use
        all of it."""
        if self.parts < 2:
            return 0
        held = sum(queue.partition(PART)[0] == host for queue in self.frontier.held())
        return max(-(-concurrency * held // self.parts), 1)

    @contextlib.contextmanager
    def _noting_trouble(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # such as that the master has given the task to another
            self.trouble = self.trouble or error

    # What waits at the master

    def _attend(self) -> None:
        """Commit results that are due, give back queues for other workers, and lease more."""
        now = time.monotonic()
        is_idle = not self._ready and not self._local
        is_due = is_idle or now >= self._committed_at + COMMIT_EVERY_S
        if is_due and (self._done or self._returned or self._seeds):
            self._commit()
            self._ask_at = now
        self._give_back()
        if now < self._ask_at:
            return
        if self.frontier.waiting and (is_idle or self._is_short(now)):
            self._lease(now)
        elif is_idle and self.frontier.outstanding:
            # Others have the rest: it may come here yet, or the end may.
            self.frontier.look()
            self._wait(now)

    def _is_short(self, now: float) -> bool:
        if now < self._leased_at + LEASE_EVERY_S:
            return False
        held = self.frontier.held()
        return any(len(pages) <= EACH // 2 for pages in held.values()) or len(held) < HOSTS

    def _lease(self, now: float) -> None:
        self._leased_at = now
        found = self.frontier.lease(HOSTS, EACH, self._leaving)
        for page, text in found:
            self._known.add(page.id)
            if page.host == ITEMS:
                self._take_loose(page, text)
                continue
            request = read(text, self._spider)
            self._ready.setdefault(page.host, deque()).append((page, request))
        if found:
            self._patience_s = FIRST_PATIENCE_S
        else:
            self._wait(now)

    def _take_loose(self, page: Page, text: str) -> None:
        self._loose.discard(page.id)
        page.lines.append(self.frontier.items.line(*json.loads(text)))
        self._done.append(page)

    def _count_loose(self) -> None:
        """Count items that no page led to, at the end of a crawl that is ended early: they wait
        among the requests, which no worker may lease any more."""
        for queue in [*self._ready]:
            self._leave(queue)
        self._commit()
        for _ in range(MAX_LOOKS):
            if not self._loose or not self.frontier.waiting:
                break
            held = self.frontier.held()
            if ITEMS in held:
                others = held.keys() - {ITEMS}
                found = self.frontier.lease(0, len(held[ITEMS]) + LOOSE, others)
            else:
                found = self.frontier.lease(len(held) + HOSTS, 1, held.keys())
            for page, text in found:
                if page.host == ITEMS:
                    self._take_loose(page, text)
            if not found:
                break  # others have them, and see to them
        self._commit()

    def _wait(self, now: float) -> None:
        self._ask_at = now + self._patience_s
        self._patience_s = min(2 * self._patience_s, MAX_PATIENCE_S)

    def _commit(self) -> None:
        if self._seeds:
            self.frontier.add([*self._seeds.values()])
            self._known |= self._seeds.keys()
            self._seeds = {}
        if self._done or self._returned:
            lost = {*self.frontier.commit(self._done, self._returned, self._rests)}
            for page in self._done:
                # Whoever makes a lost one once more, perhaps this process, finds its links anew.
                if page not in lost:
                    self._known |= page.links.keys()
            self._done, self._returned = [], []
            held = self.frontier.held()
            self._leaving &= held.keys()
            self._rests = {queue: at for queue, at in self._rests.items() if queue in held}
        self._committed_at = time.monotonic()

    def _give_back(self) -> None:
        """Give back queues so that others get their share, and those whose hosts asked for a
        pause."""
        for queue in [*self._ready]:
            name = queue.partition(PART)[0]
            if (rest_s := self.ledger.rests_for_s(self.ledger.host(name))) > LONG_PAUSE_S:
                self._rests[queue] = time.time() + rest_s
                self._leave(queue)
        # Those that are leaving count until they have left.
        surplus, self.frontier.surplus = self.frontier.surplus - len(self._leaving), 0
        if surplus > 0:
            making = [page.host for page in self._making.values()]
            held = [queue for queue in self.frontier.held() if queue not in self._leaving]
            for queue in sorted(held, key=making.count)[:surplus]:
                self._leave(queue)

    def _leave(self, queue: str) -> None:
        self._leaving.add(queue)
        self._returned += [page for page, _ in self._ready.pop(queue, ())]

    # What goes to Scrapy

    def _pick(self) -> tuple[Page, Any] | None:
        """Return a request whose host may be requested now; hosts take turns. `None` if there is
        none."""
        assert self._gate is not None, "it was made before"
        for queue in [*self._ready]:
            waiting = self._ready[queue]
            while waiting and not self.frontier.has(waiting[0][0]):
                waiting.popleft()  # it is somebody else's now
            if not waiting:
                del self._ready[queue]
                continue
            page, request = waiting[0]
            host = self._gate.host(request)
            if not self.ledger.may_hand_out(host):
                continue
            waiting.popleft()
            del self._ready[queue]
            if waiting:
                self._ready[queue] = waiting
            page.out = host
            host.handed += 1
            return page, request
        return None

    def _hook(self) -> None:
        """Hook into the engine's list of requests in progress, to learn when a request is done: no
        signal shows that all of its items are processed."""
        if self._slot is not None:
            return
        engine = self._crawler.engine
        self._slot = slot = getattr(engine, "_slot", None) or engine.slot
        remove = slot.remove_request

        def removed(request: Any) -> None:
            page = self._page_of(request)
            # What was made from it may carry its mark, and is not the request itself.
            if page is not None and page.request is request:
                del self._making[request.meta[KEY]]
                if self._parents:
                    # A handler of signals had it ignored before it came here.
                    kept = (each for each in self._parents.items() if each[1][1] is not page)
                    self._parents = dict(kept)
                self._answered(page)
                (self._returned if page.is_left else self._done).append(page)
            remove(request)

        slot.remove_request = removed
        self._gate = Gate(
            self._crawler,
            self.ledger,
            room=self._room,
            answered=lambda request: self._answered(self._page_of(request)),
            left_alone=self._left_alone,
            is_page=self._is_page,
        )
        self._gate.install(engine.downloader.handlers)
        self.ledger.changed = self._wake

    def _answered(self, page: Page | None) -> None:
        """Count the page's request as answered, so that its host may get another one."""
        if page is not None and page.out is not None:
            page.out.handed -= 1
            page.out = None

    def _is_page(self, request: Any) -> bool:
        page = self._page_of(request)
        return page is not None and page.request is request

    def _left_alone(self, request: Any) -> None:
        if self._is_page(request):
            self._making[request.meta[KEY]].is_left = True
            return
        # Something that a pipeline wanted, for an item of one of the pages that are being dealt
        # with: it does not say which.
        for page in self._making.values():
            page.is_left = page.is_left or page.status > 0

    def _wake(self) -> None:
        """Have Scrapy ask for requests."""
        if self._slot is not None and self._slot.closing is None:
            self._slot.nextcall.schedule()

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
