"""A visitor of a host, step by step."""

import asyncio
from pathlib import Path
from typing import Any

from crawlfleet.core.robots_rules import Rules
from crawlfleet.crawl.assembly import engine_of, fetcher_of
from crawlfleet.crawl.hosts import Sites, VisitedHost
from crawlfleet.model.frontier import HostLease, HostState, Waiting
from tests.crawl.crawling import HASTY, parameters_for

NOW = 1_763_193_600.0
NAME = "https://a.example"
NOTHING = Rules(None, everything=False, reason="robots.txt")


def test_a_visitor_obeys_the_rules_that_another_part_of_its_host_has_fetched(
    tmp_path: Path,
) -> None:
    async def scene() -> None:
        parameters = parameters_for(tmp_path, f"{NAME}/")
        desk: Any = None
        engine: Any = engine_of(
            parameters,
            desk=desk,
            fetcher=fetcher_of(parameters, allow_private=True),
            keep_bodies=False,
            revisiting=False,
            now=lambda: NOW,
        )
        urls = [Waiting(number, f"{NAME}/{number}", 0, 1, 0) for number in range(3)]
        lease = HostLease(host=NAME, token=1, urls=urls, state=HostState())
        host = VisitedHost(lease, Sites(HASTY, began=NOW).enter(lease), portion=32)
        host.ready, host.visitors = True, 1
        visited: list[int] = []

        async def visit(_: VisitedHost, waiting: Waiting) -> None:
            visited.append(waiting.id)
            host.site.rules = NOTHING

        engine._visit = visit
        await engine._visit_host(host)
        assert visited == [0]
        assert [visit.id for visit in host.visits] == [1, 2]

    asyncio.run(scene())
