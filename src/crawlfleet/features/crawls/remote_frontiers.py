"""Frontiers on a server that nodes reach by themselves, as the leading master manages them.

The master begins each frontier once, and sends its location and epoch to the executions of the
crawl. It ends the leases of executions that are over, saves a checkpoint of all commits, restores a
frontier from it when the server has lost it, and removes the frontier from the server when the
crawl has ended. The checkpoint's file holds the state of all this, so that the next leader
continues where this one died.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Final

import msgspec

from crawlfleet.control.named_locks import NamedLocks
from crawlfleet.control.state.fleet_state import FleetState
from crawlfleet.core.crawls.shared_crawl import (
    at_work,
    counted_in,
    crawl_of,
    rules_of,
    wants_server,
)
from crawlfleet.errors import (
    Busy,
    ConfigError,
    CrawlfleetError,
    FrontierLost,
    NotFound,
    OutputUnavailable,
    StoreUnavailable,
)
from crawlfleet.model.crawl.frontier import FrontierCounts
from crawlfleet.model.crawl.frontier_place import FrontierPlace, PlaceState
from crawlfleet.model.crawl.parameters import CrawlParameters
from crawlfleet.model.task import TERMINAL, Task
from crawlfleet.model.wire.frontier import FrontierLocation
from crawlfleet.ports.frontier.frontier import UrlRecords
from crawlfleet.ports.frontier.host import (
    Checkpoint,
    FrontierFolders,
    FrontierServer,
    RemoteFrontier,
)
from crawlfleet.ports.output import OutputStore
from crawlfleet.ports.store import Store
from crawlfleet.ports.system import System
from crawlfleet.telemetry import Component, logger

log = logger(Component.MASTER)
ANSWER_S: Final = 3.0
EPOCH_BYTES: Final = 16
RESTORING: Final = "the frontier of this crawl is being restored from its checkpoint"
TO_SET: Final = "set `frontier` at the masters to the URL of a Redis, such as redis://host:6379/0"
CRAWL: Final = "web_crawl"
"""The address and its password are for tasks of this type alone."""
LOOK_EVERY_S: Final = 1.0
SAVE_EVERY_S: Final = 2.0
"""Interval of checkpoints: if the server loses a frontier, pages committed since the last one are
fetched again."""
TRY_AGAIN_S: Final = 10.0
MAX_LAST_COUNTS: Final = 1_000
"""Maximum number of frontiers taken off the server whose last counts are kept."""
LOOK_FOR_OTHERS_S: Final = 60.0
"""Interval of the search for crawls that ended while no master could reach their server."""


class RemoteCrawl:
    """One crawl on the server."""

    def __init__(self, id: str, checkpoint: Checkpoint) -> None:
        self.id = id
        self.checkpoint = checkpoint
        self.frontier: RemoteFrontier | None = None
        self.counts: FrontierCounts | None = None
        self.restoring: asyncio.Task[None] | None = None
        self.asked: set[str] = set()
        """Executions that asked this master for the location of the frontier: none of them works
        elsewhere."""
        self.waits_to_move = False
        self.readers = 0
        """Number of readers that have the frontier open now; it is not closed while there are
        any."""
        self.saved_at = 0.0
        self.not_before = 0.0

    @property
    def place(self) -> FrontierPlace:
        assert self.checkpoint.place is not None, "written before anything else"
        return self.checkpoint.place

    def is_restoring(self) -> bool:
        """Return true while the frontier is being restored. Logs the error of a restore that has
        failed since."""
        restoring = self.restoring
        if restoring is None or not restoring.done():
            return restoring is not None
        self.restoring = None
        if not restoring.cancelled() and (error := restoring.exception()) is not None:
            log.warning("a frontier was not restored", task_id=self.id, error=str(error))
        return False

    async def put(self, state: PlaceState, *, why: str = "", partitions: int | None = None) -> None:
        """Store the state of the frontier in the checkpoint; `partitions` once they are known."""
        known = partitions or self.place.partitions
        place = msgspec.structs.replace(self.place, state=state, why=why, partitions=known)
        await self.checkpoint.put(place)

    def check_move(self, server: str, living: set[str]) -> None:
        """Raise `StoreUnavailable` while the frontier must not be restored on that server.
        Executions that an earlier leader sent to another server may still work there, and nothing
        done here would stop them: they have to end first."""
        others = living - self.asked
        if self.place.server == server or not others:
            return
        why = (
            f"the frontier of this crawl is on {self.place.server}, where {len(others)} of its "
            f"executions may still work; it moves to {server} when they have ended"
        )
        if not self.waits_to_move:
            self.waits_to_move = True
            log.warning("a frontier waits to be moved", task_id=self.id, why=why)
        raise StoreUnavailable(why)

    async def give_up(self, why: str) -> None:
        """Mark the frontier as lost, so that it is restored before an execution works on it
        again."""
        self.counts = None
        await self.disconnect()
        if self.place.state is PlaceState.BEGUN:
            await self.put(PlaceState.LOST, why=why)

    async def disconnect(self) -> None:
        frontier, self.frontier = self.frontier, None
        if frontier is not None:
            await frontier.close()


def parameters_of(task: Task) -> CrawlParameters:
    """Decode the crawl parameters of a task. Raises `ConfigError`."""
    try:
        return msgspec.json.decode(task.parameters, type=CrawlParameters)
    except msgspec.DecodeError as error:
        raise ConfigError(
            f"the parameters of {task.id} are not those of a crawl: {error}"
        ) from error


class RemoteCrawls:
    """The crawls with a remote frontier that this master knows, by id."""

    def __init__(
        self,
        *,
        state: FleetState,
        system: System,
        shelf: FrontierFolders,
        server: FrontierServer | None,
        output: OutputStore | None,
    ) -> None:
        self._state = state
        self._system = system
        self._shelf = shelf
        self._server = server
        self._output = output
        self._crawls: dict[str, RemoteCrawl] = {}

    def __iter__(self) -> Iterator[str]:
        return iter([*self._crawls])

    def get(self, crawl_id: str) -> RemoteCrawl | None:
        return self._crawls.get(crawl_id)

    async def known(self, crawl_id: str) -> RemoteCrawl | None:
        """Return the crawl if it has a checkpoint, opened if necessary; `None` otherwise."""
        crawl = self._crawls.get(crawl_id)
        if crawl is not None or not await self._shelf.has_checkpoint(crawl_id):
            return crawl
        checkpoint = self._shelf.checkpoint(crawl_id)
        await checkpoint.open()
        if checkpoint.place is None:  # died before it was written
            await checkpoint.close()
            return None
        crawl = self._crawls[crawl_id] = RemoteCrawl(crawl_id, checkpoint)
        return crawl

    async def opened(self, crawl_id: str, task: Task, execution_id: str = "") -> RemoteCrawl:
        """The crawl, with its frontier on the server: begun, connected to, or restored. Raises
        `StoreUnavailable` while that takes longer than one should wait for an answer."""
        crawl = await self.known(crawl_id) or await self._begin(crawl_id, task)
        crawl.asked.add(execution_id)
        if crawl.is_restoring():
            await self._restored(crawl)
        if crawl.place.state is PlaceState.BEGINNING:
            await self._make(crawl)
        if crawl.place.state is PlaceState.BEGUN:
            try:
                frontier = await self.connected(crawl)
                await frontier.open()  # it may have been lost since
                return crawl
            except FrontierLost as error:
                await crawl.give_up(str(error))
        crawl.check_move(self._at(crawl_id).name, at_work(self._state.leases, crawl_id))
        await self._restored(crawl)
        return crawl

    async def connected(self, crawl: RemoteCrawl) -> RemoteFrontier:
        """Return the frontier of a crawl in the state `BEGUN`, connected. Raises `FrontierLost`."""
        if crawl.frontier is None:
            place = crawl.place
            frontier = self._at(crawl.id).frontier(
                crawl.id,
                place.rules,
                epoch=place.epoch,
                versions=await crawl.checkpoint.versions(),
                partitions=place.partitions,
            )
            await frontier.open()
            crawl.frontier = frontier
        return crawl.frontier

    async def take_off(self, crawl: RemoteCrawl) -> None:
        """Remove the frontier from the server, complete or not."""
        server, place = self._at(crawl.id), crawl.place
        await crawl.disconnect()
        await server.frontier(crawl.id, place.rules, epoch=place.epoch).discard()

    async def close(self, crawl_id: str) -> None:
        """Close the connection and the checkpoint of a crawl."""
        crawl = self._crawls.pop(crawl_id, None)
        if crawl is not None:
            if crawl.restoring is not None:
                crawl.restoring.cancel()
                await asyncio.wait([crawl.restoring])
            with suppress(CrawlfleetError):
                await crawl.disconnect()
            await crawl.checkpoint.close()

    async def _begin(self, crawl_id: str, task: Task) -> RemoteCrawl:
        server = self._at(crawl_id)
        checkpoint = self._shelf.checkpoint(crawl_id)
        await checkpoint.open()
        place = FrontierPlace(
            server=server.name,
            epoch=self._new_epoch(),
            state=PlaceState.BEGINNING,
            rules=rules_of(parameters_of(task)),
        )
        await checkpoint.put(place)
        crawl = self._crawls[crawl_id] = RemoteCrawl(crawl_id, checkpoint)
        return crawl

    async def _make(self, crawl: RemoteCrawl) -> None:
        """Create the frontier on the server. No execution knows its epoch yet, so this can be
        repeated after a failure."""
        server, place = self._at(crawl.id), crawl.place
        frontier = server.frontier(crawl.id, place.rules, epoch=place.epoch, anew=True)
        await frontier.open()
        crawl.frontier = frontier
        await crawl.put(PlaceState.BEGUN, partitions=frontier.partitions)
        log.info("frontier begun", task_id=crawl.id, server=server.name)

    async def _restored(self, crawl: RemoteCrawl) -> None:
        """Restore the frontier. Raises `StoreUnavailable` if that takes longer than `ANSWER_S`; the
        restore then goes on in the background."""
        restoring = crawl.restoring
        if restoring is None:
            work = self._restore(crawl)
            restoring = crawl.restoring = asyncio.create_task(work, name=f"restore {crawl.id}")
        await asyncio.wait([restoring], timeout=ANSWER_S)
        if not restoring.done():
            raise StoreUnavailable(RESTORING)
        crawl.restoring = None
        restoring.result()

    async def _restore(self, crawl: RemoteCrawl) -> None:
        """Restore the crawl on the server from its checkpoint, under a new epoch. The output is
        first cut to the commits in the checkpoint; later pages are fetched again. Executions and
        runs of the old epoch can no longer commit."""
        server = self._at(crawl.id)
        log.warning(
            "frontier is restored from its checkpoint",
            task_id=crawl.id,
            server=server.name,
            why=crawl.place.why or "the crawl was stored away",
        )
        await self.take_off(crawl)
        await self._cut_output(crawl)
        # Under an epoch of its own each time: a half of it is of no use to anybody.
        place = msgspec.structs.replace(crawl.place, epoch=self._new_epoch(), server=server.name)
        await crawl.checkpoint.put(msgspec.structs.replace(place, state=PlaceState.LOST))
        frontier = server.frontier(
            crawl.id, place.rules, epoch=place.epoch, anew=True, partitions=place.partitions
        )
        await frontier.open()
        try:
            await frontier.restore(crawl.checkpoint)
        except BaseException:
            await frontier.close()
            raise
        crawl.frontier = frontier
        await crawl.put(PlaceState.BEGUN, partitions=frontier.partitions)
        log.info("frontier restored", task_id=crawl.id, server=server.name)

    async def _cut_output(self, crawl: RemoteCrawl) -> None:
        if self._output is None:
            return
        # A run that is not there yet needs none: nobody can commit under the old epoch any more,
        # so that nothing of it will ever count.
        await self._output.cut(crawl.id, counted_in(await crawl.checkpoint.receipts()))

    def _at(self, crawl_id: str) -> FrontierServer:
        if self._server is None:
            raise ConfigError(f"the frontier of {crawl_id} is in Redis; {TO_SET}")
        return self._server

    def _new_epoch(self) -> str:
        return self._system.entropy(EPOCH_BYTES).hex()


class RemoteFrontiers:
    """Answers for the frontiers on one server."""

    def __init__(
        self,
        *,
        store: Store,
        state: FleetState,
        system: System,
        shelf: FrontierFolders,
        server: FrontierServer | None,
        output: OutputStore | None,
    ) -> None:
        self._store = store
        self._state = state
        self._shelf = shelf
        self._server = server
        self._leads = False
        self._crawls = RemoteCrawls(
            state=state, system=system, shelf=shelf, server=server, output=output
        )
        self._turns = NamedLocks()
        self._last: dict[str, FrontierCounts] = {}
        """Last counts of frontiers that were taken off the server."""
        self._stored: set[str] = set()
        """Ids of crawls that have ended and are stored in their checkpoint; they need no
        attention."""

    async def place(self, task: Task, execution_id: str = "") -> FrontierLocation:
        """Return the location of a crawl's frontier for an execution of the task. Raises `Busy`
        while another master leads."""
        crawl_id = crawl_of(task)
        if task.task_type != CRAWL:
            return FrontierLocation()
        if not await self._shelf.has_checkpoint(crawl_id):
            parameters = parameters_of(task)
            wanted = wants_server(
                parameters,
                is_shard=task.parent_id is not None,
                has_server=self._server is not None,
            )
            if not wanted or (parameters.frontier is None and await self._shelf.has(crawl_id)):
                return FrontierLocation()
        if self._server is None:
            return FrontierLocation(
                refusal="`frontier`: this crawl keeps its books in Redis, and the fleet has none; "
                f"{TO_SET}, or submit the crawl with `frontier: master`"
            )
        self._check_lead()
        try:
            async with self._turns.of(crawl_id):
                self._stored.discard(crawl_id)
                self._last.pop(crawl_id, None)
                crawl = await self._crawls.opened(crawl_id, task, execution_id)
                place = crawl.place
        except ConfigError as error:
            return FrontierLocation(refusal=f"`frontier`: {error}")
        except (StoreUnavailable, OutputUnavailable) as error:
            return FrontierLocation(wait=str(error))
        return FrontierLocation(url=self._server.url, crawl=crawl_id, epoch=place.epoch)

    async def lost(self, task: Task, epoch: str, why: str) -> None:
        """Record that an execution found the frontier lost on the server. An outdated epoch is
        ignored."""
        self._check_lead()
        crawl_id = crawl_of(task)
        async with self._turns.of(crawl_id):
            crawl = await self._crawls.known(crawl_id)
            if crawl is not None and crawl.place.epoch == epoch:
                log.error("a frontier is lost on its server", task_id=crawl_id, error=why)
                await crawl.give_up(why)

    async def has(self, crawl_id: str) -> bool:
        """Return true if the frontier of a crawl is, or was, on the server."""
        return await self._shelf.has_checkpoint(crawl_id)

    async def discard(self, crawl_id: str) -> None:
        """Remove the frontier of a crawl that is gone or begins anew, on the server too."""
        if not await self._shelf.has_checkpoint(crawl_id):
            return
        self._check_lead()
        self._last.pop(crawl_id, None)
        async with self._turns.of(crawl_id):
            crawl = await self._crawls.known(crawl_id)
            if crawl is not None and crawl.is_restoring():
                raise StoreUnavailable(RESTORING)
            if crawl is not None and crawl.place.state is not PlaceState.STORED:
                try:
                    await self._crawls.take_off(crawl)
                except ConfigError as error:
                    raise StoreUnavailable(str(error)) from error
            await self._crawls.close(crawl_id)

    def opened(self, crawl_id: str) -> RemoteFrontier | None:
        """The frontier of a crawl, while this master is connected to it."""
        crawl = self._crawls.get(crawl_id)
        return None if crawl is None else crawl.frontier

    def last_counts(self, crawl_id: str) -> FrontierCounts | None:
        """Return the newest counts of a frontier that is, or was, managed here; `None` if not
        known."""
        crawl = self._crawls.get(crawl_id)
        if crawl is not None and crawl.counts is not None:
            return crawl.counts
        return self._last.get(crawl_id)

    @asynccontextmanager
    async def reading(self, task: Task) -> AsyncIterator[UrlRecords]:
        """Open the URL records of a crawl: the frontier or, once it was taken off the server, its
        checkpoint. Executions are answered meanwhile. Raises `NotFound`, `Busy`, and
        `StoreUnavailable`, also when the crawl is removed while it is read."""
        crawl_id = crawl_of(task)
        if not await self._shelf.has_checkpoint(crawl_id):
            raise NotFound("frontier", crawl_id)
        self._check_lead()
        async with self._turns.of(crawl_id):
            crawl = await self._crawls.known(crawl_id)
            if crawl is None:
                raise NotFound("frontier", crawl_id)
            if crawl.place.state is PlaceState.BEGUN and self._server is not None:
                with suppress(StoreUnavailable, ConfigError):
                    crawl = await self._crawls.opened(crawl_id, task)
            crawl.readers += 1
        try:
            yield crawl.frontier or crawl.checkpoint
        finally:
            crawl.readers -= 1

    async def run(self) -> None:
        """Manage all remote frontiers while this master leads."""
        self._leads = True
        self._stored.clear()  # another master may have led meanwhile
        others_at = 0.0
        try:
            while True:
                if self._now() >= others_at:
                    others_at = self._now() + LOOK_FOR_OTHERS_S
                    await self._look_for_others()
                for crawl_id in self._crawls:
                    await self._attend(crawl_id)
                await asyncio.sleep(LOOK_EVERY_S)
        finally:
            self._leads = False
            async with AsyncExitStack() as stack:
                for crawl_id in self._crawls:
                    stack.push_async_callback(self._crawls.close, crawl_id)

    async def _look_for_others(self) -> None:
        """Load the crawls whose frontiers were begun before this master led."""
        try:
            tasks = await self._shelf.tasks()
        except CrawlfleetError as error:
            log.warning("frontiers on the server cannot be looked for", error=str(error))
            return
        for crawl_id in tasks:
            if self._crawls.get(crawl_id) is not None or crawl_id in self._stored:
                continue
            try:
                await self._look_at(crawl_id)
            except CrawlfleetError as error:  # of this one; the others are looked at
                log.warning(
                    "a frontier on the server cannot be looked at",
                    task_id=crawl_id,
                    error=str(error),
                )

    async def _look_at(self, crawl_id: str) -> None:
        if await self._shelf.has_checkpoint(crawl_id):
            async with self._turns.of(crawl_id):
                crawl = await self._crawls.known(crawl_id)
                if crawl is not None and crawl.place.state is PlaceState.STORED:
                    self._stored.add(crawl_id)
                    if not crawl.readers:
                        await self._crawls.close(crawl_id)

    async def _attend(self, crawl_id: str) -> None:
        """End the leases of executions that are over, save a checkpoint, and store away crawls that
        have ended."""
        crawl = self._crawls.get(crawl_id)  # it may be discarded while others are attended to
        if crawl is None or self._now() < crawl.not_before or crawl.is_restoring():
            return
        try:
            async with self._turns.of(crawl_id):
                if self._crawls.get(crawl_id) is not crawl or crawl.is_restoring():
                    return
                try:
                    await self._look_after(crawl_id, crawl)
                except FrontierLost as error:  # in the next turn it may have been restored
                    log.error(
                        "a frontier is lost on its server", task_id=crawl_id, error=str(error)
                    )
                    await crawl.give_up(str(error))
        except Exception as error:  # of this one; the others are looked after
            crawl.not_before = self._now() + TRY_AGAIN_S
            say = log.warning if isinstance(error, CrawlfleetError) else log.exception
            say("a frontier cannot be looked after", task_id=crawl_id, error=str(error))

    async def _look_after(self, crawl_id: str, crawl: RemoteCrawl) -> None:
        living = at_work(self._state.leases, crawl_id)
        if not living and await self._has_ended(crawl_id):
            if crawl.place.state is not PlaceState.STORED:
                await self._store_away(crawl_id, crawl)
            if not crawl.readers:  # else the next time
                await self._crawls.close(crawl_id)
            return
        if crawl.place.state is not PlaceState.BEGUN:
            return
        frontier = await self._crawls.connected(crawl)
        for worker in await frontier.workers():
            if worker.partition("/")[0] not in living:
                await frontier.forget(worker)
        crawl.counts = await frontier.counts()
        if self._now() - crawl.saved_at >= SAVE_EVERY_S:
            crawl.saved_at = self._now()
            await frontier.save(crawl.checkpoint)

    async def _store_away(self, crawl_id: str, crawl: RemoteCrawl) -> None:
        """Store an ended crawl in its checkpoint and remove it from the server. It is restored if
        the task is tried again."""
        if crawl.place.state is PlaceState.BEGUN:
            try:
                frontier = await self._crawls.connected(crawl)
                while await frontier.save(crawl.checkpoint):
                    pass
                crawl.counts = self._last[crawl_id] = await frontier.counts()
                while len(self._last) > MAX_LAST_COUNTS:
                    del self._last[next(iter(self._last))]
            except FrontierLost as error:
                log.warning("a frontier was lost at the end", task_id=crawl_id, error=str(error))
        await self._crawls.take_off(crawl)
        await crawl.put(PlaceState.STORED)
        self._stored.add(crawl_id)
        log.info("frontier taken off its server", task_id=crawl_id)

    async def _has_ended(self, crawl_id: str) -> bool:
        status = (await self._store.task_states([crawl_id])).get(crawl_id)
        return status is None or status in TERMINAL

    def _check_lead(self) -> None:
        if not self._leads:
            raise Busy("another master leads, and answers for the frontiers; ask that one")

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


def remote_frontiers_on(
    shelf: FrontierFolders | None,
    *,
    store: Store,
    state: FleetState,
    system: System,
    server: FrontierServer | None,
    output: OutputStore | None,
) -> RemoteFrontiers | None:
    """Return the manager of remote frontiers with checkpoints on that shelf; `None` without a
    shelf."""
    if shelf is None:
        return None
    return RemoteFrontiers(
        store=store, state=state, system=system, shelf=shelf, server=server, output=output
    )
