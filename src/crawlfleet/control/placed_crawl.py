"""One crawl on a server, as the master that answers for it knows it; see `control.placing`."""

import asyncio

import msgspec

from crawlfleet.model.frontier import FrontierCounts
from crawlfleet.model.frontier_place import FrontierPlace, PlaceState
from crawlfleet.ports.checkpoint import Checkpoint
from crawlfleet.ports.frontier_server import RemoteFrontier


class PlacedCrawl:
    """One crawl on the server."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.checkpoint = checkpoint
        self.frontier: RemoteFrontier | None = None
        self.counts: FrontierCounts | None = None
        self.restoring: asyncio.Task[None] | None = None
        self.saved_at = 0.0
        self.not_before = 0.0

    @property
    def place(self) -> FrontierPlace:
        assert self.checkpoint.place is not None, "written before anything else"
        return self.checkpoint.place

    async def put(self, state: PlaceState, *, why: str = "") -> None:
        place = msgspec.structs.replace(self.place, state=state, why=why)
        await self.checkpoint.put(place)

    async def give_up(self, why: str) -> None:
        """It is to be restored before anybody works on it again."""
        await self.disconnect()
        if self.place.state is PlaceState.BEGUN:
            await self.put(PlaceState.LOST, why=why)

    async def disconnect(self) -> None:
        frontier, self.frontier = self.frontier, None
        if frontier is not None:
            await frontier.close()
