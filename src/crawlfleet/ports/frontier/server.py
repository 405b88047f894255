"""A server on which crawls keep their frontiers, reached by all who work for them."""

from collections.abc import Collection, Sequence
from typing import Protocol

from crawlfleet.model.crawl.frontier import FrontierRules
from crawlfleet.ports.frontier.checkpoint import Checkpoint
from crawlfleet.ports.frontier.kept import ToldFrontier


class RemoteFrontier(ToldFrontier, Protocol):
    """The frontier of one crawl there, as the one sees it who answers for it.

    Whatever is asked raises `FrontierLost` when the server has lost the crawl or a part of it, and
    `ConfigError` when it would not keep what it is given.
    """

    async def workers(self) -> Collection[str]:
        """Whom it knows: those who may have leases."""
        ...

    async def save(self, checkpoint: Checkpoint) -> int:
        """Let the checkpoint have all that was committed since the last time, in portions; how
        many steps that were."""
        ...

    async def restore(self, checkpoint: Checkpoint) -> None:
        """Fill a frontier that was just begun with what a checkpoint has."""
        ...

    async def discard(self) -> None:
        """Remove the crawl, and close. Others who have it open are told that it is lost."""
        ...


class FrontierServer(Protocol):
    """Where frontiers are."""

    @property
    def url(self) -> str:
        """What those who work for a crawl must know to reach it, with its password."""
        ...

    @property
    def name(self) -> str:
        """The same as it may be told to anybody."""
        ...

    def frontier(
        self,
        crawl: str,
        rules: FrontierRules,
        *,
        epoch: str,
        anew: bool = False,
        versions: Sequence[int] = (),
        partitions: int | None = None,
    ) -> RemoteFrontier:
        """That of a crawl, to be opened: begun under this epoch before, or `anew` if it is not
        there yet, then with so many `partitions`, or as many as the server's URL says. It is
        lost, too, if a partition has not come as far as `versions` says."""
        ...
