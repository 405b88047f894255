"""The state of a host while this process visits it: its queue, its clock, its rules, its results.

Several parts of a split host may be visited here, each with a lease of its own; they share the
state of the whole host (`Site`).
"""

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Final

import msgspec

from crawlfleet.core.politeness.host_clock import HostClock
from crawlfleet.core.urls.host_parts import at_once, host_of
from crawlfleet.core.urls.robots_rules import ALL_ALLOWED, RobotsRules
from crawlfleet.model.crawl.frontier import (
    HostCommit,
    HostLease,
    HostState,
    UrlRetry,
    Visit,
    WaitingUrl,
)
from crawlfleet.model.crawl.parameters import Politeness

FRESH: Final = HostState()
LINGER_S: Final = 2.0
"""Seconds for which a host without work is kept: a page may still link to it."""
QUICK_S: Final = 1.0
"""Seconds that a portion should last at least: leasing the next one costs as much as a page."""
MAX_PORTION: Final = 1024


def name_of(host_key: str) -> str:
    """The name of the host alone, without scheme and port."""
    authority = host_key.partition("://")[2]
    name, _, port = authority.rpartition(":")
    return name if port.isdigit() else authority


class Site:
    """The state that all locally visited parts of a host share. A host that is not divided has one
    part."""

    __slots__ = ("clock", "door", "key", "known", "rules", "visited")

    def __init__(self, key: str, clock: HostClock) -> None:
        self.key = key
        """The host key."""
        self.clock = clock
        self.visited: dict[str, int] = {}
        """Locally visited parts of the host, with the number of requests that each may have at
        once."""
        self.known = FRESH
        """State from the previous owner of the host, with later findings about robots.txt."""
        self.rules: RobotsRules = ALL_ALLOWED
        self.door = asyncio.Lock()
        """Held by the visitor that requests robots.txt; the others wait, and know it then."""

    def join(self, part: str, at_once: int, known: HostState) -> None:
        """Add one more part, with the previous owner's state of the host."""
        self.clock.next_at = max(self.clock.next_at, known.next_at)
        if not self.visited or known.robots_until > self.known.robots_until:
            self.known = known
        self.visited[part] = at_once
        self.clock.concurrency = sum(self.visited.values())

    def part(self, part: str) -> None:
        """One less. Its visitors may still wait for their turn, also those of the last one."""
        del self.visited[part]
        if self.visited:
            self.clock.concurrency = sum(self.visited.values())


class Sites:
    """The hosts that are visited here, by their keys."""

    def __init__(self, politeness: Politeness, *, began: float, parts: int = 1) -> None:
        """`began` is when this process began to visit: an earlier one may have been killed right
        after a request of which nothing was written down. `parts` are those of each host."""
        self._politeness = politeness
        self._began = began
        self._parts = parts
        self._sites: dict[str, Site] = {}

    def get(self, key: str) -> Site | None:
        return self._sites.get(key)

    def enter(self, lease: HostLease) -> Site:
        """Register the lease of a host or of a part of one."""
        key, known = host_of(lease.host), lease.state or FRESH
        site = self._sites.get(key)
        if site is None:
            clock = HostClock(self._politeness, known)
            if known.delay_s:
                clock.next_at = max(clock.next_at, self._began + known.delay_s)
            site = self._sites[key] = Site(key, clock)
        site.join(lease.host, at_once(lease.host, self._politeness.concurrency, self._parts), known)
        return site

    def leave(self, host: "VisitedHost") -> None:
        """Unregister a lease that has ended."""
        site = host.site
        site.part(host.name)
        if not site.visited:
            del self._sites[site.key]


class VisitedHost:
    """One lease of a host, from its first URLs to its release."""

    __slots__ = (
        "_filled_at",
        "_idle_since",
        "at_once",
        "clock",
        "name",
        "portion",
        "queue",
        "ready",
        "retries",
        "returned",
        "site",
        "token",
        "visitors",
        "visits",
        "wanted",
    )

    def __init__(self, lease: HostLease, site: Site, *, portion: int) -> None:
        """`portion` is how many URLs are leased at once to begin with."""
        self.site = site
        self.name = lease.host
        """Name of the queue: the host key, or the name of a part of the host."""
        self.token = lease.token
        self.queue: deque[WaitingUrl] = deque(lease.urls)
        self.portion = portion
        self._filled_at = 0.0
        self.clock = site.clock
        self.at_once = site.visited[lease.host]
        """Maximum number of visitors at once."""
        self.ready = False
        """True when the host's robots.txt is known."""
        self.visitors = 0
        self.wanted = False
        """True when more URLs of the host are needed."""
        self._idle_since: float | None = None
        self.visits: list[Visit] = []
        self.retries: list[UrlRetry] = []
        self.returned: list[int] = []

    @property
    def is_low(self) -> bool:
        """Return whether it is time to request more URLs."""
        return len(self.queue) <= self.portion // 4

    def fill(self, urls: Iterable[WaitingUrl], now: float) -> None:
        """More to visit. When a whole portion was used up in a moment, the next is larger."""
        self.queue.extend(urls)
        self._idle_since = None
        if len(self.queue) < self.portion * 3 // 4:
            return  # no more is waiting, however much is asked for
        if now - self._filled_at < QUICK_S:
            self.portion = min(self.portion * 2, MAX_PORTION)
        self._filled_at = now

    def is_over(self, now: float) -> bool:
        """Return whether the host has had no work for a while. Must be called now and then."""
        if self.visitors or self.queue or not self.ready:
            self._idle_since = None
        elif self._idle_since is None:
            self._idle_since = now
        return self._idle_since is not None and now - self._idle_since > LINGER_S

    def give_back(self) -> None:
        """Nothing of the queue will be visited under this lease."""
        self.returned += [waiting.id for waiting in self.queue]
        self.queue.clear()

    def news(self, cookies: str, *, release: bool = False) -> HostCommit | None:
        """Return, and reset, the results since the last call; `None` when there are none."""
        if not (release or self.visits or self.retries or self.returned):
            return None
        commit = HostCommit(
            host=self.name,
            token=self.token,
            visits=self.visits,
            retries=self.retries,
            returned=self.returned,
            state=self.clock.state(msgspec.structs.replace(self.site.known, cookies=cookies)),
            release=release,
        )
        self.visits, self.retries, self.returned = [], [], []
        return commit


def wishes(hosts: Iterable[VisitedHost]) -> dict[str, int]:
    """Return how many more URLs to request for each host."""
    return {host.name: host.portion - len(host.queue) for host in hosts if host.wanted}


def fullest(hosts: Iterable[VisitedHost], most: int) -> list[VisitedHost]:
    """Return up to `most` hosts to give back to other executions: those with the most URLs, which
    help them most."""
    ready = [host for host in hosts if host.ready] if most else []
    return sorted(ready, key=lambda host: -len(host.queue))[:most]
