"""What is asked again after an answer was lost, or after nothing could be sent."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web

from crawlfleet.client import Client
from crawlfleet.errors import Busy, CrawlfleetError, MasterUnreachable, NotFound
from crawlfleet.testing.simulation.clock import run_simulated
from tests.client.test_client_retries import Handler, problem, serving

Use = Callable[[Client], Awaitable[Any]]
REMOVALS: dict[str, Use] = {
    "webhook": lambda fleet: fleet.remove_webhook("x"),
    "schedule": lambda fleet: fleet.remove_schedule("x"),
    "alert": lambda fleet: fleet.remove_alert("x"),
    "secret": lambda fleet: fleet.remove_secret("x"),
    "bundle": lambda fleet: fleet.remove_bundle("x"),
}
ONCE: dict[str, Use] = {
    "create a key": lambda fleet: fleet.create_key("dashboard", "viewer"),
    "rotate a key": lambda fleet: fleet.rotate_key("key-1"),
    "create a join token": lambda fleet: fleet.create_join_token(),
    "rotate a webhook": lambda fleet: fleet.rotate_webhook("hook-1"),
    "test a webhook": lambda fleet: fleet.test_webhook("hook-1"),
    "run a schedule": lambda fleet: fleet.run_schedule("schedule-1"),
}


def not_sent() -> MasterUnreachable:
    error = MasterUnreachable("nobody there")
    error.was_sent = False
    return error


class Scripted:
    """In place of the transport: raises one error after the other, then answers."""

    def __init__(self, *errors: CrawlfleetError) -> None:
        self._errors = list(errors)
        self.asked = 0

    async def call(self, method: str, path: str, type: Any, **options: Any) -> Any:
        self.asked += 1
        if self._errors:
            raise self._errors.pop(0)
        return "the answer"


def told(use: Use, master: Scripted) -> Any:
    async def scenario() -> Any:
        fleet = Client("http://127.0.0.1:9", "key", patience_s=30.0)
        fleet._transport = master  # type: ignore[assignment]
        return await use(fleet)

    return run_simulated(scenario())


@pytest.mark.parametrize("remove", REMOVALS.values(), ids=REMOVALS)
def test_what_is_gone_after_a_lost_answer_was_removed(remove: Use) -> None:
    gone = Scripted(MasterUnreachable("lost"), not_sent(), NotFound("thing", "x"))
    assert told(remove, gone) is None
    assert gone.asked == 3


@pytest.mark.parametrize("remove", REMOVALS.values(), ids=REMOVALS)
@pytest.mark.parametrize("before", [[], [not_sent()], [Busy("later")]], ids=str)
def test_what_was_never_there_is_not_found(remove: Use, before: list[CrawlfleetError]) -> None:
    with pytest.raises(NotFound):
        told(remove, Scripted(*before, NotFound("thing", "x")))


@pytest.mark.parametrize("use", ONCE.values(), ids=ONCE)
def test_what_must_not_be_done_twice_is_sent_once(use: Use) -> None:
    master = Scripted(MasterUnreachable("no answer"))
    with pytest.raises(MasterUnreachable):
        told(use, master)
    assert master.asked == 1


@pytest.mark.parametrize("use", ONCE.values(), ids=ONCE)
def test_what_must_not_be_done_twice_is_tried_again_while_nobody_is_there(use: Use) -> None:
    master = Scripted(not_sent(), not_sent())
    assert told(use, master) == "the answer"
    assert master.asked == 3


def test_who_finds_nobody_is_told_that_nothing_was_sent() -> None:
    async def scenario() -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{probe.getsockname()[1]}"
        async with Client(url, "key", patience_s=0) as fleet:
            await fleet.status()

    with pytest.raises(MasterUnreachable, match="did not answer") as caught:
        asyncio.run(scenario())
    assert type(caught.value) is MasterUnreachable
    assert not caught.value.was_sent


async def heard(url: str, patience_s: float = 30.0, **options: Any) -> list[int]:
    async with Client(url, "k", patience_s=patience_s) as fleet:
        return [event.seq async for event in fleet.stream_events(**options)]


def event(seq: int) -> str:
    data = f'{{"seq":{seq},"kind":"k","subject":"s","at":"2026-11-15T09:29:03Z","cause":"c"}}'
    return f"id: {seq}\nevent: k\ndata: {data}\n\n"


def in_turn(*answers: web.Response) -> tuple[Handler, list[str]]:
    """A master that answers one after the other, and the places that it was asked for."""
    left, places = list(answers), []

    async def handler(request: web.Request) -> web.StreamResponse:
        places.append(request.headers.get("Last-Event-ID", ""))
        return left.pop(0)

    return handler, places


def busy() -> web.Response:
    return problem(429, **{"Retry-After": "0"})


def test_a_stream_waits_for_a_master_that_is_away_or_busy_at_first_and_later() -> None:
    handler, places = in_turn(
        problem(503),
        busy(),
        web.Response(text=event(1)),
        busy(),
        web.Response(text=event(2) + "event: end\n\n"),
    )
    assert asyncio.run(serving(handler, heard)) == [1, 2]
    assert places == ["", "", "", "1", "1"]


@pytest.mark.parametrize("patience", [{"patience_s": 0.0}, {}], ids=["of the client", "default"])
def test_without_patience_a_stream_tells_at_once_that_the_master_is_busy(
    patience: dict[str, float],
) -> None:
    handler, places = in_turn(busy(), busy())

    async def use(url: str) -> Any:
        if patience:
            return await heard(url, **patience)
        async with Client(url, "k") as fleet:
            return [each async for each in fleet.stream_events(patience_s=0.0)]

    with pytest.raises(Busy):
        asyncio.run(serving(handler, use))
    assert len(places) == 1


def test_a_download_waits_for_a_master_that_is_away_at_first() -> None:
    handler, places = in_turn(problem(503), busy(), web.Response(text="a\nb\n"))

    async def use(url: str) -> bytes:
        async with Client(url, "k") as fleet:
            return b"".join([chunk async for chunk in fleet.download_crawl("x")])

    assert asyncio.run(serving(handler, use)) == b"a\nb\n"
    assert len(places) == 3


def test_a_download_of_nothing_is_empty() -> None:
    handler, _ = in_turn(web.Response(text=""))

    async def use(url: str) -> list[bytes]:
        async with Client(url, "k") as fleet:
            return [chunk async for chunk in fleet.download_crawl("x")]

    assert asyncio.run(serving(handler, use)) == []


def test_a_download_that_breaks_off_is_not_begun_again() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Length": "100"})
        await answer.prepare(request)
        await answer.write(b"part")
        assert request.transport is not None
        request.transport.close()
        return answer

    async def use(url: str) -> None:
        async with Client(url, "k") as fleet:
            chunks = fleet.download_crawl("x")
            assert await anext(chunks) == b"part"
            with pytest.raises(MasterUnreachable):
                await anext(chunks)

    asyncio.run(serving(handler, use))
