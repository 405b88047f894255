"""The frontiers of crawls that run on nodes, kept by the master and requested over HTTP.

The master that leads serves them, each open while it is in use; the next leader takes over. An
execution must hold a living lease of a task of the crawl, as for output. Leases of URLs are in
memory: they end with the lease of the execution's task, and an execution can reclaim them
(`Reclaim`) after a change of master. A step counts once, however often it is sent.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

import msgspec

from crawlfleet.control.leases.services import ServiceCall
from crawlfleet.control.named_locks import NamedLocks
from crawlfleet.control.state.fleet_state import FleetState
from crawlfleet.core.crawls import frontier_codec, frontier_limits
from crawlfleet.core.crawls.shared_crawl import at_work, crawl_of, rules_of
from crawlfleet.errors import Busy, ConfigError, NotFound, Refused, StoreUnavailable
from crawlfleet.features.crawls.frontier_session import ExecutionEnded, FrontierSession
from crawlfleet.features.crawls.remote_frontiers import RemoteFrontiers
from crawlfleet.model.crawl.frontier import FrontierCounts, FrontierRules
from crawlfleet.model.crawl.parameters import CrawlParameters
from crawlfleet.model.crawl.user_code import ScrapyParameters
from crawlfleet.model.task import Task
from crawlfleet.model.wire import frontier as wire
from crawlfleet.model.wire.frontier import FrontierReply, FrontierRequest
from crawlfleet.model.wire.services import ServiceResponse, refused
from crawlfleet.ports.frontier.frontier import UrlRecords
from crawlfleet.ports.frontier.host import FrontierFolders, ObservableFrontier
from crawlfleet.telemetry import Component, logger

log = logger(Component.MASTER)
NOTHING: Final = FrontierCounts(known=0, waiting=0, leased=0, done=0, pages=0)
SPIDER: Final = "scrapy_spider"
IDLE_S: Final = 30.0
"""Seconds without a request after which a frontier is closed."""
LOOK_EVERY_S: Final = 5.0
READ_AT_ONCE: Final = 2
"""Frontiers of crawls that do not run which may be opened for readers at once: opening one reads
all of its URLs."""
MAX_READ: Final = 4
"""Maximum number of frontiers of crawls that do not run which stay open for the next reader."""
WAIT_TO_READ_S: Final = 10.0
MAX_LAST_COUNTS: Final = 1_000
"""Maximum number of closed frontiers whose last counts are kept."""


class Frontiers:
    """Serves one frontier for each crawl."""

    def __init__(
        self,
        *,
        state: FleetState,
        shelf: FrontierFolders | None,
        remote: RemoteFrontiers | None = None,
    ) -> None:
        """Set up the frontiers of this master. `remote` answers for the frontiers on another
        server."""
        self._remote = remote
        self._state = state
        self._shelf = shelf
        self._served: dict[str, FrontierSession] = {}
        self._opening = NamedLocks()
        self._reading = asyncio.Semaphore(READ_AT_ONCE)
        self._leads = False
        self._last: dict[str, FrontierCounts] = {}
        """Last counts of frontiers that were closed."""

    async def answer(self, call: ServiceCall) -> ServiceResponse:
        """Answer a request of an execution to the frontier of its crawl. Raises `Busy` while
        another master leads, and `StoreUnavailable` when the disk fails; the node then asks
        again."""
        task, execution_id = call.lease.task, call.execution_id
        try:
            asked = frontier_codec.request_in(call.data)
            if problem := frontier_limits.problem_of(asked):
                return refused(problem)
            if (remote := self._remote) is not None:
                elsewhere = await self._ask_elsewhere(remote, task, execution_id, asked)
                if elsewhere is not None:
                    return ServiceResponse(data=frontier_codec.written(elsewhere))
            async with self._using(task) as served:
                told = await served.answer(execution_id, asked)
            if any(isinstance(each, wire.Discard) for each in asked.asks):
                await self._discard(crawl_of(task), execution_id)
            return ServiceResponse(data=frontier_codec.answer_to(call.data, told))
        except (frontier_codec.Unreadable, ConfigError, Refused) as error:
            return refused(str(error))
        except ExecutionEnded:
            return refused(f"{execution_id} has ended")

    async def _ask_elsewhere(
        self, remote: RemoteFrontiers, task: Task, execution_id: str, asked: FrontierRequest
    ) -> FrontierReply | None:
        """Answer a request about a frontier on another server; `None` for requests that the
        frontier itself answers."""
        answer: Any = None
        match asked.asks:
            case [wire.Place()]:
                answer = await remote.place(task, execution_id)
            case [wire.Lost() as lost]:
                await remote.lost(task, lost.epoch, lost.why)
            case [wire.Discard()] if await remote.has(crawl_of(task)):
                await self._discard(crawl_of(task), execution_id)
            case _:
                return None
        return FrontierReply(life=0, counts=NOTHING, answers=[frontier_codec.raw(answer)])

    @asynccontextmanager
    async def reading(self, task: Task) -> AsyncIterator[UrlRecords]:
        """Open the URL records of a crawl for reading, running or not. Raises `NotFound` when there
        are none, and `Busy` while another master leads or too many frontiers are being read. A
        frontier that is opened for a reader holds all its URLs in memory, so only a few are open at
        a time."""
        if self._remote is not None and await self._remote.has(crawl_of(task)):
            async with self._remote.reading(task) as knowing:
                yield knowing
            return
        if self._shelf is None or not await self._shelf.has(crawl_of(task)):
            raise NotFound("frontier", crawl_of(task))
        try:
            async with asyncio.timeout(WAIT_TO_READ_S):
                await self._reading.acquire()
        except TimeoutError:
            raise Busy(
                f"the frontiers of {READ_AT_ONCE} crawls that do not run are being read; try "
                "again in a moment"
            ) from None
        try:
            if crawl_of(task) not in self._served:
                await self._close_those_read(MAX_READ - 1)
            async with self._using(task) as served:
                yield served.frontier
        except ConfigError as error:
            raise NotFound("frontier", crawl_of(task)) from error
        finally:
            self._reading.release()

    async def _close_those_read(self, most: int) -> None:
        """Close the frontiers of crawls that do not run, least recently used first, until `most`
        are left."""
        read = [
            (served.asked_at, crawl_id)
            for crawl_id, served in self._served.items()
            if not served.users and not self._living(crawl_id)
        ]
        for _, crawl_id in sorted(read)[: max(len(read) - most, 0)]:
            await self._close(crawl_id)

    @property
    def leads(self) -> bool:
        """Return true if this master leads and so serves the frontiers."""
        return self._leads

    def opened(self, crawl_id: str) -> ObservableFrontier | None:
        """Return the open frontier of a crawl; `None` if it is not open here."""
        served = self._served.get(crawl_id)
        if served is not None and not served.is_closed:
            return served.frontier
        return None if self._remote is None else self._remote.opened(crawl_id)

    def last_counts(self, crawl_id: str) -> FrontierCounts | None:
        """Return the newest counts of a frontier that is, or was, open here; `None` if not
        known."""
        served = self._served.get(crawl_id)
        if served is not None and served.counts is not None:
            return served.counts
        if (last := self._last.get(crawl_id)) is not None:
            return last
        return None if self._remote is None else self._remote.last_counts(crawl_id)

    async def run(self) -> None:
        """Serve frontiers while this master leads, and close idle ones."""
        self._leads = True
        try:
            while True:
                await asyncio.sleep(LOOK_EVERY_S)
                now = asyncio.get_running_loop().time()
                for crawl_id, served in [*self._served.items()]:
                    if not served.users and now - served.asked_at > IDLE_S:
                        await self._close(crawl_id)
        finally:
            self._leads = False
            async with AsyncExitStack() as stack:
                for crawl_id in self._served:
                    stack.push_async_callback(self._close, crawl_id)
            self._last.clear()  # another master goes on with them

    async def tasks(self) -> Sequence[str]:
        """Return the ids of the crawls whose frontiers are kept on disk."""
        return () if self._shelf is None else await self._shelf.tasks()

    async def remove(self, crawl_id: str) -> None:
        """Remove the frontier of a crawl that no longer exists."""
        if self._shelf is not None:
            await self._close(crawl_id)
            if self._remote is not None:
                await self._remote.discard(crawl_id)
            self._last.pop(crawl_id, None)
            await self._shelf.remove(crawl_id)

    async def _discard(self, crawl_id: str, execution_id: str) -> None:
        """Remove the frontier, so that the next execution begins anew; not while other executions
        work on it."""
        if self._living(crawl_id) <= {execution_id}:
            await self.remove(crawl_id)

    @asynccontextmanager
    async def _using(self, task: Task) -> AsyncIterator[FrontierSession]:
        crawl_id = crawl_of(task)
        served = self._served.get(crawl_id)
        if served is None:
            async with self._opening.of(crawl_id):
                served = self._served.get(crawl_id) or await self._open(crawl_id, task)
        served.users += 1
        try:
            yield served
        finally:
            served.users -= 1
            served.asked_at = asyncio.get_running_loop().time()

    async def _open(self, crawl_id: str, task: Task) -> FrontierSession:
        if self._shelf is None:
            raise Refused("this master keeps no frontiers; say `frontier: node` in the crawl")
        if not self._leads:
            raise Busy("another master leads, and has the frontiers of crawls; ask that one")
        if self._remote is not None and await self._remote.has(crawl_id):
            raise Refused(
                f"the frontier of {crawl_id} is in Redis, and none is begun beside it: this "
                "attempt asked for it elsewhere; the next one is told where it is"
            )
        frontier = self._shelf.frontier(crawl_id, _rules(task))
        receipts = await frontier.open()
        steps = {
            name.removeprefix(wire.STEP): int(number)
            for name, number in receipts.items()
            if name.startswith(wire.STEP)
        }
        if not self._leads:
            await frontier.close()
            raise Busy("another master leads now; ask that one")
        log.info("frontier opened", task_id=crawl_id, life=frontier.life)
        served = self._served[crawl_id] = FrontierSession(
            frontier,
            steps=steps,
            is_living=lambda id: id in self._state.leases,
            living=lambda: self._living(crawl_id),
            awaited=self._living(crawl_id) & steps.keys(),
        )
        return served

    def _living(self, crawl_id: str) -> set[str]:
        return at_work(self._state.leases, crawl_id)

    async def _close(self, crawl_id: str) -> None:
        served = self._served.pop(crawl_id, None)
        if served is not None:
            served.is_closed = True
            if served.counts is not None:
                # Whoever had leases has them no more.
                waiting = served.counts.outstanding
                last = msgspec.structs.replace(served.counts, waiting=waiting, leased=0)
                self._last.pop(crawl_id, None)
                self._last[crawl_id] = last
                while len(self._last) > MAX_LAST_COUNTS:
                    del self._last[next(iter(self._last))]
            try:
                await served.frontier.close()
            except StoreUnavailable as error:
                log.warning("frontier not closed in order", task_id=crawl_id, error=str(error))


def _rules(task: Task) -> FrontierRules:
    try:
        if task.task_type == SPIDER:
            spider = msgspec.json.decode(task.parameters, type=ScrapyParameters)
            if spider.is_shared:
                return FrontierRules()
        return rules_of(msgspec.json.decode(task.parameters, type=CrawlParameters))
    except msgspec.DecodeError as error:
        raise Refused(f"the parameters of {task.id} are not those of a crawl: {error}") from error
