"""Limits requests to hosts of the same registered domain, or on the same server.

Each host has a clock of its own. These limits bound all hosts of a domain and all hosts of an
address together, so that a site with a thousand subdomains does not get a thousand requests a
second; and all requests of an engine that are under way. Every request comes through here: pages,
retries, redirects and robots.txt.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from contextlib import AsyncExitStack
from typing import Final
from urllib.parse import urlsplit

from crawlfleet.core.politeness.host_clock import HostShare, share_of
from crawlfleet.core.urls.suffixes import Suffixes
from crawlfleet.crawl.fetch.dns import MIN_TTL_S
from crawlfleet.crawl.politeness.semaphore import Slots
from crawlfleet.model.crawl.parameters import Politeness

IN_FLIGHT: Final = 256
"""Maximum number of requests of an engine that are under way, to all hosts together."""
MAX_IDLE: Final = 10_000
"""Maximum number of idle domains and addresses that are remembered."""
REMEMBERED_S: Final = MIN_TTL_S
"""Seconds for which the domain and address of a host are remembered: it may have moved."""


class _Neighbours:
    """One domain or one address."""

    __slots__ = ("delay_s", "line", "next_at", "slots", "users")

    def __init__(self, share: HostShare) -> None:
        self.delay_s = share.delay_s
        self.next_at = 0.0
        self.slots = Slots(share.concurrency)
        self.line = asyncio.Lock()
        """The first waiter waits for `next_at`, the others for the first."""
        self.users = 0


_UNKNOWN: Final[tuple[Sequence[_Neighbours], float]] = ((), 0.0)


class Neighbourhood:
    """The limits of requests to the domains and addresses of hosts."""

    def __init__(
        self,
        politeness: Politeness,
        *,
        workers: int,
        address_of: Callable[[str], Awaitable[str | None]],
        suffixes: Callable[[], Suffixes],
        now: Callable[[], float],
    ) -> None:
        """Create the limits. `address_of` returns the address of a host name, or `None` when it is
        unknown or a proxy resolves it; `suffixes` is called once there are two names."""
        self._domain_share = share_of(politeness, politeness.per_domain, workers)
        self._address_share = share_of(politeness, politeness.per_address, workers)
        self._address_of = address_of
        self._load_suffixes = suffixes
        self._suffixes: Suffixes | None = None
        self._first = ""
        self._now = now
        self._names: dict[str, str] = {}
        self._known: dict[Hashable, _Neighbours] = {}
        shares = [share for share in (self._domain_share, self._address_share) if share]
        self._shares = len(shares)
        self.has_delays = any(share.delay_s for share in shares)
        """True when a request may have to wait for a delay, and not only for a free slot."""
        self.in_flight = Slots(IN_FLIGHT)
        self._joined: dict[str, tuple[Sequence[_Neighbours], float]] = {}
        """Domain and address by host key, with the time until which they are valid."""

    def turn(self, host: str) -> "Turn":
        """Return the turn of one more request to this host key. Call `if not turn.take(): await
        turn.wait()` until its domain and address have room, and `turn.leave()` at its end."""
        return Turn(self, host)

    def known(self, host: str) -> Sequence[_Neighbours] | None:
        """Return the remembered domain and address of a host key; `None` when the caller must use
        `of`."""
        joined, until = self._joined.get(host, _UNKNOWN)
        return joined if self._now() < until else None

    async def of(self, host: str) -> Sequence[_Neighbours]:
        """Return the domain and address of a host key; the address comes last, since it is the
        busiest."""
        now = self._now()
        joined = await self._join(self._name(host))
        if len(joined) == self._shares:
            if len(self._joined) >= MAX_IDLE:
                self._joined.clear()
            self._joined[host] = joined, now + REMEMBERED_S
        return joined

    async def wait(self, joined: Sequence[_Neighbours]) -> None:
        async with AsyncExitStack() as lines:
            for neighbours in joined:
                if neighbours.delay_s:
                    await lines.enter_async_context(neighbours.line)
            # From when it really starts: who wakes late must not come close to the next.
            pause_s = max((n.next_at for n in joined), default=0.0) - self._now()
            if pause_s > 0.0:
                await asyncio.sleep(pause_s)
            now = self._now()
            for neighbours in joined:
                neighbours.next_at = now + neighbours.delay_s

    async def _join(self, name: str) -> list[_Neighbours]:
        address = await self._address_of(name) if self._address_share else None
        joined = []
        if self._domain_share:
            joined.append(self._neighbours(("domain", self._domain(name)), self._domain_share))
        if self._address_share and address:
            joined.append(self._neighbours(("address", address), self._address_share))
        return joined

    def _domain(self, name: str) -> str:
        """The registered domain; of a single host, its name will do until there is another."""
        if self._suffixes is None:
            if not self._first or name == self._first:
                self._first = name
                return name
            self._suffixes = self._load_suffixes()
            if alone := self._known.pop(("domain", self._first), None):
                self._known["domain", self._suffixes.registrable(self._first)] = alone
        return self._suffixes.registrable(name)

    def _neighbours(self, key: Hashable, share: HostShare) -> _Neighbours:
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= MAX_IDLE:
                self._forget_idle()
            found = self._known[key] = _Neighbours(share)
        return found

    def _forget_idle(self) -> None:
        now = self._now()
        self._known = {
            key: each for key, each in self._known.items() if each.users or each.next_at > now
        }
        self._joined.clear()

    def _name(self, host: str) -> str:
        name = self._names.get(host)
        if name is None:
            name = self._names[host] = urlsplit(host).hostname or host
        return name


class Turn:
    """One request among those of its neighbours; by hand, since every page goes through here."""

    __slots__ = ("_host", "_in_flight", "_joined", "_neighbourhood", "_taken")

    def __init__(self, neighbourhood: Neighbourhood, host: str) -> None:
        self._neighbourhood = neighbourhood
        self._host = host
        self._joined: Sequence[_Neighbours] = ()
        self._taken = 0
        self._in_flight = False

    def take(self) -> bool:
        """Take the slots if no wait is needed. Returns whether it did."""
        neighbourhood = self._neighbourhood
        joined = neighbourhood.known(self._host)
        if joined is None or neighbourhood.has_delays or not neighbourhood.in_flight.free:
            return False
        for neighbours in joined:
            if not neighbours.slots.free:
                return False
        for neighbours in joined:
            neighbours.users += 1
            neighbours.slots.take()
        self._joined, self._taken = joined, len(joined)
        self._in_flight = neighbourhood.in_flight.take()
        return True

    async def wait(self) -> None:
        """Wait until the domain and the address have room, and take a slot of each."""
        neighbourhood = self._neighbourhood
        joined = neighbourhood.known(self._host)
        if joined is None:
            joined = await neighbourhood.of(self._host)
        self._joined = joined
        for neighbours in joined:
            neighbours.users += 1
        try:
            for neighbours in joined:
                if not neighbours.slots.take():
                    await neighbours.slots.wait()
                self._taken += 1
            if neighbourhood.has_delays:
                await neighbourhood.wait(joined)
            # Last, so that those who wait for some keep nobody from asking others.
            if not neighbourhood.in_flight.take():
                await neighbourhood.in_flight.wait()
            self._in_flight = True
        except BaseException:
            self.leave()
            raise

    def leave(self) -> None:
        """Give back the slots that the turn took, if any."""
        if self._in_flight:
            self._neighbourhood.in_flight.give()
        for neighbours in self._joined[: self._taken]:
            neighbours.slots.give()
        for neighbours in self._joined:
            neighbours.users -= 1
