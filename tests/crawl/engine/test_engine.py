"""A visitor of a host, step by step; and when an engine asks for more."""

import asyncio
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

from crawlfleet.core.urls.robots_rules import RobotsRules
from crawlfleet.crawl.engine.build import engine_of, fetcher_of
from crawlfleet.crawl.engine.engine import IDLE_ASK_S
from crawlfleet.crawl.fetch.messages import Fetched, FetchRequest
from crawlfleet.crawl.politeness.hosts import Sites, VisitedHost
from crawlfleet.crawl.work import EngineReport, Leased
from crawlfleet.model.crawl.frontier import HostLease, HostState, WaitingUrl
from crawlfleet.model.crawl.parameters import Outcome
from crawlfleet.testing.simulation.clock import run_simulated
from tests.crawl.crawling import HASTY, parameters_for

NOW = 1_763_193_600.0
NOTHING = RobotsRules(None, everything=False, reason="robots.txt")
PAGE = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 5\r\n\r\nhello"


def test_a_visitor_obeys_the_rules_that_another_part_of_its_host_has_fetched(
    tmp_path: Path,
) -> None:
    async def scene() -> None:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            host.site.rules = NOTHING
            writer.write(PAGE)
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        name = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        parameters = parameters_for(tmp_path, f"{name}/")
        desk: Any = None
        urls = [WaitingUrl(number, f"{name}/{number}", 0, 1, 0) for number in range(3)]
        lease = HostLease(host=name, token=1, urls=urls, state=HostState())
        host = VisitedHost(lease, Sites(HASTY, began=NOW).enter(lease), portion=32)
        host.ready, host.visitors = True, 1
        async with server, fetcher_of(parameters, allow_private=True) as fetcher:
            engine: Any = engine_of(
                parameters,
                desk=desk,
                fetcher=fetcher,
                keep_bodies=False,
                revisiting=False,
                now=lambda: NOW,
            )
            await engine._visit_host(host)
        assert [(visit.id, visit.outcome) for visit in host.visits] == [
            (0, Outcome.OK),
            (1, Outcome.ROBOTS),
            (2, Outcome.ROBOTS),
        ]

    asyncio.run(scene())


HOST = "http://a.example"
ANSWER_S = 0.02


class PlayedDesk:
    """Gives one host with so many URLs, and later nothing; notes when it is asked, and told."""

    def __init__(self, urls: int) -> None:
        self._urls = [WaitingUrl(number, f"{HOST}/{number}", 0, 1, 0) for number in range(urls)]
        self.asked_at: list[float] = []
        self.told_at: list[float] = []

    async def lease(self, *, hosts: int, urls: int, held: Mapping[str, int], now: float) -> Leased:
        self.asked_at.append(asyncio.get_running_loop().time())
        given, self._urls = self._urls, []
        lease = HostLease(host=HOST, token=1, urls=given, state=HostState())
        return Leased(leases=[lease] if given else [])

    async def hand_in(self, handed: EngineReport) -> Sequence[str]:
        self.told_at.append(asyncio.get_running_loop().time())
        return ()


class PlayedFetcher:
    async def address_of(self, host: str) -> str:
        return "192.0.2.1"

    async def fetch(self, request: FetchRequest) -> Fetched:
        await asyncio.sleep(ANSWER_S)
        return Fetched(url=request.url, outcome=Outcome.OK, status=200, elapsed_s=ANSWER_S)


async def visited(folder: Path, desk: PlayedDesk, seconds: float) -> None:
    politeness = msgspec.structs.replace(HASTY, obey_robots=False, concurrency=2)
    loop, over = asyncio.get_running_loop(), asyncio.Event()
    fetcher: Any = PlayedFetcher()
    engine = engine_of(
        parameters_for(folder, f"{HOST}/", politeness=politeness),
        desk=desk,
        fetcher=fetcher,
        keep_bodies=False,
        revisiting=False,
        now=lambda: NOW + loop.time(),
    )
    loop.call_later(seconds, over.set)
    await engine.run(over)


@pytest.mark.interpreted
def test_more_is_not_asked_for_after_each_step_while_there_is_enough(tmp_path: Path) -> None:
    async def scene() -> None:
        desk = PlayedDesk(urls=400)
        await visited(tmp_path, desk, 2.1)
        assert len(desk.told_at) >= 8
        gaps = [later - sooner for sooner, later in pairwise(desk.asked_at)]
        assert 3 <= len(gaps) <= 5, "now and then, for new hosts"
        assert min(gaps) >= IDLE_ASK_S - 0.001

    run_simulated(scene())


@pytest.mark.interpreted
def test_what_was_handed_in_is_asked_for_at_once_where_it_is_needed(tmp_path: Path) -> None:
    async def scene() -> None:
        desk = PlayedDesk(urls=1)
        await visited(tmp_path, desk, 0.3)
        told_at = desk.told_at[0]
        assert any(told_at < asked_at <= told_at + 0.05 for asked_at in desk.asked_at)

    run_simulated(scene())
