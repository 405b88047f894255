"""The Redis on which crawls keep their frontiers, for the master that answers for them."""

from collections.abc import Sequence

from crawlfleet.adapters.frontier.redis.frontier import RedisFrontier
from crawlfleet.adapters.redis import shown
from crawlfleet.model.crawl.frontier import FrontierRules


class RedisFrontiers:
    """Implements `crawlfleet.ports.frontier.host.FrontierServer`."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.name = shown(url)
        # What is wrong with it is told before anything begins.
        RedisFrontier(url=url, crawl="", rules=FrontierRules())

    def frontier(
        self,
        crawl: str,
        rules: FrontierRules,
        *,
        epoch: str,
        anew: bool = False,
        versions: Sequence[int] = (),
        partitions: int | None = None,
    ) -> RedisFrontier:
        return RedisFrontier(
            url=self.url,
            crawl=crawl,
            rules=rules,
            epoch=epoch,
            anew=anew,
            journal=True,
            versions=versions,
            partitions=partitions,
        )
