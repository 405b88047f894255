"""The Redis frontier does what every frontier must, with one partition and with several."""

import os
from pathlib import Path
from typing import ClassVar

import pytest

from crawlfleet.adapters.frontier.redis.frontier import RedisFrontier
from crawlfleet.model.crawl.frontier import FrontierRules
from crawlfleet.ports.frontier.frontier import Frontier
from crawlfleet.testing.frontier_suite import BloomFrontierSuite, FrontierSuite
from tests.support.servers import RedisServer

CRAWLS = 500 if os.environ.get("CRAWLFLEET_SOAK") else 25


class OnRedis:
    SHARED: ClassVar[bool] = True
    PARTITIONS: ClassVar[int] = 1
    server: RedisServer

    @pytest.fixture(autouse=True)
    def on_server(self, redis: RedisServer) -> None:
        self.server = redis

    def make_frontier(self, folder: Path, rules: FrontierRules) -> Frontier:
        url = self.server.url() + f"?partitions={self.PARTITIONS}"
        return RedisFrontier(url=url, crawl=folder.as_posix(), rules=rules)


@pytest.mark.slow
class TestRedisFrontier(OnRedis, FrontierSuite):
    CRAWLS = CRAWLS


@pytest.mark.slow
class TestRedisFrontierWithBloom(OnRedis, BloomFrontierSuite):
    pass


@pytest.mark.slow
class TestRedisFrontierInPartitions(OnRedis, FrontierSuite):
    CRAWLS = CRAWLS
    PARTITIONS = 4


@pytest.mark.slow
class TestRedisFrontierInPartitionsWithBloom(OnRedis, BloomFrontierSuite):
    PARTITIONS = 4
