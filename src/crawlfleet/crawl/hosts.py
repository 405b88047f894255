"""A host while this process visits it: its queue, its clock, its rules, and what happened."""

from collections import deque
from collections.abc import Iterable
from typing import Final

import msgspec

from crawlfleet.core.politeness import HostClock
from crawlfleet.core.robots_rules import ALL_ALLOWED, Rules
from crawlfleet.model.crawl import Politeness
from crawlfleet.model.frontier import HostCommit, HostLease, HostState, Retry, Visit, Waiting

FRESH: Final = HostState()
LINGER_S: Final = 2.0
"""How long a host without work is kept: a page may still link to it."""
QUICK_S: Final = 1.0
"""A portion that lasts for less is too small: asking for the next one costs as much as a page."""
MOST_PORTION: Final = 1024


def name_of(host_key: str) -> str:
    """The name of the host alone, without scheme and port."""
    authority = host_key.partition("://")[2]
    name, _, port = authority.rpartition(":")
    return name if port.isdigit() else authority


class VisitedHost:
    """One lease, from the first portion to its release."""

    __slots__ = (
        "_began",
        "_filled_at",
        "_idle_since",
        "clock",
        "name",
        "portion",
        "queue",
        "ready",
        "retries",
        "returned",
        "rules",
        "token",
        "visitors",
        "visits",
        "wanted",
    )

    def __init__(
        self, lease: HostLease, politeness: Politeness, life_began: float, *, portion: int
    ) -> None:
        """`life_began` is when this process began to visit: an earlier one may have been killed
        right after a request of which nothing was written down. `portion` is how many URLs are
        leased at once to begin with."""
        self._began = lease.state or FRESH
        self.name = lease.host
        self.token = lease.token
        self.queue: deque[Waiting] = deque(lease.urls)
        self.portion = portion
        self._filled_at = 0.0
        self.clock = HostClock(politeness, self._began)
        if self._began.delay_s:
            self.clock.next_at = max(self.clock.next_at, life_began + self._began.delay_s)
        self.rules: Rules = ALL_ALLOWED
        self.ready = False
        """Whether its robots.txt is known."""
        self.visitors = 0
        self.wanted = False
        """Whether more URLs were asked for."""
        self._idle_since: float | None = None
        self.visits: list[Visit] = []
        self.retries: list[Retry] = []
        self.returned: list[int] = []

    @property
    def is_low(self) -> bool:
        """Whether it is time to ask for more."""
        return len(self.queue) <= self.portion // 4

    def fill(self, urls: Iterable[Waiting], now: float) -> None:
        """More to visit. When a whole portion was used up in a moment, the next is larger."""
        self.queue.extend(urls)
        self._idle_since = None
        if len(self.queue) < self.portion * 3 // 4:
            return  # no more is waiting, however much is asked for
        if now - self._filled_at < QUICK_S:
            self.portion = min(self.portion * 2, MOST_PORTION)
        self._filled_at = now

    def is_over(self, now: float) -> bool:
        """Whether it has had nothing to do for a while; to be asked now and then."""
        if self.visitors or self.queue or not self.ready:
            self._idle_since = None
        elif self._idle_since is None:
            self._idle_since = now
        return self._idle_since is not None and now - self._idle_since > LINGER_S

    @property
    def known(self) -> HostState:
        """What the last owner knew, and what was learned of robots.txt since."""
        return self._began

    def learn(self, state: HostState) -> None:
        """Take over what was learned of robots.txt."""
        self._began = state

    def give_back(self) -> None:
        """Nothing of the queue will be visited under this lease."""
        self.returned += [waiting.id for waiting in self.queue]
        self.queue.clear()

    def news(self, cookies: str, *, release: bool = False) -> HostCommit | None:
        """What happened since the last time; `None` when nothing did."""
        if not (release or self.visits or self.retries or self.returned):
            return None
        commit = HostCommit(
            host=self.name,
            token=self.token,
            visits=self.visits,
            retries=self.retries,
            returned=self.returned,
            state=self.clock.state(msgspec.structs.replace(self._began, cookies=cookies)),
            release=release,
        )
        self.visits, self.retries, self.returned = [], [], []
        return commit


def wishes(hosts: Iterable[VisitedHost]) -> dict[str, int]:
    """How many more URLs of which hosts to ask for."""
    return {host.name: host.portion - len(host.queue) for host in hosts if host.wanted}


def fullest(hosts: Iterable[VisitedHost], most: int) -> list[VisitedHost]:
    """So many hosts to be left to others: those with the most to do, which help them most."""
    ready = [host for host in hosts if host.ready] if most else []
    return sorted(ready, key=lambda host: -len(host.queue))[:most]
