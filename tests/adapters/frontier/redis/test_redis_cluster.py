"""The Redis frontier on a Redis Cluster: partitions on several servers, no step on two of them."""

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from crawlfleet.adapters.frontier.redis.frontier import RedisFrontier
from crawlfleet.errors import ConfigError
from crawlfleet.model.crawl.frontier import FrontierRules
from crawlfleet.ports.frontier.frontier import Frontier
from crawlfleet.testing.frontier_suite import FrontierSuite
from tests.adapters.redis_crawlers import Journal, Web, check_books, crawl
from tests.adapters.redis_nodes import redis_cluster
from tests.support.servers import RedisServer

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("redis-cluster")]

Nodes = tuple[RedisServer, RedisServer]


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    with redis_cluster() as servers:
        yield servers


class OnCluster:
    SHARED: ClassVar[bool] = True
    CRAWLS: ClassVar[int] = 5
    server: RedisServer

    @pytest.fixture(autouse=True)
    def on_nodes(self, nodes: Nodes) -> None:
        self.server = nodes[0]

    def make_frontier(self, folder: Path, rules: FrontierRules) -> Frontier:
        url = f"{self.server.url()}?partitions=6"
        return RedisFrontier(url=url, crawl=folder.as_posix(), rules=rules)


class TestOnCluster(OnCluster, FrontierSuite):
    pass


def test_crawl_uses_all_nodes(nodes: Nodes) -> None:
    chance = random.Random(3)
    web, journal = Web(chance, 200, most=8), Journal()

    def make(epoch: str | None) -> RedisFrontier:
        return RedisFrontier(
            url=f"{nodes[1].url()}?partitions=8",
            crawl="spread",
            rules=FrontierRules(max_depth=8),
            epoch=epoch,
        )

    async def main() -> None:
        await crawl(make, web, journal, chance, workers=3)
        await check_books(make(None), web, journal)

    asyncio.run(main())
    for node in nodes:
        assert "{spread:" in node.execute("KEYS", "crawlfleet:{spread:*")

    async def discard() -> None:
        frontier = make(None)
        await frontier.open()
        await frontier.discard()

    asyncio.run(discard())
    for node in nodes:
        assert node.execute("KEYS", "crawlfleet:{spread:*") == "*0"


def test_every_node_must_keep_what_it_is_given(nodes: Nodes) -> None:
    nodes[1].execute("CONFIG", "SET", "appendfsync", "everysec")
    try:
        frontier = RedisFrontier(url=nodes[0].url(), crawl="careless", rules=FrontierRules())
        with pytest.raises(ConfigError, match="appendfsync always"):
            asyncio.run(frontier.open())
    finally:
        nodes[1].execute("CONFIG", "SET", "appendfsync", "always")
