"""Delays an engine's requests to the times that the fleet's ledger grants.

The client requests windows in batches: for hosts that have work, some seconds each, and again
before they end; so a page costs no message. A window counts by two clocks, a monotonic one and the
wall clock, whichever ends it first, and it is checked once more at the moment in which a request
goes out. So an engine that was stopped does not use old windows. Without a window a host is not
visited: a fleet without its master visits no host for now.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

import msgspec

from crawlfleet.core.politeness.host_clock import HostClock, share_of
from crawlfleet.core.urls.suffixes import Suffixes
from crawlfleet.crawl.fetch.dns import MIN_TTL_S
from crawlfleet.crawl.fetch.fetcher import Fetcher, NotSent
from crawlfleet.crawl.fetch.messages import Fetched, FetchRequest
from crawlfleet.crawl.politeness.hosts import name_of
from crawlfleet.crawl.politeness.ledger_windows import LeasedHost, LeasedKey
from crawlfleet.crawl.politeness.local_limits import IN_FLIGHT
from crawlfleet.crawl.politeness.robots_gate import LeftAlone, NoLedger
from crawlfleet.crawl.politeness.semaphore import Slots
from crawlfleet.errors import LedgerUnavailable, Refused
from crawlfleet.event_loop import report_failure
from crawlfleet.model.crawl.parameters import Politeness
from crawlfleet.model.wire.politeness import (
    ADDRESS,
    DOMAIN,
    HOST,
    LedgerReply,
    LedgerRequest,
    Pause,
    Return,
    Terms,
)
from crawlfleet.ports.execution import Context
from crawlfleet.ports.ledger import Ledger
from crawlfleet.telemetry import Component, logger
from crawlfleet.worker.runner.crawlfleet_runner.key_window import (
    LAST_WORDS_S,
    LONG_PAUSE_S,
    MAX_HOSTS_AT_ONCE,
    REPORT_EVERY_S,
    SOON_S,
    TROUBLE_S,
    awake,
)

log = logger(Component.WORKER)
TICK_S: Final = 0.25
"""Interval at which the client looks for something to send to the ledger."""


Send = Callable[[FetchRequest], Awaitable[Fetched]]


async def ledger_of(context: Context) -> Ledger | None:
    """Return the fleet's ledger, if it has one. Waits while that is unknown."""
    ledger: Ledger | None = getattr(context, "ledger", None)
    while ledger is not None:
        try:
            await ledger.ask(LedgerRequest())
            break
        except LedgerUnavailable as error:
            why = str(error)
        except Refused:
            return None
        await context.log("the crawl waits for the ledger", level="warning", why=why)
        await asyncio.sleep(TROUBLE_S)
    return ledger


class Granted:
    """Fetches for one engine, when the ledger lets it."""

    def __init__(
        self,
        politeness: Politeness,
        *,
        ledger: Ledger,
        fetcher: Fetcher,
        longest_s: float,
        suffixes: Callable[[], Suffixes],
        engine: str = "",
        is_needed: bool = False,
        clock: Callable[[], float] = awake,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """`longest_s` is how long a request may be under way; `engine` tells several of one
        execution apart; `is_needed`, where only the ledger keeps several of them together within
        the limits of a host: then `NoLedger` is raised when there turns out to be none."""
        self._is_needed = is_needed
        self._politeness = politeness
        self._domain_share = share_of(politeness, politeness.per_domain, 1)
        self._address_share = share_of(politeness, politeness.per_address, 1)
        self._ledger = ledger
        self._fetcher = fetcher
        self._longest_s = longest_s
        self._load_suffixes = suffixes
        self._suffixes: Suffixes | None = None
        self._engine = engine
        self._clock = clock
        self._wall = wall
        self._hosts: dict[str, LeasedHost] = {}
        self._keys: dict[str, LeasedKey] = {}
        self._slots = Slots(IN_FLIGHT)
        self._pauses: list[Pause] = []
        self._news = asyncio.Event()
        self._talking: asyncio.Task[None] | None = None
        self._told_at = float("-inf")
        self._is_off = False
        """True when the fleet has no ledger."""

    async def fetch(
        self, name: str, clock: HostClock, request: FetchRequest, send: Send | None = None
    ) -> Fetched:
        """Fetch when all keys of the host are granted, by `send` if that is not the fetcher's own
        way. Raises `LeftAlone` when that takes long."""
        if self._talking is None:
            self._talking = asyncio.create_task(self._talk(), name="ledger")
            self._talking.add_done_callback(report_failure)
        host = self._hosts.get(name)
        if host is None or self._clock() >= host.known_until:
            host = await self._host(name)
        host.delay_s = clock.delay_s
        if self._is_needed:
            host.room = clock.concurrency
        granted = msgspec.structs.replace(request, may_go=partial(self._may_go, host))
        fetched: Fetched | None = None
        while fetched is None:
            # Every page goes through here, and hardly any has to wait.
            if not self._enter_at_once(host):
                await self._enter(host, clock)
            try:
                if not self._slots.take():
                    await self._slots.wait()
                try:
                    fetched = await (send or self._fetcher.fetch)(granted)
                finally:
                    self._slots.give()
            except NotSent:
                pass  # the window was over by then
            finally:
                host.leave()
        return fetched

    def pause(self, name: str, seconds: float, why: str) -> None:
        """A host is to be left alone, by everybody."""
        self._pauses.append(Pause(key=HOST + name, for_s=seconds, why=why))
        self._news.set()

    async def close(self) -> None:
        """Give back all windows; nothing may be under way any more."""
        if self._talking is None:
            return
        self._talking.cancel()
        await asyncio.wait([self._talking])
        held = [key for key in self._keys.values() if key.is_held or key.owes]
        if held and not self._is_off:
            now = self._clock()
            ask = self._message([], [key.back(now) for key in held])
            with suppress(LedgerUnavailable, Refused, TimeoutError):
                async with asyncio.timeout(LAST_WORDS_S):
                    await self._ledger.ask(ask)

    def _enter_at_once(self, host: LeasedHost) -> bool:
        now = self._clock()
        if now < host.paused_until or not host.is_granted(now, self._wall()):
            return False
        host.enter(now)
        return True

    async def _enter(self, host: LeasedHost, clock: HostClock) -> None:
        host.waiters += 1
        try:
            while not self._is_off:
                now = self._clock()
                if (pause_s := host.paused_until - now) > 0.0:
                    clock.next_at = max(clock.next_at, self._wall() + pause_s)
                    if pause_s > LONG_PAUSE_S:
                        raise LeftAlone(f"{host.name} is left alone for {pause_s:.0f} s")
                wait_s = host.wait_s(now, self._wall())
                if wait_s is not None and wait_s <= 0.0:
                    break
                if wait_s is None and host.ask_at <= now:
                    self._news.set()
                await host.changed(wait_s)
            if self._is_off and self._is_needed:
                raise NoLedger(
                    "the fleet has no ledger any more, which this crawl needs since several "
                    "workers visit one host: set `ledger` at the masters"
                )
            host.enter(self._clock())
        finally:
            host.waiters -= 1

    def _may_go(self, host: LeasedHost) -> bool:
        is_free = self._is_off and not self._is_needed
        return is_free or host.go(self._clock(), self._wall())

    async def _host(self, name: str) -> LeasedHost:
        now = self._clock()
        host = self._hosts.get(name)
        if host is None or (now >= host.known_until and not host.waiters):
            terms = await self._terms(name)
            # Somebody else may have been quicker, or waits for the old one meanwhile.
            known = self._hosts.get(name)
            if known is not None and (known is not host or known.waiters):
                return known
            if host is not None:
                host.part(self._keys)
            host = self._hosts[name] = LeasedHost(name, terms)
            host.known_until = now + MIN_TTL_S
            host.join(self._keys)
        return host

    async def _terms(self, name: str) -> list[Terms]:
        """The address last, since it has the most to do."""
        terms = [Terms(HOST + name, self._politeness.delay_s, self._politeness.concurrency)]
        bare = name_of(name)
        if self._domain_share:
            if self._suffixes is None:
                self._suffixes = self._load_suffixes()
            terms.append(Terms(DOMAIN + self._suffixes.registrable(bare), *self._domain_share))
        if self._address_share and (address := await self._fetcher.address_of(bare)):
            terms.append(Terms(ADDRESS + address, *self._address_share))
        return terms

    # The conversation with the ledger

    async def _talk(self) -> None:
        while not self._is_off:
            with suppress(TimeoutError):
                async with asyncio.timeout(TICK_S if self._keys else None):
                    await self._news.wait()
                    await asyncio.sleep(SOON_S)
            self._news.clear()
            now = self._clock()
            hosts = [host for host in self._hosts.values() if host.wants(now)][:MAX_HOSTS_AT_ONCE]
            keys = [key for key in self._keys.values() if key.is_to_return(now)]
            if hosts or keys or self._pauses:
                await self._exchange(hosts, keys)
            self._forget(now)

    async def _exchange(self, hosts: list[LeasedHost], keys: list[LeasedKey]) -> None:
        pauses = [*self._pauses]
        asked_at, asked_wall = self._clock(), self._wall()
        message = self._message(hosts, [key.back(asked_at) for key in keys])
        for key in keys:
            key.end()
        told: LedgerReply | None = None
        try:
            told = await self._ledger.ask(message)
        except LedgerUnavailable as error:
            self._complain(str(error))
        except Refused as error:
            log.warning("hosts are visited without a ledger", why=str(error))
            self._is_off = True
            for key in self._keys.values():
                key.wake()
            return
        if told is None:
            for key in keys:
                key.owes = True
            await asyncio.sleep(TROUBLE_S)
            return
        del self._pauses[: len(pauses)]
        self._take(told, asked_at, asked_wall)

    def _message(self, hosts: Sequence[LeasedHost], returns: Sequence[Return]) -> LedgerRequest:
        return LedgerRequest(
            wants=tuple(host.want(self._clock()) for host in hosts),
            returns=tuple(returns),
            pauses=tuple(self._pauses),
            longest_s=self._longest_s,
            engine=self._engine,
        )

    def _take(self, told: LedgerReply, asked_at: float, asked_wall: float) -> None:
        now = self._clock()
        for window in told.windows:
            if (key := self._keys.get(window.key)) is not None:
                key.begin(window, now=now, asked_at=asked_at, asked_wall=asked_wall)
        for refusal in told.refusals:
            if (host := self._hosts.get(refusal.host)) is not None:
                host.refuse(refusal, now)

    def _complain(self, why: str) -> None:
        if self._clock() - self._told_at >= REPORT_EVERY_S:
            self._told_at = self._clock()
            log.warning("hosts wait for the ledger", why=why)

    def _forget(self, now: float) -> None:
        idle = [host for host in self._hosts.values() if host.is_idle(now)]
        for host in idle:
            host.part(self._keys)
            del self._hosts[host.name]
        for key in [key for key in self._keys.values() if key.hosts <= 0 and key.is_free]:
            del self._keys[key.key]
