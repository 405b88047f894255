"""The guard on real connections: whatever leads to the loopback is stopped before it connects."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web
from aiohttp.abc import AbstractResolver, ResolveResult

from crawlfleet.crawl.dial import AddressRefused, guarded_connector


class Names(AbstractResolver):
    """Answers each question with the next list of addresses."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = list(answers)

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        addresses = self.answers.pop(0)
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for address in addresses
        ]

    async def close(self) -> None:
        pass


@asynccontextmanager
async def site() -> AsyncIterator[tuple[int, list[str]]]:
    visits: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        visits.append(request.path_qs)
        if target := request.query.get("to"):
            raise web.HTTPFound(target)
        return web.Response(text="inside")

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield runner.addresses[0][1], visits
    finally:
        await runner.cleanup()


async def get(url: str, names: Names | None = None, *, allow_private: bool = False) -> str:
    connector = guarded_connector(allow_private=allow_private, names=names)
    async with (
        aiohttp.ClientSession(connector=connector) as session,
        session.get(url, timeout=aiohttp.ClientTimeout(total=10)) as response,
    ):
        return await response.text()


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "localhost",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "0.0.0.0",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::]",
    ],
)
def test_no_spelling_of_the_loopback_gets_through(host: str) -> None:
    async def scenario() -> None:
        async with site() as (port, visits):
            # aiohttp itself refuses some of them as malformed, in newer versions.
            with pytest.raises((AddressRefused, aiohttp.InvalidURL)):
                await get(f"http://{host}:{port}/")
            assert visits == []

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "addresses", [["127.0.0.1"], ["10.0.0.1", "127.0.0.1"], ["::ffff:127.0.0.1"], ["::1"]]
)
def test_names_that_lead_inside_are_refused(addresses: list[str]) -> None:
    async def scenario() -> None:
        async with site() as (port, visits):
            with pytest.raises(AddressRefused, match=r"inside\.example"):
                await get(f"http://inside.example:{port}/", Names(addresses))
            assert visits == []

    asyncio.run(scenario())


def test_a_name_that_changes_its_answer_gains_nothing() -> None:
    async def scenario() -> None:
        async with site() as (port, visits):
            names = Names(["127.0.0.1"], ["169.254.169.254"])
            connector = guarded_connector(allow_private=True, names=names)
            async with aiohttp.ClientSession(connector=connector) as session:
                async with session.get(f"http://a.example:{port}/") as response:
                    assert await response.text() == "inside"
                assert len(names.answers) == 1  # one look-up: what was checked was connected to
                with pytest.raises(AddressRefused, match="metadata"):
                    await session.get(f"http://b.example:{port}/")
            assert len(visits) == 1

    asyncio.run(scenario())


def test_forbidden_answers_are_left_out_when_others_remain() -> None:
    async def scenario() -> None:
        async with site() as (port, _):
            names = Names(["169.254.169.254", "127.0.0.1", "0.0.0.0"])
            assert await get(f"http://a.example:{port}/", names, allow_private=True) == "inside"

    asyncio.run(scenario())


@pytest.mark.parametrize("target", ["http://169.254.169.254/latest/", "http://[fd00:ec2::254]/"])
def test_redirects_are_guarded_like_first_requests(target: str) -> None:
    async def scenario() -> None:
        async with site() as (port, visits):
            with pytest.raises(AddressRefused, match="metadata"):
                await get(f"http://127.0.0.1:{port}/?to={target}", allow_private=True)
            assert len(visits) == 1

    asyncio.run(scenario())


def test_private_addresses_can_be_allowed() -> None:
    async def scenario() -> None:
        async with site() as (port, _):
            assert await get(f"http://localhost:{port}/", allow_private=True) == "inside"

    asyncio.run(scenario())
