"""A client with several masters: the next answers when one does not."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from aiohttp import web

from crawlfleet.client.http.transport import Transport, addresses_in
from crawlfleet.errors import MasterUnable, MasterUnreachable, Unauthenticated
from crawlfleet.views.status import Liveness

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Master:
    """Answers with its own name, or as told."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.calls = 0
        self.url = ""
        self.answer: Handler = self._own_name

    async def _own_name(self, _: web.Request) -> web.Response:
        return web.json_response({"status": self.name})

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.calls += 1
        return await self.answer(request)


@contextlib.asynccontextmanager
async def masters(*names: str) -> AsyncIterator[list[Master]]:
    async with contextlib.AsyncExitStack() as stack:
        made = [Master(name) for name in names]
        for master in made:
            server = web.Application()
            server.router.add_route("*", "/{path:.*}", master.handle)
            runner = web.AppRunner(server, shutdown_timeout=0.1)
            await runner.setup()
            stack.push_async_callback(runner.cleanup)
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            master.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield made


def nobody() -> str:
    """An address at which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


async def ask(transport: Transport, method: str = "GET") -> str:
    return (await transport.call(method, "/x", Liveness, key="k")).status


def test_addresses_are_parted_by_commas() -> None:
    assert addresses_in("http://a:1/, http://b:2 ,") == ("http://a:1", "http://b:2")
    assert addresses_in("http://a:1") == ("http://a:1",)


def test_the_next_is_asked_when_nobody_listens_and_stays_in_use() -> None:
    async def scene() -> None:
        async with masters("two") as [two], Transport(f"{nobody()},{two.url}") as transport:
            assert await ask(transport, "POST") == "two"
            assert transport.address == two.url
            assert await ask(transport) == "two"

    asyncio.run(scene())


def test_what_may_have_been_done_is_not_done_again_elsewhere() -> None:
    async def scene() -> None:
        async with masters("one", "two") as [one, two]:

            async def hang_up(request: web.Request) -> web.Response:
                assert request.transport is not None
                request.transport.close()
                return web.Response()

            one.answer = hang_up
            async with Transport(f"{one.url},{two.url}") as transport:
                with pytest.raises(MasterUnreachable):
                    await ask(transport, "POST")
                assert two.calls == 0
                assert await ask(transport, "POST") == "two"

    asyncio.run(scene())


def test_a_master_in_trouble_is_left_and_a_refusal_is_no_trouble() -> None:
    async def scene() -> None:
        async with masters("one", "two") as [one, two]:
            problem = {"type": "x", "title": "x", "status": 0, "detail": "no", "instance": "/x"}

            async def refuse(_: web.Request) -> web.Response:
                return web.json_response({**problem, "status": 401}, status=401)

            async def despair(_: web.Request) -> web.Response:
                return web.json_response({**problem, "status": 503}, status=503)

            async with Transport(f"{one.url},{two.url}") as transport:
                one.answer = refuse
                with pytest.raises(Unauthenticated):
                    await ask(transport)
                assert transport.address == one.url
                one.answer = despair
                with pytest.raises(MasterUnable, match="503"):
                    await ask(transport)
                assert await ask(transport) == "two"

    asyncio.run(scene())


@pytest.mark.slow
def test_a_master_that_does_not_answer_in_the_callers_time_is_left() -> None:
    async def scene() -> None:
        async with masters("one", "two") as [one, two]:

            async def hang(_: web.Request) -> web.Response:
                await asyncio.sleep(60)
                return web.Response()

            one.answer = hang
            async with Transport(f"{one.url},{two.url}") as transport:
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(1.2):
                        await ask(transport)
                assert await ask(transport) == "two"

    asyncio.run(scene())


def test_when_nobody_listens_anywhere_that_is_said_after_one_round() -> None:
    async def scene() -> None:
        async with Transport(f"{nobody()},{nobody()}") as transport:
            with pytest.raises(MasterUnreachable, match="did not answer"):
                await ask(transport)

    asyncio.run(scene())


def test_lines_come_from_the_next_when_nobody_listens() -> None:
    async def scene() -> None:
        async with masters("two") as [two]:

            async def lines(_: web.Request) -> web.Response:
                return web.Response(text="a\nb\n")

            two.answer = lines
            async with Transport(f"{nobody()},{two.url}") as transport:
                stream = transport.lines("/x", key="k", query={}, headers={}, silence_s=5)
                assert [line async for line in stream] == [b"a", b"b"]

    asyncio.run(scene())
