"""The crawl itself: lease hosts, visit their URLs at their pace, hand in what came of it.

One process, one event loop. A host that is leased has as many visitors as it may be asked by at
once; each takes the next URL of the host, waits for the host's clock, fetches, reads, goes on. A
few times a second everything that happened is handed in as one step, and new work is leased. What
was leased and not handed in when the process dies is visited again by the next one: at most
`HAND_IN_PAGES` pages, or those of `HAND_IN_EVERY_S`, and what was in flight.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any, Final

from crawlfleet.core.politeness import Pause
from crawlfleet.core.refetch import retry_after_s
from crawlfleet.crawl.cookies import CookieJar
from crawlfleet.crawl.desk import Desk, Handed, HostMeasure
from crawlfleet.crawl.fetch import Fetcher
from crawlfleet.crawl.hosts import VisitedHost
from crawlfleet.crawl.judgement import Judge
from crawlfleet.crawl.links import Links
from crawlfleet.crawl.page import Fetched, FetchRequest
from crawlfleet.crawl.robots import Robots
from crawlfleet.model.crawl import CrawlParameters, Outcome
from crawlfleet.model.frontier import HostCommit, HostLease, Link, Visit, Waiting
from crawlfleet.ports.sink import PageRecord
from crawlfleet.telemetry import Component, logger

log = logger(Component.WORKER)

HAND_IN_EVERY_S: Final = 0.25
HAND_IN_PAGES: Final = 400
MOST_HELD_PAGES: Final = 4 * HAND_IN_PAGES
"""Visited and not handed in; then visitors wait, so that a slow disk costs no memory."""
HOSTS: Final = 512
IN_FLIGHT: Final = 256
PORTION: Final = 32
"""URLs of a host that are leased at once where each takes a while; more without a delay."""
LONG_PAUSE_S: Final = 15.0
"""A host that must be left alone for longer is given back, and its URLs with it."""
LINGER_S: Final = 2.0
"""How long a host without work is kept: a page may still link to it."""
ASK_EVERY_S: Final = 0.02
IDLE_ASK_S: Final = 0.5


class Engine:
    """Visits what a desk leases, until it is told to stop."""

    def __init__(
        self,
        parameters: CrawlParameters,
        *,
        desk: Desk,
        fetcher: Fetcher,
        judge: Judge,
        links: Links,
        product: str,
        now: Callable[[], float],
    ) -> None:
        """`product` is the name by which robots.txt knows us; `now` is the wall clock."""
        self._parameters = parameters
        self._politeness = parameters.politeness
        self._limits = parameters.limits
        self._desk = desk
        self._fetcher = fetcher
        self._judge = judge
        self._links = links
        self._now = now
        self._robots = Robots(self._fetch_robots, product=product)
        self._content_types = _content_types(parameters)
        self._cookies = CookieJar()
        self._use_cookies = parameters.fetching.cookies
        eager = not self._politeness.delay_s
        self._portion = self._politeness.concurrency * 8 if eager else PORTION
        self._hosts: dict[str, VisitedHost] = {}
        self._releasing: list[VisitedHost] = []
        self._pages: list[PageRecord] = []
        self._seeds: list[Link] = []
        self._held = 0
        """Visits that were not handed in yet."""
        self._in_flight = asyncio.Semaphore(IN_FLIGHT)
        self._room = asyncio.Event()
        self._room.set()
        self._hungry = asyncio.Event()
        self._to_hand_in = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._failed: BaseException | None = None
        self._stopping = False

    async def run(self, until: asyncio.Event) -> None:
        """Visit until the event is set; then hand in what is done, and give back the rest."""
        self._hungry.set()
        loops = [
            asyncio.create_task(self._lease(), name="lease"),
            asyncio.create_task(self._hand_in_regularly(), name="hand in"),
        ]
        waiting = asyncio.create_task(until.wait(), name="until")
        try:
            await asyncio.wait([*loops, waiting], return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._stopping = True
            waiting.cancel()
            await _end(loops)
            await _end([*self._tasks])
        for loop in loops:
            if not loop.cancelled() and (error := loop.exception()):
                raise error
        if self._failed is not None:
            raise self._failed
        for host in self._hosts.values():
            host.give_back()
        self._releasing += self._hosts.values()
        self._hosts.clear()
        await self._hand_in()

    # Work comes in

    async def _lease(self) -> None:
        while True:
            await self._hungry.wait()
            self._hungry.clear()
            self._release_idle()
            held = {
                host.name: self._portion - len(host.queue)
                for host in self._hosts.values()
                if host.wanted
            }
            leases = await self._desk.lease(
                hosts=HOSTS - len(self._hosts), urls=self._portion, held=held, now=self._now()
            )
            for lease in leases:
                self._take(lease)
            for name in held:
                if host := self._hosts.get(name):
                    host.wanted = not host.queue
            self._hand_in_if_starved()
            await asyncio.sleep(ASK_EVERY_S if leases else IDLE_ASK_S if not held else ASK_EVERY_S)

    def _take(self, lease: HostLease) -> None:
        host = self._hosts.get(lease.host)
        if host is None:
            self._hosts[lease.host] = host = VisitedHost(lease, self._politeness)
            self._links.admit(lease.host)
            if lease.state and lease.state.cookies:
                self._cookies.load(_name(lease.host), lease.state.cookies, self._now())
            self._spawn(self._prepare(host))
            return
        host.queue.extend(lease.urls)
        host.idle_since = None
        if host.ready:
            self._employ(host)

    def _employ(self, host: VisitedHost) -> None:
        """As many visitors as have something to do, up to what the host allows."""
        while host.visitors < min(self._politeness.concurrency, len(host.queue)):
            host.visitors += 1
            self._spawn(self._visit_host(host))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) and self._failed is None:
            self._failed = error
            self._to_hand_in.set()

    def _release_idle(self) -> None:
        now = self._now()
        for host in [*self._hosts.values()]:
            if host.visitors or host.queue or not host.ready:
                host.idle_since = None
            elif host.idle_since is None:
                host.idle_since = now
            elif now - host.idle_since > LINGER_S:
                self._release(host)

    def _release(self, host: VisitedHost) -> None:
        del self._hosts[host.name]
        host.give_back()
        self._releasing.append(host)
        self._to_hand_in.set()

    # Visits

    async def _prepare(self, host: VisitedHost) -> None:
        """Know robots.txt, then begin."""
        if self._politeness.obey_robots:
            host.learn(await self._robots.refreshed(host.name, host.known, self._now()))
            host.rules = self._robots.rules(host.name, host.known, self._now())
            if told := host.clock.crawl_delay(host.rules.crawl_delay_s):
                log.info("robots.txt", host=host.name, note=told)
            self._take_sitemaps(host)
        host.ready = True
        self._employ(host)

    def _take_sitemaps(self, host: VisitedHost) -> None:
        if self._parameters.scope.sitemaps:
            found = (self._links.seed(url) for url in host.rules.sitemaps)
            self._seeds += [link for link in found if isinstance(link, Link)]

    async def _visit_host(self, host: VisitedHost) -> None:
        queue, rules, clock = host.queue, host.rules, host.clock
        try:
            while queue:
                if not host.wanted and len(queue) <= self._portion // 4:
                    host.wanted = True
                    self._hungry.set()
                waiting = queue.popleft()
                if not rules.allows(waiting.url):
                    self._record(
                        host,
                        Visit(
                            waiting.id,
                            Outcome.ROBOTS,
                            0,
                            self._now(),
                            counts=False,
                            note=rules.reason,
                        ),
                    )
                    continue
                while not clock.grant(now := self._now()):
                    pause_s = clock.next_at - now
                    if pause_s > LONG_PAUSE_S:
                        queue.appendleft(waiting)
                        if host.name in self._hosts:
                            self._release(host)
                        return
                    await asyncio.sleep(max(pause_s, 0.001))
                await self._visit(host, waiting)
                if not self._room.is_set():
                    await self._room.wait()
        finally:
            host.visitors -= 1
            if not queue:
                host.wanted = True
                self._hungry.set()
                self._hand_in_if_starved()

    async def _visit(self, host: VisitedHost, waiting: Waiting) -> None:
        request = FetchRequest(
            url=waiting.url,
            headers=self._headers(waiting),
            content_types=self._content_types,
            max_body_bytes=self._limits.max_body_bytes,
        )
        try:
            async with self._in_flight:
                fetched = await self._fetcher.fetch(request)
        except BaseException:
            host.clock.release()
            host.returned.append(waiting.id)
            raise
        now = self._now()
        wait_s = self._observe(host, fetched, now)
        new_cookies = self._use_cookies and self._cookies.take(waiting.url, fetched.headers, now)
        judged = self._judge.judge(
            waiting, fetched, now, retry_after_s=wait_s, new_cookies=new_cookies
        )
        if judged.page is not None:
            self._pages.append(judged.page)
        if judged.visit is not None:
            self._record(host, judged.visit)
        elif judged.retry is not None:
            host.retries.append(judged.retry)
            self._count_held()

    def _observe(self, host: VisitedHost, fetched: Fetched, now: float) -> float | None:
        """Tell the host's clock how it went; what the site asked us to wait."""
        asked = fetched.header("retry-after") if fetched.status >= 300 else None
        wait_s = retry_after_s(asked, now)
        pause = host.clock.observe(fetched.outcome, fetched.status, fetched.elapsed_s, wait_s, now)
        measure = host.measure
        measure.requests += 1
        measure.seconds += fetched.elapsed_s
        measure.bytes += fetched.wire_bytes
        if pause is not None:
            _tell(host, pause, now)
            measure.failures += 1
        return wait_s

    def _headers(self, waiting: Waiting) -> tuple[tuple[str, str], ...]:
        headers: tuple[tuple[str, str], ...] = ()
        if self._use_cookies and (cookie := self._cookies.header(waiting.url, self._now())):
            headers = (("cookie", cookie),)
        if waiting.validator:
            name = "if-none-match" if '"' in waiting.validator else "if-modified-since"
            headers += ((name, waiting.validator),)
        return headers

    async def _fetch_robots(self, request: FetchRequest) -> Fetched:
        """With a slot of the host that it goes to, which may be another one after a redirect."""
        name = request.url[: request.url.index("/", 8)]
        host = self._hosts.get(name)
        while host is not None and not host.clock.grant(now := self._now()):  # noqa: ASYNC110
            await asyncio.sleep(max(host.clock.next_at - now, 0.01))
        async with self._in_flight:
            fetched = await self._fetcher.fetch(request)
        if host is not None:
            self._observe(host, fetched, self._now())
        return fetched

    # Results go out

    def _record(self, host: VisitedHost, visit: Visit) -> None:
        host.visits.append(visit)
        self._count_held()

    def _count_held(self) -> None:
        self._held += 1
        if self._held == HAND_IN_PAGES:
            self._to_hand_in.set()
        elif self._held >= MOST_HELD_PAGES:
            self._room.clear()

    def _hand_in_if_starved(self) -> None:
        """Nobody has anything to do: what was found may be the next work."""
        if self._held and not any(host.visitors or host.queue for host in self._hosts.values()):
            self._to_hand_in.set()

    async def _hand_in_regularly(self) -> None:
        while True:
            try:
                async with asyncio.timeout(HAND_IN_EVERY_S):
                    await self._to_hand_in.wait()
            except TimeoutError:
                pass
            if self._failed is not None:
                raise self._failed
            self._to_hand_in.clear()
            if await self._hand_in():
                self._hungry.set()

    async def _hand_in(self) -> bool:
        """Hand in what happened; whether anything had."""
        released, self._releasing = self._releasing, []
        news = [self._news(host, release=True) for host in released if not host.visitors]
        # A visitor may still be on its way: its host is released when it is back.
        self._releasing += [host for host in released if host.visitors]
        news += [self._news(host) for host in self._hosts.values()]
        handed = Handed(
            at=self._now(),
            hosts=[each for each in news if each is not None],
            pages=self._pages,
            seeds=self._seeds,
            measures=self._measures(released),
            rejected=dict(self._links.refused),
        )
        if not (handed.hosts or handed.pages or handed.seeds):
            return False
        self._links.refused = Counter()
        self._pages, self._seeds, self._held = [], [], 0
        refused = await self._desk.hand_in(handed)
        if refused:
            await self._without(handed, refused)
        self._room.set()
        return True

    def _news(self, host: VisitedHost, *, release: bool = False) -> HostCommit | None:
        return host.news(self._cookies.dump(_name(host.name), self._now()), release=release)

    async def _without(self, handed: Handed, lost: Any) -> None:
        """Some leases are not ours any more: hand in the rest, and forget those hosts."""
        gone = frozenset(lost)
        log.warning("leases were lost", hosts=len(gone))
        for name in gone:
            if host := self._hosts.pop(name, None):
                host.queue.clear()
        ids = {visit.id for part in handed.hosts if part.host in gone for visit in part.visits}
        handed.hosts = [part for part in handed.hosts if part.host not in gone]
        handed.pages = [page for page in handed.pages if page.id not in ids]
        await self._desk.hand_in(handed)

    def _measures(self, released: list[VisitedHost]) -> dict[str, HostMeasure]:
        measures = {}
        for host in (*self._hosts.values(), *released):
            if host.measure.requests:
                measures[host.name] = host.measure
                host.measure = HostMeasure()
        return measures


def _content_types(parameters: CrawlParameters) -> tuple[str, ...]:
    scope, wanted = parameters.scope, parameters.limits.content_types
    if scope.sitemaps or scope.feeds:
        wanted += ("application/xml", "text/xml", "application/*+xml", "application/gzip")
    return wanted


def _name(host_key: str) -> str:
    """The name of the host alone, without scheme and port."""
    return host_key.partition("://")[2].rpartition(":")[0] or host_key.partition("://")[2]


def _tell(host: VisitedHost, pause: Pause, now: float) -> None:
    log.info(
        "host left alone", host=host.name, seconds=round(pause.until - now, 1), why=pause.reason
    )


async def _end(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)
