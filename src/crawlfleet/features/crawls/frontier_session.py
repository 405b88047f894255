"""One open frontier that a master serves: the leases of each execution, and its last answers."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from crawlfleet.core.crawls import frontier_codec, frontier_limits
from crawlfleet.core.crawls.shared_crawl import share_of
from crawlfleet.errors import Busy, Refused
from crawlfleet.model.crawl.frontier import FrontierCounts, HostLease
from crawlfleet.model.wire import frontier as wire
from crawlfleet.model.wire.frontier import FrontierReply, FrontierRequest
from crawlfleet.ports.frontier.host import ReclaimableFrontier

MAX_HOSTS: Final = 1_000_000
MAX_LEASED_BYTES: Final = 4_000_000
"""Size of an answer from which no more hosts are leased: hosts come with their robots.txt, and the
answer must pass through the node's pipe to its executor."""
LEASED_AT_ONCE: Final = 16
"""Hosts between two looks at how much there is: 16 of the largest are some 10 MB."""
RECLAIM_S: Final = 10.0
"""Seconds after opening during which a frontier leases no hosts, so that executions which had
leases before can reclaim them."""


class ExecutionEnded(Exception):
    """The execution has ended while it was being answered."""


class FrontierSession:
    """One open frontier, with the executions that hold leases of it."""

    def __init__(
        self,
        frontier: ReclaimableFrontier,
        *,
        steps: dict[str, int],
        is_living: Callable[[str], bool],
        living: Callable[[], set[str]],
        awaited: set[str],
    ) -> None:
        self.frontier = frontier
        self.is_closed = False
        """Set when the frontier was closed, because it was idle or another master leads now. The
        session is then not used again."""
        self.users = 0
        self.counts: FrontierCounts | None = None
        self.asked_at = asyncio.get_running_loop().time()
        self._steps = steps
        """The number of the last step of each execution."""
        self._is_living = is_living
        self._living = living
        self._surplus: dict[str, int] = {}
        """Number of hosts that each execution should give back."""
        self._workers: dict[str, set[str]] = {}
        """Executions that may have leases, with the worker names that they use."""
        self._turns: dict[str, asyncio.Lock] = {}
        self._given: dict[str, tuple[int, list[HostLease]]] = {}
        """Number and leases of the last answer to each worker, for a repeated request."""
        self._added: dict[str, tuple[int, int]] = {}
        """Number and result of the last `Add` of each execution, for a repeated request."""
        self._awaited = awaited
        """Executions that may still reclaim the hosts they had before the frontier was opened."""
        self._awaited_until = self.asked_at + RECLAIM_S

    async def answer(self, execution_id: str, asked: FrontierRequest) -> FrontierReply:
        """Answer the requests of an execution in order. Two calls of one execution are answered in
        turn. Raises `ExecutionEnded`, and `Busy` if the frontier was closed meanwhile."""
        async with self._turns.setdefault(execution_id, asyncio.Lock()):
            await self._forget_the_dead()
            answers = None
            is_reclaim = all(isinstance(each, wire.Reclaim) for each in asked.asks)
            if asked.life in (0, self.frontier.life) or is_reclaim:
                self._awaited.discard(execution_id)
                answers = list[msgspec.Raw]()
                for each in asked.asks:
                    if not self._is_living(execution_id):
                        raise ExecutionEnded
                    if self.is_closed:
                        raise Busy("this frontier was closed; ask again")
                    room = MAX_LEASED_BYTES - sum(map(len, answers))
                    answers.append(frontier_codec.raw(await self._do(execution_id, each, room)))
            self.counts = counts = await self.frontier.counts()
            return FrontierReply(
                life=self.frontier.life,
                counts=counts,
                step=self._steps.get(execution_id, 0),
                surplus=self._surplus.pop(execution_id, 0),
                answers=answers,
            )

    async def _do(self, execution_id: str, ask: wire.AnyAsk, room: int) -> Any:
        frontier = self.frontier
        match ask:
            case wire.Open():
                receipts = await frontier.open()
                return {
                    name: receipt
                    for name, receipt in receipts.items()
                    if not name.startswith(wire.STEP)
                }
            case wire.Add():
                return await self._add(execution_id, ask)
            case wire.Round():
                return await frontier.begin_round(ask.round)
            case wire.Lease():
                return await self._lease(execution_id, ask, room)
            case wire.Step():
                return await self._step(execution_id, ask)
            case wire.Forget():
                worker = self._worker(execution_id, ask.worker)
                self._given.pop(worker, None)
                return await frontier.forget(worker)
            case wire.Busiest():
                return await frontier.busiest(ask.limit)
            case wire.Record():
                return await frontier.record(ask.id)
            case wire.Place():
                return wire.FrontierLocation()
            case wire.Discard() | wire.Lost():
                return None
            case wire.Reclaim():
                return await self._reclaim(execution_id, ask)

    async def _add(self, execution_id: str, ask: wire.Add) -> int:
        number, new = self._added.get(execution_id, (0, 0))
        if number != ask.number:
            new = await self.frontier.add(ask.seeds, ask.at)
            self._added[execution_id] = ask.number, new
        return new

    async def _reclaim(self, execution_id: str, ask: wire.Reclaim) -> dict[str, int]:
        tokens = {}
        for host, ids in ask.hosts.items():
            if not self._is_living(execution_id):
                raise ExecutionEnded
            worker = self._worker(execution_id, ask.worker)
            token = await self.frontier.reclaim(worker, host, ids)
            if token is not None:
                tokens[host] = token
        return tokens

    async def _lease(self, execution_id: str, ask: wire.Lease, room: int) -> Sequence[HostLease]:
        worker = self._worker(execution_id, ask.worker)
        number, given = self._given.get(worker, (0, []))
        if ask.number <= number:
            return given if ask.number == number else ()
        hosts = min(ask.hosts, await self._fair(execution_id))
        if self._awaited and asyncio.get_running_loop().time() < self._awaited_until:
            hosts = 0
        given = []
        held = [*ask.held.items()] if room > 0 else []
        hosts = hosts if room > 0 else 0
        while True:
            some, held = dict(held[:LEASED_AT_ONCE]), held[LEASED_AT_ONCE:]
            more = 0 if held else min(hosts, LEASED_AT_ONCE)
            if not self._is_living(execution_id):
                raise ExecutionEnded
            worker = self._worker(execution_id, ask.worker)
            leases = await self.frontier.lease(
                worker, hosts=more, urls=ask.urls, held=some, now=ask.now
            )
            given += leases
            # At once: should the next one fail, these are told when the same is asked again.
            self._given[worker] = ask.number, given
            room -= len(frontier_codec.raw(leases))
            hosts -= more
            is_last = not held and sum(each.state is not None for each in leases) < more
            if room <= 0 or is_last or not (held or hosts > 0):
                return given

    async def _fair(self, execution_id: str) -> int:
        """Return how many further hosts an execution may lease, so that the executions of a crawl
        share them."""
        living = self._living()
        if len(living) < 2:
            return MAX_HOSTS
        holdings = await self.frontier.holdings()
        held = dict.fromkeys(living, 0)
        for worker, hosts in holdings.lent.items():
            owner = worker.partition("/")[0]
            if owner in held:
                held[owner] += hosts
        share = share_of(execution_id, held, holdings.free)
        self._surplus[execution_id] = share.surplus
        return share.more

    async def _step(self, execution_id: str, ask: wire.Step) -> Sequence[str]:
        if ask.number <= self._steps.get(execution_id, 0):
            return ()
        worker = self._worker(execution_id, ask.worker)
        numbered = {**ask.commit.receipts, f"{wire.STEP}{execution_id}": ask.number}
        commit = msgspec.structs.replace(ask.commit, receipts=numbered)
        refused = await self.frontier.commit(worker, commit)
        if not refused:
            self._steps[execution_id] = ask.number
        return refused

    def _worker(self, execution_id: str, name: str) -> str:
        names = self._workers.setdefault(execution_id, set())
        names.add(name)
        if len(names) > frontier_limits.MAX_WORKERS:
            names.discard(name)
            raise Refused(
                f"{execution_id} leases under more than {frontier_limits.MAX_WORKERS} names;"
                " use fewer"
            )
        return f"{execution_id}/{name}"

    async def _forget_the_dead(self) -> None:
        """End the leases of executions that are over; their URLs wait again."""
        for execution_id in [id for id in self._workers if not self._is_living(id)]:
            for name in self._workers.pop(execution_id, ()):
                worker = f"{execution_id}/{name}"
                self._given.pop(worker, None)
                await self.frontier.forget(worker)
        for known in (self._turns, self._added, self._surplus):
            for execution_id in [id for id in known if not self._is_living(id)]:
                del known[execution_id]
        self._awaited = {id for id in self._awaited if self._is_living(id)}
