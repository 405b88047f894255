"""A visitor of a host, step by step."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from crawlfleet.core.robots_rules import Rules
from crawlfleet.crawl.assembly import engine_of, fetcher_of
from crawlfleet.crawl.desk import Handed, Leased
from crawlfleet.crawl.engine import HAND_IN_EVERY_S, HAND_IN_SOON_S
from crawlfleet.crawl.hosts import Sites, VisitedHost
from crawlfleet.model.crawl import Outcome
from crawlfleet.model.frontier import HostLease, HostState, Waiting
from tests.crawl.crawling import HASTY, parameters_for

NOW = 1_763_193_600.0
NOTHING = Rules(None, everything=False, reason="robots.txt")
PAGE = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 5\r\n\r\nhello"


@asynccontextmanager
async def an_engine(folder: Path, url: str, desk: Any = None) -> AsyncIterator[Any]:
    parameters = parameters_for(folder, url)
    async with fetcher_of(parameters, allow_private=True) as fetcher:
        yield engine_of(
            parameters,
            desk=desk,
            fetcher=fetcher,
            keep_bodies=False,
            revisiting=False,
            now=lambda: NOW,
        )


def lease_of(name: str, pages: int) -> HostLease:
    urls = [Waiting(number, f"{name}/{number}", 0, 1, 0) for number in range(pages)]
    return HostLease(host=name, token=1, urls=urls, state=HostState())


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
        lease = lease_of(name, 3)
        host = VisitedHost(lease, Sites(HASTY, began=NOW).enter(lease), portion=32)
        host.ready, host.visitors = True, 1
        async with server, an_engine(tmp_path, f"{name}/") as engine:
            await engine._visit_host(host)
        assert [(visit.id, visit.outcome) for visit in host.visits] == [
            (0, Outcome.OK),
            (1, Outcome.ROBOTS),
            (2, Outcome.ROBOTS),
        ]

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("queued", "visited", "others_wait", "plenty"),
    [(5, 5, False, True), (5, 6, False, False), (0, 0, False, False), (5, 0, True, False)],
)
def test_there_is_plenty_when_nobody_waits_for_what_was_found(
    tmp_path: Path, queued: int, visited: int, others_wait: bool, plenty: bool
) -> None:
    async def scene() -> None:
        name = "http://127.0.0.1"
        lease = lease_of(name, queued)
        async with an_engine(tmp_path, f"{name}/") as engine:
            engine._hosts[name] = VisitedHost(
                lease, Sites(HASTY, began=NOW).enter(lease), portion=32
            )
            engine._held, engine._others_wait = visited, others_wait
            assert engine._has_plenty() is plenty

    asyncio.run(scene())


@pytest.mark.slow
def test_with_plenty_to_do_steps_become_fewer(tmp_path: Path) -> None:
    class Plenty:
        """A desk with so many pages that there are always more."""

        def __init__(self, name: str) -> None:
            self.leases = [lease_of(name, 100_000)]
            self.steps: list[float] = []
            self.visits = 0

        async def lease(self, **_wish: Any) -> Leased:
            leases, self.leases = self.leases, []
            return Leased(leases=leases)

        async def hand_in(self, handed: Handed) -> Sequence[str]:
            self.steps.append(time.monotonic())
            self.visits += sum(len(host.visits) for host in handed.hosts)
            return ()

    async def scene() -> None:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while not reader.at_eof():
                await reader.readuntil(b"\r\n\r\n")
                await asyncio.sleep(0.02)  # few enough that a step is due by time alone
                writer.write(PAGE)

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        name = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        desk, until = Plenty(name), asyncio.Event()
        begun = time.monotonic()
        async with server, an_engine(tmp_path, f"{name}/", desk) as engine:
            asyncio.get_running_loop().call_later(5 * HAND_IN_EVERY_S, until.set)
            await engine.run(until)
        assert desk.visits > 10
        *regular, _last = desk.steps
        took_s = time.monotonic() - begun
        # The first come sooner: the pause between two doubles.
        assert 1 <= len(regular) <= took_s / HAND_IN_EVERY_S + 2
        assert len(regular) < took_s / HAND_IN_SOON_S / 2

    asyncio.run(scene())
