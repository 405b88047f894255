"""A visitor of a host, step by step."""

import asyncio
from pathlib import Path
from typing import Any

from crawlfleet.core.robots_rules import Rules
from crawlfleet.crawl.assembly import engine_of, fetcher_of
from crawlfleet.crawl.hosts import Sites, VisitedHost
from crawlfleet.model.crawl import Outcome
from crawlfleet.model.frontier import HostLease, HostState, Waiting
from tests.crawl.crawling import HASTY, parameters_for

NOW = 1_763_193_600.0
NOTHING = Rules(None, everything=False, reason="robots.txt")
PAGE = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 5\r\n\r\nhello"


def test_a_visitor_obeys_the_rules_that_another_part_of_its_host_has_fetched(
    tmp_path: Path,
) -> None:
    async def scene() -> None:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            host.site.rules = NOTHING
            writer.write(PAGE)

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        name = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        parameters = parameters_for(tmp_path, f"{name}/")
        desk: Any = None
        urls = [Waiting(number, f"{name}/{number}", 0, 1, 0) for number in range(3)]
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
