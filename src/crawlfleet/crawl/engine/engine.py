"""The engine of a crawl: it leases hosts, visits their URLs at the hosts' pace, and reports the
results.

One process, one event loop. A leased host has as many visitors as it allows requests at once. Each
visitor takes the next URL of the host, waits for the host's clock, fetches, reads, and repeats. A
few times a second the engine reports all results as one step and leases new work. When the process
dies, URLs that it leased and did not report are visited again by the next one: those visited since
the last step (within `HAND_IN_EVERY_S` and the step being written, never more than
`MAX_HELD_PAGES` and one for each visitor), and those in flight (at most
`neighbourhood.IN_FLIGHT`).
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from crawlfleet.core.politeness.host_clock import HostClock
from crawlfleet.core.politeness.retry import may_pass
from crawlfleet.crawl.engine.outcomes import (
    OutcomeReader,
    PageOutcome,
    asked_to_wait,
    disallowed,
    wanted_types,
)
from crawlfleet.crawl.engine.requests import Asking
from crawlfleet.crawl.fetch.cookies import CookieJar
from crawlfleet.crawl.fetch.fetcher import Fetcher
from crawlfleet.crawl.fetch.messages import Fetched, FetchRequest
from crawlfleet.crawl.links import Links
from crawlfleet.crawl.politeness.hosts import Sites, VisitedHost, fullest, name_of, wishes
from crawlfleet.crawl.politeness.local_limits import Neighbourhood
from crawlfleet.crawl.politeness.robots_gate import Admittance, LeftAlone
from crawlfleet.crawl.work import EngineReport, Leased, WorkQueue
from crawlfleet.model.crawl.frontier import HostCommit, HostLease, Link, Visit, WaitingUrl
from crawlfleet.model.crawl.parameters import CrawlParameters
from crawlfleet.ports.sink import PageRecord
from crawlfleet.telemetry import Component, logger
from crawlfleet.worker.runner.crawlfleet_runner.key_window import LONG_PAUSE_S

if TYPE_CHECKING:
    from crawlfleet.crawl.politeness.ledger_client import Granted

log = logger(Component.WORKER)

HAND_IN_EVERY_S: Final = 0.25
HAND_IN_PAGES: Final = 400
MAX_HELD_PAGES: Final = 4 * HAND_IN_PAGES
"""Maximum number of visited pages that are not reported. Beyond it visitors wait, so that a slow
disk costs no memory."""
HOSTS: Final = 512
PORTION: Final = 32
"""URLs of a host that are leased at once where each takes a while; more without a delay."""
ASK_EVERY_S: Final = 0.02
GATHER_S: Final = 0.1
"""Seconds for which needs of hosts are gathered, so that their URLs are leased together."""
IDLE_ASK_S: Final = 0.5
"""Interval at which an idle engine asks for work, in seconds: retries and paused hosts become due
without a message."""


class Engine:
    """Visits the URLs that its work queue leases, until it is stopped."""

    def __init__(
        self,
        parameters: CrawlParameters,
        *,
        desk: WorkQueue,
        fetcher: Fetcher,
        judge: OutcomeReader,
        links: Links,
        neighbourhood: Neighbourhood,
        granted: "Granted | None" = None,
        product: str,
        now: Callable[[], float],
        parts: int = 1,
    ) -> None:
        """Create an engine. With `granted`, the fleet's ledger decides when a host is requested,
        instead of the neighbourhood. `product` is our name in robots.txt; `now` is the wall clock;
        `parts` is the number of parts of each host."""
        self._parameters = parameters
        self._politeness = parameters.politeness
        self._limits = parameters.limits
        self._desk = desk
        self._judge = judge
        self._links = links
        self._now = now
        self._asking = Asking(
            fetcher=fetcher, neighbourhood=neighbourhood, granted=granted, now=now
        )
        self._content_types = wanted_types(parameters)
        self._cookies = CookieJar()
        self._use_cookies = parameters.fetching.cookies
        self._conditional = parameters.fetching.conditional
        eager = not self._politeness.delay_s
        self._portion = self._politeness.concurrency * 8 if eager else PORTION
        self._hosts: dict[str, VisitedHost] = {}
        self._sites = Sites(parameters.politeness, began=now(), parts=parts)
        self._admittance = Admittance(
            parameters.politeness,
            ask=self._asking.ask,
            tell=self._asking.tell,
            sites=self._sites,
            product=product,
            now=now,
        )
        self._releasing: list[VisitedHost] = []
        self._pages: list[PageRecord] = []
        self._seeds: list[Link] = []
        self._widened: list[str] = []
        self._widenings = 0
        """Number of scope extensions by other engines that this one has applied."""
        self._held = 0
        """Number of visits that were not reported yet."""
        self._room = asyncio.Event()
        self._room.set()
        self._hungry = asyncio.Event()
        self._soon: asyncio.TimerHandle | None = None
        self._to_hand_in = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._failed: BaseException | None = None
        self._stopping = False

    async def run(self, until: asyncio.Event) -> None:
        """Visit URLs until the event is set; then report the results and give the rest back."""
        self._hungry.set()
        leasing = asyncio.create_task(self._lease(), name="lease")
        handing_in = asyncio.create_task(self._hand_in_regularly(), name="hand in")
        waiting = asyncio.create_task(until.wait(), name="until")
        stopped: asyncio.CancelledError | None = None
        try:
            await asyncio.wait([leasing, handing_in, waiting], return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError as order:
            # Nothing is waited for in here: where this is compiled, all other tasks would seem to
            # handle the exception meanwhile.
            stopped = order
        waiting.cancel()
        tasks = [leasing, *self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        await self._asking.close()
        await self._judge.close()
        # This one ends by itself: what it has begun to hand in counts.
        self._stopping = True
        self._to_hand_in.set()
        await asyncio.wait([handing_in])
        # All are looked at: of one that is not, the event loop complains.
        ends = [loop.exception() for loop in (leasing, handing_in) if not loop.cancelled()]
        if stopped is not None:
            raise stopped
        for error in ends:
            if error is not None:
                raise error
        if self._failed is not None:
            raise self._failed
        for host in self._hosts.values():
            host.give_back()
        self._releasing += self._hosts.values()
        self._hosts.clear()
        await self._hand_in()

    async def _lease(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(IDLE_ASK_S):
                    await self._hungry.wait()
            self._hungry.clear()
            if self._soon is not None:
                self._soon.cancel()
                self._soon = None
            self._release_idle()
            held = wishes(self._hosts.values())
            leased = await self._desk.lease(
                hosts=HOSTS - len(self._hosts), urls=self._portion, held=held, now=self._now()
            )
            self._widen(leased)
            for lease in leased.leases:
                self._take(lease)
            for host in fullest(self._hosts.values(), leased.surplus):
                self._release(host)
            for name in held:
                if asking := self._hosts.get(name):
                    asking.wanted = not asking.queue
            self._hand_in_if_starved()
            await asyncio.sleep(ASK_EVERY_S)

    def _ask_soon(self) -> None:
        if self._soon is None:
            loop = asyncio.get_running_loop()
            self._soon = loop.call_later(GATHER_S, self._hungry.set)

    def _widen(self, leased: Leased) -> None:
        for url in leased.widened[self._widenings :]:
            self._links.widen(url, url)
        self._widenings = len(leased.widened)

    def _take(self, lease: HostLease) -> None:
        host = self._hosts.get(lease.host)
        if host is not None and lease.state is not None:
            self._forget([lease.host])  # a new lease: the one that we had was lost meanwhile
            host = None
        if host is None and lease.state is None:
            return  # more of a host that was released meanwhile: with that it waits again
        if host is None:
            site = self._sites.enter(lease)
            self._hosts[lease.host] = host = VisitedHost(lease, site, portion=self._portion)
            self._admittance.welcome(site)
            if lease.state and lease.state.cookies:
                # Of a part: others visit the host as well, and each goes on with its own session.
                self._cookies.load(
                    name_of(site.key),
                    lease.state.cookies,
                    self._now(),
                    unless_known=site.key != lease.host,
                )
            self._spawn(self._prepare(host))
            return
        host.fill(lease.urls, self._now())
        if host.ready:
            self._employ(host)

    def _employ(self, host: VisitedHost) -> None:
        """Start as many visitors as the host has URLs for, up to the host's limit."""
        while host.visitors < min(host.at_once, len(host.queue)):
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
            if host.is_over(now):
                self._release(host)

    def _release(self, host: VisitedHost) -> None:
        if self._hosts.pop(host.name, None) is None:
            return
        self._sites.leave(host)
        host.give_back()
        self._releasing.append(host)
        self._to_hand_in.set()

    async def _prepare(self, host: VisitedHost) -> None:
        """Fetch robots.txt if needed, then start visitors; or give the host back for now."""
        async with host.site.door:
            closed = await self._admittance.refresh(host.site)
        if closed is None:
            self._take_sitemaps(host)
            host.ready = True
            self._employ(host)
            return
        if closed.answer is not None:
            self._turn_away(host, closed.answer)
        self._release(host)

    def _turn_away(self, host: VisitedHost, answer: Fetched) -> None:
        """Conclude visits of a host that does not answer with its last response: the next one, or
        all of them if the failure will last."""
        lasting = host.clock.lost or not may_pass(answer.outcome, answer.status)
        while host.queue:
            waiting = host.queue.popleft()
            self._conclude(host, self._judge.judge(waiting, answer, self._now(), lost=lasting))
            if not lasting:
                break

    def _take_sitemaps(self, host: VisitedHost) -> None:
        if self._parameters.scope.sitemaps:
            found = (self._links.seed(url) for url in host.site.rules.sitemaps)
            self._seeds += [link for link in found if isinstance(link, Link)]

    async def _visit_host(self, host: VisitedHost) -> None:
        queue, clock = host.queue, host.clock
        try:
            while queue and host.ready:
                if self._admittance.is_due(host.site, self._now()):
                    host.ready = False
                    self._spawn(self._prepare(host))
                    break
                if not host.wanted and host.is_low:
                    host.wanted = True
                    self._ask_soon()
                waiting = queue.popleft()
                # Each time: another part of the host may have fetched them anew.
                rules = host.site.rules
                if not rules.allows(waiting.url):
                    self._record(host, disallowed(waiting, rules.reason, self._now()))
                    continue
                while not clock.grant(now := self._now()):
                    pause_s = clock.next_at - now
                    if pause_s > LONG_PAUSE_S:
                        queue.appendleft(waiting)
                        self._release(host)
                        return
                    await asyncio.sleep(max(pause_s, 0.001))
                await self._visit(host, waiting)
                if not self._room.is_set():
                    await self._room.wait()
        except LeftAlone:
            self._release(host)
        finally:
            host.visitors -= 1
            if not queue:
                host.wanted = True
                self._hungry.set()
                self._hand_in_if_starved()

    async def _visit(self, host: VisitedHost, waiting: WaitingUrl) -> None:
        fetched, judged = await self._try(host, waiting)
        if judged.through is not None and await self._may_ask(host.clock):
            fetched, judged = await self._try(host, judged.through)
        self._conclude(host, judged)
        if host.clock.lost:
            self._turn_away(host, fetched)

    async def _may_ask(self, clock: HostClock) -> bool:
        """Wait for a slot; whether there is one before long."""
        while not clock.grant(now := self._now()):
            if clock.next_at - now > LONG_PAUSE_S:
                return False
            await asyncio.sleep(max(clock.next_at - now, 0.001))
        return True

    async def _try(self, host: VisitedHost, waiting: WaitingUrl) -> tuple[Fetched, PageOutcome]:
        request = FetchRequest(
            url=waiting.url,
            headers=self._headers(waiting),
            content_types=self._content_types,
            max_body_bytes=self._limits.max_body_bytes,
        )
        try:
            fetched = await self._asking.ask(host.site.key, host.clock, request)
        except BaseException:
            host.returned.append(waiting.id)
            raise
        reading = None
        if not self._judge.reads_at_once(fetched):
            try:
                reading = await self._judge.read_within_limit(fetched)
            except BaseException:
                host.returned.append(waiting.id)
                raise
        now = self._now()
        new_cookies = self._use_cookies and self._cookies.take(waiting.url, fetched.headers, now)
        judged = self._judge.judge(
            waiting,
            fetched,
            now,
            retry_after_s=asked_to_wait(fetched, now),
            new_cookies=new_cookies,
            lost=host.clock.lost,
            reading=reading,
        )
        if judged.visit is not None:
            host.clock.served(judged.visit.outcome, fetched.status, fetched.elapsed_s)
        return fetched, judged

    def _conclude(self, host: VisitedHost, judged: PageOutcome) -> None:
        if judged.page is not None:
            self._pages.append(judged.page)
        if judged.widened is not None:
            self._widened.append(judged.widened)
        if judged.visit is not None:
            self._record(host, judged.visit)
        elif judged.retry is not None:
            host.retries.append(judged.retry)
            self._count_held()

    def _headers(self, waiting: WaitingUrl) -> tuple[tuple[str, str], ...]:
        headers: tuple[tuple[str, str], ...] = ()
        if self._use_cookies and (cookie := self._cookies.header(waiting.url, self._now())):
            headers = (("cookie", cookie),)
        if waiting.validator and self._conditional:
            name = "if-none-match" if '"' in waiting.validator else "if-modified-since"
            headers += ((name, waiting.validator),)
        return headers

    # Results go out

    def _record(self, host: VisitedHost, visit: Visit) -> None:
        host.visits.append(visit)
        self._count_held()

    def _count_held(self) -> None:
        self._held += 1
        if self._held == HAND_IN_PAGES:
            self._to_hand_in.set()
        elif self._held >= MAX_HELD_PAGES:
            self._room.clear()

    def _hand_in_if_starved(self) -> None:
        """Report at once when no host has work: the results may be the next work."""
        if self._held and not any(host.visitors or host.queue for host in self._hosts.values()):
            self._to_hand_in.set()

    async def _hand_in_regularly(self) -> None:
        while not self._stopping:
            with suppress(TimeoutError):
                async with asyncio.timeout(HAND_IN_EVERY_S):
                    await self._to_hand_in.wait()
            if self._failed is not None:
                raise self._failed
            self._to_hand_in.clear()
            if await self._hand_in() and self._wants_more():
                self._hungry.set()

    def _wants_more(self) -> bool:
        """Return whether the results may yield the next work for this engine. If not, it asks for
        work when a host runs low, or now and then for new hosts."""
        return not self._hosts or any(host.wanted for host in self._hosts.values())

    async def _hand_in(self) -> bool:
        """Report all results since the last call. Returns whether there were any."""
        released, self._releasing = self._releasing, []
        # A visitor may still be on its way: its host is released when it is back. What others
        # brought goes with their pages, now.
        news = [self._news(host, release=not host.visitors) for host in released]
        self._releasing += [host for host in released if host.visitors]
        news += [self._news(host) for host in self._hosts.values()]
        hosts = [each for each in news if each is not None]
        if not (hosts or self._pages or self._seeds):
            return False
        measures, pauses = self._asking.take()
        handed = EngineReport(
            at=self._now(),
            hosts=hosts,
            pages=self._pages,
            seeds=self._seeds,
            measures=measures,
            rejected=dict(self._links.refused),
            pauses=pauses,
            widened=self._widened,
        )
        self._links.refused = Counter()
        self._pages, self._seeds, self._widened, self._held = [], [], [], 0
        refused = await self._desk.hand_in(handed)
        if refused:
            self._forget(refused)
        self._room.set()
        return True

    def _news(self, host: VisitedHost, *, release: bool = False) -> HostCommit | None:
        return host.news(self._cookies.dump(name_of(host.site.key), self._now()), release=release)

    def _forget(self, lost: Sequence[str]) -> None:
        """Drop hosts whose leases this engine has lost."""
        log.warning("leases were lost", hosts=len(lost))
        for name in lost:
            if host := self._hosts.pop(name, None):
                self._sites.leave(host)
                host.queue.clear()
