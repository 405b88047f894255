"""Checks whether a host's robots.txt admits us, and fetches that file at the host's own pace."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import ClassVar, Final, NamedTuple

import msgspec

from crawlfleet.core.politeness.host_clock import HostClock
from crawlfleet.core.urls.robots_rules import FIRST_RETRY_S
from crawlfleet.crawl.fetch.messages import Fetched, FetchRequest
from crawlfleet.crawl.politeness.hosts import Site, Sites
from crawlfleet.crawl.politeness.robots import Robots
from crawlfleet.crawl.work import Pausing
from crawlfleet.errors import CrawlfleetError
from crawlfleet.model.crawl.parameters import Outcome, Politeness
from crawlfleet.model.task import ErrorClass
from crawlfleet.telemetry import Component, logger
from crawlfleet.worker.runner.crawlfleet_runner.key_window import LONG_PAUSE_S

log = logger(Component.WORKER)
MAX_GUESTS: Final = 1000

Ask = Callable[[str, HostClock, FetchRequest], Awaitable[Fetched]]
"""Fetches with a slot of the named host's clock that was granted, and gives it back."""


class LeftAlone(CrawlfleetError):
    """The fleet leaves the host alone for a while; its clock knows until when."""


class NoLedger(CrawlfleetError):
    """Raised when no ledger can keep several workers together within the limits of a host."""

    error_class: ClassVar = ErrorClass.INVALID


class Closed(NamedTuple):
    """A host cannot be visited now."""

    answer: Fetched | None
    """The response to record for the visit, since the host does not answer; `None`: try again
    later."""


class Admittance:
    """Gets and refreshes the rules of hosts; never raises for what a site does."""

    def __init__(
        self,
        politeness: Politeness,
        *,
        ask: Ask,
        tell: Callable[[Pausing], None],
        sites: Sites,
        product: str,
        now: Callable[[], float],
    ) -> None:
        """`sites` are those that are leased now; `product` is how robots.txt calls us."""
        self._politeness = politeness
        self._ask = ask
        self._tell = tell
        self._sites = sites
        self._now = now
        self._robots = Robots(self._fetch, product=product)
        self._guests: dict[str, HostClock] = {}
        """Clocks of hosts that are not leased, but to which another host's robots.txt
        redirected."""

    def welcome(self, site: Site) -> None:
        """Take over the clock of a newly leased host that had requests before, because another
        host's robots.txt redirected to it."""
        if guest := self._guests.pop(site.key, None):
            site.clock.next_at = max(site.clock.next_at, guest.next_at)

    def is_due(self, site: Site, now: float) -> bool:
        """Return whether the host's robots.txt must be fetched before the next visit."""
        return self._politeness.obey_robots and now >= site.known.robots_until

    async def refresh(self, site: Site) -> Closed | None:
        """Know the host's rules; `None` when its URLs can be judged by them."""
        if not self._politeness.obey_robots:
            return None
        last: list[Fetched] = []

        async def fetch(request: FetchRequest) -> Fetched:
            last.append(await self._fetch(request))
            return last[-1]

        try:
            state = await self._robots.refreshed(site.key, site.known, self._now(), fetch=fetch)
        except LeftAlone:
            return Closed(None)
        site.known = state
        now = self._now()
        site.rules = self._robots.rules(site.key, state, now)
        if told := site.clock.crawl_delay(site.rules.crawl_delay_s):
            log.info("robots.txt", host=site.key, note=told)
        if not (state.robots_failed_at and site.rules.closed):
            return None
        if last and not last[-1].status:
            # Not the file but the host cannot be had: ask anew when it is its turn again.
            site.known = msgspec.structs.replace(state, robots_until=now)
            return Closed(last[-1])
        if now - state.robots_failed_at >= self._politeness.retries * FIRST_RETRY_S:
            return None  # long enough: nothing is allowed
        site.clock.next_at = max(site.clock.next_at, state.robots_until)
        why = f"{site.rules.reason} allowed"
        self._tell(Pausing(site.key, site.clock.next_at - now, why, site.clock.next_at))
        return Closed(None)

    async def _fetch(self, request: FetchRequest) -> Fetched:
        """Fetch with a slot of the target host, which is another one after some redirects."""
        name = request.url[: request.url.index("/", 8)]
        site = self._sites.get(name)
        clock = site.clock if site else self._guest(name)
        while not clock.grant(now := self._now()):
            pause_s = clock.next_at - now
            if pause_s > LONG_PAUSE_S:
                why = f"{name} is left alone for {pause_s:.0f} s"
                return Fetched(url=request.url, outcome=Outcome.TIMEOUT, reason=why)
            await asyncio.sleep(max(pause_s, 0.01))
        return await self._ask(name, clock, request)

    def _guest(self, name: str) -> HostClock:
        if name not in self._guests:
            while len(self._guests) >= MAX_GUESTS:
                del self._guests[next(iter(self._guests))]
            self._guests[name] = HostClock(self._politeness)
        return self._guests[name]
