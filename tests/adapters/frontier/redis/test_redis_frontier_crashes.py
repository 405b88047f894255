"""Crawls on Redis by several workers, while it and they die: nothing is lost, or done twice."""

import asyncio
import os
import random
from collections.abc import Coroutine
from typing import Any

import pytest
from redis import exceptions

from crawlfleet.adapters.frontier.redis import connection
from crawlfleet.adapters.frontier.redis.connection import Line
from crawlfleet.adapters.frontier.redis.frontier import RedisFrontier
from crawlfleet.errors import FrontierLost
from crawlfleet.model.crawl.frontier import FrontierRules
from tests.adapters.redis_crawlers import Journal, Web, check_books, crawl
from tests.support.servers import RedisServer, redis_server

pytestmark = pytest.mark.slow

SOAK = bool(os.environ.get("CRAWLFLEET_SOAK"))
PAGES = 2_000 if SOAK else 300
KILLS = 60 if SOAK else 4


@pytest.mark.parametrize("partitions", [1, 4])
@pytest.mark.parametrize("seed", range(10) if SOAK else range(2))
def test_crawl_outlives_a_redis_and_workers_that_are_killed(partitions: int, seed: int) -> None:
    chance = random.Random(seed)
    web = Web(chance, PAGES, most=12)
    journal = Journal()
    with redis_server() as server:
        kills = 0

        def kill() -> bool:
            nonlocal kills
            kills += 1
            server.restart("immediate")
            return kills < KILLS

        def make(epoch: str | None) -> RedisFrontier:
            return RedisFrontier(
                url=f"{server.url()}?partitions={partitions}",
                crawl="killed",
                rules=FrontierRules(max_depth=12),
                epoch=epoch,
            )

        async def main() -> None:
            await crawl(make, web, journal, chance, workers=3, disturb=kill)
            await check_books(make(None), web, journal)

        asyncio.run(main())
    assert kills
    assert journal.finished >= 3


@pytest.mark.parametrize("partitions", [1, 4])
def test_answers_that_get_lost_lose_and_double_nothing(
    redis: RedisServer, partitions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was asked was done, and is asked again."""
    chance = random.Random(7)
    web = Web(chance, PAGES, most=12)
    journal = Journal()
    answered = Line._apart
    lost = 0

    async def unanswered(line: Line, work: Coroutine[Any, Any, Any]) -> Any:
        nonlocal lost
        answer = await answered(line, work)
        if chance.random() < 0.2:
            lost += 1
            raise exceptions.ConnectionError("lost on its way")
        return answer

    def make(epoch: str | None) -> RedisFrontier:
        return RedisFrontier(
            url=f"{redis.url()}?partitions={partitions}",
            crawl=f"unanswered {partitions}",
            rules=FrontierRules(max_depth=12),
            epoch=epoch,
        )

    async def main() -> None:
        with monkeypatch.context() as lossy:
            lossy.setattr(Line, "_apart", unanswered)
            lossy.setattr(connection, "FIRST_PAUSE_S", 0.001)
            await crawl(make, web, journal, chance, workers=3)
        await check_books(make(None), web, journal)

    asyncio.run(main())
    assert lost > 20


def test_crawl_on_an_emptied_redis_ends_loudly_and_unfinished(redis: RedisServer) -> None:
    web = Web(random.Random(1), 5_000, most=None)
    journal = Journal()

    def empty() -> None:
        if len(journal.visited) > 100:
            redis.execute("FLUSHALL")

    def make(epoch: str | None) -> RedisFrontier:
        return RedisFrontier(url=redis.url(), crawl="emptied", rules=FrontierRules(), epoch=epoch)

    with pytest.raises(FrontierLost, match="emptied"):
        asyncio.run(
            crawl(make, web, journal, random.Random(2), workers=3, disturb=empty, every_s=0.05)
        )
    assert journal.finished == 0
    assert 100 < len(journal.visited) < len(web.far)
