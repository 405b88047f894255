"""The crawls on one server that nodes reach by themselves: begun there, connected to, restored from
their checkpoints, and taken off; see `features.crawls.remote_frontiers` for who asks for it and
when.

Each step is written down in the checkpoint's file before the next, so that whoever dies in between
leaves it to be done again. A caller has the crawl's turn.
"""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

import msgspec

from crawlfleet.control.state.fleet_state import FleetState
from crawlfleet.core.crawls.shared_crawl import at_work, counted_in, rules_of
from crawlfleet.errors import ConfigError, CrawlfleetError, FrontierLost, StoreUnavailable
from crawlfleet.features.crawls.placed_crawl import PlacedCrawl, parameters_of
from crawlfleet.model.crawl.frontier_place import FrontierPlace, PlaceState
from crawlfleet.model.task import Task
from crawlfleet.ports.frontier.kept import FrontierShelf
from crawlfleet.ports.frontier.server import FrontierServer, RemoteFrontier
from crawlfleet.ports.output import OutputStore
from crawlfleet.ports.system import System
from crawlfleet.telemetry import Component, logger

log = logger(Component.MASTER)
ANSWER_S: Final = 3.0
EPOCH_BYTES: Final = 16
RESTORING: Final = "the frontier of this crawl is being restored from its checkpoint"
TO_SET: Final = "set `frontier` at the masters to the URL of a Redis, such as redis://host:6379/0"


class PlacedCrawls:
    """Those that this master knows, by their ids."""

    def __init__(
        self,
        *,
        state: FleetState,
        system: System,
        shelf: FrontierShelf,
        server: FrontierServer | None,
        output: OutputStore | None,
    ) -> None:
        self._state = state
        self._system = system
        self._shelf = shelf
        self._server = server
        self._output = output
        self._crawls: dict[str, PlacedCrawl] = {}

    def __iter__(self) -> Iterator[str]:
        return iter([*self._crawls])

    def get(self, crawl_id: str) -> PlacedCrawl | None:
        return self._crawls.get(crawl_id)

    async def known(self, crawl_id: str) -> PlacedCrawl | None:
        """What is written down of a crawl; `None` when nothing is."""
        crawl = self._crawls.get(crawl_id)
        if crawl is not None or not await self._shelf.has_checkpoint(crawl_id):
            return crawl
        checkpoint = self._shelf.checkpoint(crawl_id)
        await checkpoint.open()
        if checkpoint.place is None:  # died before it was written
            await checkpoint.close()
            return None
        crawl = self._crawls[crawl_id] = PlacedCrawl(crawl_id, checkpoint)
        return crawl

    async def opened(self, crawl_id: str, task: Task, execution_id: str = "") -> PlacedCrawl:
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

    async def connected(self, crawl: PlacedCrawl) -> RemoteFrontier:
        """The frontier of one that was begun. Raises `FrontierLost`."""
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

    async def take_off(self, crawl: PlacedCrawl) -> None:
        """Remove it from the server, whatever is there of it."""
        server, place = self._at(crawl.id), crawl.place
        await crawl.disconnect()
        await server.frontier(crawl.id, place.rules, epoch=place.epoch).discard()

    async def close(self, crawl_id: str) -> None:
        """Let go of what this master has of it."""
        crawl = self._crawls.pop(crawl_id, None)
        if crawl is not None:
            if crawl.restoring is not None:
                crawl.restoring.cancel()
                await asyncio.wait([crawl.restoring])
            with suppress(CrawlfleetError):
                await crawl.disconnect()
            await crawl.checkpoint.close()

    async def _begin(self, crawl_id: str, task: Task) -> PlacedCrawl:
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
        crawl = self._crawls[crawl_id] = PlacedCrawl(crawl_id, checkpoint)
        return crawl

    async def _make(self, crawl: PlacedCrawl) -> None:
        """Begin it on the server. Nobody was told of its epoch so far, so that whatever went wrong
        before, it can be done again."""
        server, place = self._at(crawl.id), crawl.place
        frontier = server.frontier(crawl.id, place.rules, epoch=place.epoch, anew=True)
        await frontier.open()
        crawl.frontier = frontier
        await crawl.put(PlaceState.BEGUN, partitions=frontier.partitions)
        log.info("frontier begun", task_id=crawl.id, server=server.name)

    async def _restored(self, crawl: PlacedCrawl) -> None:
        """Have it restored; raises `StoreUnavailable` while that takes longer than one should
        wait for an answer."""
        restoring = crawl.restoring
        if restoring is None:
            work = self._restore(crawl)
            restoring = crawl.restoring = asyncio.create_task(work, name=f"restore {crawl.id}")
        await asyncio.wait([restoring], timeout=ANSWER_S)
        if not restoring.done():
            raise StoreUnavailable(RESTORING)
        crawl.restoring = None
        restoring.result()

    async def _restore(self, crawl: PlacedCrawl) -> None:
        """Put the crawl on the server as the checkpoint has it. First the output is cut to what
        the checkpoint says to be committed: what came later will be fetched again. Whoever worked
        under the epoch before has ended with it, and its run as well."""
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

    async def _cut_output(self, crawl: PlacedCrawl) -> None:
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
