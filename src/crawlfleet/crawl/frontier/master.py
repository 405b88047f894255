"""The frontier of a crawl at the master, as its executor on a node uses it.

Requests that are made while a response is on its way go together with the next one, so that a busy
crawl costs some ten requests a second, and an idle one two. Each response contains the counts, too.
A restarted master has forgotten all leases and reports that: the executor renews its leases before
it requests anything else. The node handles a master that is away: a response takes as long as it
takes.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar

import msgspec

from crawlfleet.core.crawls import frontier_codec
from crawlfleet.core.crawls.shared_crawl import rules_of
from crawlfleet.crawl.frontier.known_links import KnownLinks, may_leave_out
from crawlfleet.crawl.frontier.split_commits import lots
from crawlfleet.errors import FrontierRefused, StoreUnavailable
from crawlfleet.model.crawl.frontier import (
    Commit,
    FrontierCounts,
    FrontierRules,
    HostCommit,
    HostFigures,
    HostLease,
    Link,
    UrlRecord,
)
from crawlfleet.model.crawl.parameters import CrawlParameters
from crawlfleet.model.wire import frontier as wire
from crawlfleet.telemetry import Component, logger

T = TypeVar("T")
log = logger(Component.WORKER)
COUNTS_LAST_S: Final = 0.5
"""Seconds for which the last counts are used; others may work for the crawl, too."""
MAX_STEP_BYTES: Final = 4_000_000
"""Maximum size of a commit. One request carries at most one commit and one batch of seeds, and must
stay below the limit of a request (some 11 MB), compressed or not."""


class _Held:
    """The lease of one host."""

    __slots__ = ("depths", "now", "token")

    def __init__(self, token: int) -> None:
        self.token = token
        """The token as the engine knows it."""
        self.now: int | None = token
        """The token as the master knows it; `None` when the master gave the host to another
        worker."""
        self.depths: dict[int, int] = {}
        """Depths of the leased URLs, by their ids."""


class MasterFrontier:
    """Implements `crawlfleet.ports.frontier.frontier.Frontier`. Opening it does not end leases."""

    def __init__(
        self, ask: Callable[[bytes], Awaitable[bytes]], rules: FrontierRules | None = None
    ) -> None:
        """Create the client. `ask` sends a request to the master; it raises `FrontierRefused`. With
        the crawl's `rules`, links that the master already knows can be left out of commits."""
        self._ask = ask
        self._told = KnownLinks() if rules is not None and may_leave_out(rules) else None
        self._waiting: list[tuple[wire.AnyAsk, asyncio.Future[msgspec.Raw]]] = []
        self._sending: asyncio.Task[None] | None = None
        self._is_open = False
        self._number = 0
        self._life = 0
        self._held: dict[str, dict[str, _Held]] = {}
        """Leases by worker and host."""
        self._counts: FrontierCounts | None = None
        self._counted_at = 0.0
        self._surplus = 0

    @property
    def partitions(self) -> int:
        return 1

    def partition_of(self, host: str) -> int:
        return 0

    @property
    def most_step_bytes(self) -> int:
        """Maximum size of one commit; a single visit may exceed it."""
        return MAX_STEP_BYTES

    def take_surplus(self) -> int:
        """Return, and reset, the number of hosts to give back so that other executions get their
        share."""
        surplus, self._surplus = self._surplus, 0
        return surplus

    async def open(self) -> Mapping[str, Any]:
        self._is_open = True
        receipts: dict[str, Any] = await self._answer(wire.Open(), dict[str, Any])
        return receipts

    async def close(self) -> None:
        self._is_open = False
        if self._sending is not None:
            await asyncio.wait([self._sending])

    async def add(self, seeds: Sequence[Link], at: float) -> int:
        new = 0
        for lot in lots(seeds, MAX_STEP_BYTES):
            new += await self._answer(wire.Add(number=self._next(), seeds=lot, at=at), int)
        return new

    async def begin_round(self, round: int) -> None:
        await self._answer(wire.Round(round=round), None)

    async def lease(
        self, worker: str, *, hosts: int, urls: int, held: Mapping[str, int], now: float
    ) -> list[HostLease]:
        leases = await self._answer(
            wire.Lease(
                worker=worker,
                number=self._next(),
                hosts=hosts,
                urls=urls,
                held={**held},
                now=now,
            ),
            list[HostLease],
        )
        mine = self._held.setdefault(worker, {})
        given, strays = [], []
        for lease in leases:
            known = mine.get(lease.host)
            if known is None:
                known = mine[lease.host] = _Held(lease.token)
            elif lease.state is not None:
                strays.append(HostCommit(host=lease.host, token=lease.token, release=True))
                continue
            known.depths.update((waiting.id, waiting.depth) for waiting in lease.urls)
            given.append(msgspec.structs.replace(lease, token=known.token))
        if strays:
            # They were lost, of which nobody has been told here, and are free again.
            step = wire.Step(worker=worker, number=self._next(), commit=Commit(hosts=strays))
            await self._answer(step, list[str])
        return given

    def lean(self, worker: str, hosts: list[HostCommit]) -> list[HostCommit]:
        """Return the commits without the links that the master already knows."""
        if self._told is None:
            return hosts
        return self._told.lean(hosts, partial(_depths, self._held.get(worker, {})))

    async def commit(self, worker: str, commit: Commit) -> Sequence[str]:
        mine = self._held.setdefault(worker, {})
        step = wire.Step(worker=worker, number=self._next(), commit=commit)
        refused: list[str] = await self._answer(step, list[str])
        if self._told is not None and not refused:
            self._told.note(commit, partial(_depths, mine))
        for part in commit.hosts if not refused else ():
            _settle(mine, part)
        for name in refused:
            if name in mine and mine[name].now is None:
                del mine[name]
        return refused

    async def forget(self, worker: str) -> None:
        self._held.pop(worker, None)
        await self._answer(wire.Forget(worker=worker), None)

    async def counts(self) -> FrontierCounts:
        age_s = asyncio.get_running_loop().time() - self._counted_at
        if self._counts is None or age_s > COUNTS_LAST_S or not self._is_open:
            await self._answer(wire.Busiest(limit=0), list[HostFigures])
        assert self._counts is not None, "every answer tells them"
        return self._counts

    async def busiest(self, limit: int) -> Sequence[HostFigures]:
        busiest: list[HostFigures] = await self._answer(
            wire.Busiest(limit=limit), list[HostFigures]
        )
        return busiest

    async def record(self, id: int) -> UrlRecord | None:
        record: UrlRecord | None = await self._answer(wire.Record(id=id), UrlRecord | None)
        return record

    async def discard(self) -> None:
        """Discard the crawl: the next worker begins anew."""
        await self._answer(wire.Discard(), None)

    def _next(self) -> int:
        self._number += 1
        return self._number

    async def _answer(self, ask: wire.AnyAsk, type: Any) -> Any:
        if not self._is_open:
            raise StoreUnavailable("the frontier is closed; open it first")
        answer: asyncio.Future[msgspec.Raw] = asyncio.get_running_loop().create_future()
        self._waiting.append((ask, answer))
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send(), name="frontier")
        return msgspec.msgpack.decode(await answer, type=type)

    async def _send(self) -> None:
        """Ask all that waits, one question at a time, until nothing does."""
        while self._waiting:
            asked, self._waiting = self._waiting, []
            try:
                answers = await self._tell([ask for ask, _ in asked])
            except Exception as error:
                trouble = StoreUnavailable(str(error))
                if not isinstance(error, FrontierRefused):
                    log.exception("the frontier cannot be asked")
                for _, answer in asked:
                    if not answer.done():
                        answer.set_exception(trouble)
                continue
            for (_, answer), told in zip(asked, answers, strict=True):
                if not answer.done():
                    answer.set_result(told)

    async def _tell(self, asks: Sequence[wire.AnyAsk]) -> Sequence[msgspec.Raw]:
        while True:
            known = [self._as_known(ask) for ask in asks]
            told = await self._exchange(wire.FrontierRequest(asks=known, life=self._life))
            if told.answers is not None:
                self._life = told.life
                return told.answers
            for ask in asks:
                # What was committed just before the master went is not to be had again.
                if isinstance(ask, wire.Step) and ask.number <= told.step:
                    for part in ask.commit.hosts:
                        _settle(self._held.get(ask.worker, {}), part)
            await self._reclaim()

    def _as_known(self, ask: wire.AnyAsk) -> wire.AnyAsk:
        """Return the request with the tokens that the master knows now: it may have renewed a
        host's token since. A lost lease is left to the master to refuse."""
        if not isinstance(ask, wire.Step):
            return ask
        mine = self._held.get(ask.worker, {})
        hosts = []
        for part in ask.commit.hosts:
            held = mine.get(part.host)
            if held and held.now and held.token == part.token != held.now:
                part = msgspec.structs.replace(part, token=held.now)
            hosts.append(part)
        commit = msgspec.structs.replace(ask.commit, hosts=hosts)
        return msgspec.structs.replace(ask, commit=commit)

    async def _exchange(self, asked: wire.FrontierRequest) -> wire.FrontierReply:
        told = frontier_codec.reply_in(await self._ask(frontier_codec.written(asked)))
        self._counts = told.counts
        self._surplus = max(self._surplus, told.surplus)
        self._counted_at = asyncio.get_running_loop().time()
        return told

    async def _reclaim(self) -> None:
        """Renew the leases of this execution as far as possible, after the master restarted."""
        workers = [*self._held]
        asks = [
            wire.Reclaim(
                worker=worker,
                hosts={
                    name: [*held.depths]
                    for name, held in self._held[worker].items()
                    if held.now is not None
                },
            )
            for worker in workers
        ]
        told = await self._exchange(wire.FrontierRequest(asks=asks, life=self._life))
        self._life = told.life
        if self._told is not None:
            self._told.clear()
        lost = 0
        for worker, answer in zip(workers, told.answers or (), strict=True):
            tokens = msgspec.msgpack.decode(answer, type=dict[str, int])
            for name, held in self._held.get(worker, {}).items():
                held.now = tokens.get(name)
                lost += held.now is None
        log.info("the frontier was opened anew", life=told.life, lost=lost)


def master_frontier(
    parameters: CrawlParameters, ask: Callable[[bytes], Awaitable[bytes]]
) -> MasterFrontier:
    """The frontier of that crawl, at the master that answers."""
    return MasterFrontier(ask, rules_of(parameters))


def _settle(mine: dict[str, _Held], part: HostCommit) -> None:
    held = mine.get(part.host)
    if held is None:
        return
    if part.release:
        del mine[part.host]
        return
    done = (visit.id for visit in part.visits)
    again = (retry.id for retry in part.retries)
    for id in (*done, *again, *part.returned):
        held.depths.pop(id, None)


def _depths(mine: Mapping[str, _Held], host: str) -> Mapping[int, int]:
    held = mine.get(host)
    return {} if held is None else held.depths
