"""A frontier on a server that several executions reach directly, at the location that the master
names.

The executor knows no address and no password before the master has sent them, over the pipe of its
node and for this crawl alone. It never creates a frontier: the master has done so, once for each
crawl.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, ClassVar, Final, TypeVar

import msgspec

from crawlfleet import plugins
from crawlfleet.core.crawls import frontier_codec
from crawlfleet.core.crawls.shared_crawl import rules_of
from crawlfleet.crawl.frontier.known_links import KnownLinks, LeasedDepths, may_leave_out
from crawlfleet.errors import (
    CrawlfleetError,
    FrontierLost,
    FrontierRefused,
    PluginError,
)
from crawlfleet.model.crawl.frontier import (
    Commit,
    FrontierCounts,
    HostCommit,
    HostFigures,
    HostLease,
    Link,
    UrlRecord,
)
from crawlfleet.model.crawl.parameters import CrawlParameters
from crawlfleet.model.task import ErrorClass
from crawlfleet.model.wire import frontier as wire
from crawlfleet.ports.execution import CrawlContext
from crawlfleet.ports.frontier.frontier import Frontier

ASK_AGAIN_S: Final = 1.0
TELL_EVERY_S: Final = 30.0
COUNTS_LAST_S: Final = 0.25
"""Seconds for which the last counts are used, unless this execution changes something."""

T = TypeVar("T")
Ask = Callable[[bytes], Awaitable[bytes]]


class NoPlace(CrawlfleetError):
    """The fleet has no place for this frontier; the message names the setting and the remedy."""

    error_class: ClassVar = ErrorClass.INVALID


class NoWay(CrawlfleetError):
    """This node cannot reach the frontier; another one may."""


class FrontierGone(CrawlfleetError):
    """The frontier lost its state while this attempt worked.

    It is restored from its last checkpoint, and the next attempt goes on: the failure of this one
    is not its own fault.
    """

    error_class: ClassVar = ErrorClass.LOST


async def where(context: CrawlContext) -> wire.FrontierLocation:
    """Wait until the master knows the frontier's location, and return it. Raises `NoPlace`."""
    told_at = float("-inf")
    while True:
        try:
            told = await _ask(context.ask_frontier, wire.Place())
        except (FrontierRefused, frontier_codec.Unreadable):
            return wire.FrontierLocation()  # this master keeps no frontiers
        placed = msgspec.msgpack.decode(told, type=wire.FrontierLocation)
        if placed.refusal:
            raise NoPlace(placed.refusal)
        if not placed.wait:
            return placed
        loop = asyncio.get_running_loop()
        if loop.time() - told_at >= TELL_EVERY_S:
            told_at = loop.time()
            await context.log("the crawl waits for its frontier", level="warning", why=placed.wait)
        await asyncio.sleep(ASK_AGAIN_S)


def remote_frontier(
    parameters: CrawlParameters, placed: wire.FrontierLocation, ask: Ask
) -> "RemoteFrontierClient":
    """The frontier at that place; `ask` reaches the master."""
    scheme = placed.url.partition("://")[0]
    try:
        make = plugins.load_one(plugins.FRONTIERS, scheme)
    except PluginError as error:
        raise NoWay(f"this node cannot reach the frontier of the crawl: {error}") from error
    rules = rules_of(parameters)
    frontier: Frontier = make(url=placed.url, crawl=placed.crawl, rules=rules, epoch=placed.epoch)
    return RemoteFrontierClient(frontier, placed.epoch, ask, is_lean=may_leave_out(rules))


async def _ask(ask: Ask, what: wire.AnyAsk) -> msgspec.Raw:
    told = frontier_codec.reply_in(
        await ask(frontier_codec.written(wire.FrontierRequest(asks=[what])))
    )
    if not told.answers:
        raise FrontierRefused("the master did not answer")
    return told.answers[0]


class RemoteFrontierClient:
    """Implements `crawlfleet.ports.frontier.frontier.Frontier`. It reports a lost frontier to the
    master, and caches the counts for callers that check whether the crawl is finished."""

    def __init__(self, frontier: Frontier, epoch: str, ask: Ask, *, is_lean: bool = False) -> None:
        """Create the client. With `is_lean` it reports each link to the frontier only once."""
        self._links = KnownLinks() if is_lean else None
        self._leased = LeasedDepths()
        self._frontier = frontier
        self._epoch = epoch
        self._ask = ask
        self._counts: FrontierCounts | None = None
        self._counted_at = 0.0
        self._told = False

    @property
    def partitions(self) -> int:
        return self._frontier.partitions

    def partition_of(self, host: str) -> int:
        return self._frontier.partition_of(host)

    @property
    def most_step_bytes(self) -> None:
        """`None`: a commit may have any size."""
        return None

    def take_surplus(self) -> int:
        """Return, and reset, the number of hosts to give back so that other executions get their
        share."""
        surplus: int = getattr(self._frontier, "take_surplus", lambda: 0)()
        return surplus

    async def open(self) -> Mapping[str, Any]:
        return await self._watched(self._frontier.open())

    async def close(self) -> None:
        await self._frontier.close()

    async def add(self, seeds: Sequence[Link], at: float) -> int:
        self._counts = None
        return await self._watched(self._frontier.add(seeds, at))

    async def begin_round(self, round: int) -> None:
        self._counts = None
        await self._watched(self._frontier.begin_round(round))

    async def lease(
        self, worker: str, *, hosts: int, urls: int, held: Mapping[str, int], now: float
    ) -> list[HostLease]:
        leases = await self._watched(
            self._frontier.lease(worker, hosts=hosts, urls=urls, held=held, now=now)
        )
        if self._links is not None:
            self._leased.take(leases)
        return leases

    def lean(self, worker: str, hosts: list[HostCommit]) -> list[HostCommit]:
        """Return the commits without the links that the frontier already knows."""
        return hosts if self._links is None else self._links.lean(hosts, self._leased.of)

    async def commit(self, worker: str, commit: Commit) -> Sequence[str]:
        refused = await self._watched(self._frontier.commit(worker, commit))
        self._counts = None
        if self._links is not None:
            if not refused:
                self._links.note(commit, self._leased.of)
            self._leased.settle(commit, refused)
        return refused

    async def forget(self, worker: str) -> None:
        self._counts = None
        await self._watched(self._frontier.forget(worker))

    async def counts(self) -> FrontierCounts:
        now = asyncio.get_running_loop().time()
        if self._counts is None or now - self._counted_at > COUNTS_LAST_S:
            counted = await self._watched(self._frontier.counts())
            self._counts, self._counted_at = counted, asyncio.get_running_loop().time()
            return counted
        return self._counts

    async def busiest(self, limit: int) -> Sequence[HostFigures]:
        return await self._watched(self._frontier.busiest(limit))

    async def record(self, id: int) -> UrlRecord | None:
        return await self._watched(self._frontier.record(id))

    async def discard(self) -> None:
        """Discard the crawl: the next worker begins anew."""
        await _ask(self._ask, wire.Discard())

    async def _watched(self, asked: Awaitable[T]) -> T:
        try:
            return await asked
        except FrontierLost as error:
            await self._tell(error)
            raise FrontierGone(
                "the frontier was lost while this attempt worked; the next one goes on from its "
                f"last checkpoint. {error}"
            ) from error

    async def _tell(self, error: FrontierLost) -> None:
        """Report the lost frontier to the master before this attempt ends: the next one cannot know
        of it."""
        if self._told:
            return
        self._told = True
        try:
            await _ask(self._ask, wire.Lost(epoch=self._epoch, why=str(error)))
        except CrawlfleetError:
            self._told = False  # the next call that fails tells it
