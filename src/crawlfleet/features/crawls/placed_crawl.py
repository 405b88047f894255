"""One crawl on a server, as the master that answers for it knows it."""

import asyncio

import msgspec

from crawlfleet.errors import ConfigError, StoreUnavailable
from crawlfleet.model.crawl.frontier import FrontierCounts
from crawlfleet.model.crawl.frontier_place import FrontierPlace, PlaceState
from crawlfleet.model.crawl.parameters import CrawlParameters
from crawlfleet.model.task import Task
from crawlfleet.ports.frontier.checkpoint import Checkpoint
from crawlfleet.ports.frontier.server import RemoteFrontier
from crawlfleet.telemetry import Component, logger

log = logger(Component.MASTER)


class PlacedCrawl:
    """One crawl on the server."""

    def __init__(self, id: str, checkpoint: Checkpoint) -> None:
        self.id = id
        self.checkpoint = checkpoint
        self.frontier: RemoteFrontier | None = None
        self.counts: FrontierCounts | None = None
        self.restoring: asyncio.Task[None] | None = None
        self.asked: set[str] = set()
        """Executions that asked this master where it is: none of them works elsewhere."""
        self.waits_to_move = False
        self.readers = 0
        """Of people's questions that are being answered: it is not closed under them."""
        self.saved_at = 0.0
        self.not_before = 0.0

    @property
    def place(self) -> FrontierPlace:
        assert self.checkpoint.place is not None, "written before anything else"
        return self.checkpoint.place

    def is_restoring(self) -> bool:
        """Whether it is being restored now. Whoever had that begun may have left before the end."""
        restoring = self.restoring
        if restoring is None or not restoring.done():
            return restoring is not None
        self.restoring = None
        if not restoring.cancelled() and (error := restoring.exception()) is not None:
            log.warning("a frontier was not restored", task_id=self.id, error=str(error))
        return False

    async def put(self, state: PlaceState, *, why: str = "", partitions: int | None = None) -> None:
        """Write down how far it has got; `partitions` once they are known."""
        known = partitions or self.place.partitions
        place = msgspec.structs.replace(self.place, state=state, why=why, partitions=known)
        await self.checkpoint.put(place)

    def check_move(self, server: str, living: set[str]) -> None:
        """Raises `StoreUnavailable` while it must not be restored on that server. Who was told of
        another one by an earlier leader may work there, and nothing that is done to this one
        keeps it from that: it has to end first."""
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
        """It is to be restored before anybody works on it again."""
        self.counts = None
        await self.disconnect()
        if self.place.state is PlaceState.BEGUN:
            await self.put(PlaceState.LOST, why=why)

    async def disconnect(self) -> None:
        frontier, self.frontier = self.frontier, None
        if frontier is not None:
            await frontier.close()


def parameters_of(task: Task) -> CrawlParameters:
    """What was asked of the crawl. Raises `ConfigError`."""
    try:
        return msgspec.json.decode(task.parameters, type=CrawlParameters)
    except msgspec.DecodeError as error:
        raise ConfigError(
            f"the parameters of {task.id} are not those of a crawl: {error}"
        ) from error
