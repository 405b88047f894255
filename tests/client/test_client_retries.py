"""A client tries again what may succeed later, no sooner than it was told, and nothing twice."""

import asyncio
import itertools
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web

from crawlfleet.client import BlockingClient, Client
from crawlfleet.client.http.retries import retry
from crawlfleet.errors import (
    Busy,
    Conflict,
    CrawlfleetError,
    MasterFailed,
    MasterUnreachable,
    PreconditionFailed,
)
from crawlfleet.testing.simulation.clock import SimulatedLoop

RECEIPT = {
    "id": "task-1",
    "status": "pending",
    "created_at": "2026-11-15T09:29:03.933242Z",
    "priority": 5,
}
STATUS = {
    "version": "0.1.0",
    "epoch": 1,
    "totals": {"tasks": {}, "nodes": {}, "ready": 0, "delayed": 0, "running": 0},
}


def simulated(scenario: Awaitable[Any]) -> Any:
    loop = SimulatedLoop()
    try:
        return loop.run_until_complete(scenario)
    finally:
        loop.close()


def failing(times: int, error: CrawlfleetError, calls: list[float]) -> Callable[[], Awaitable[str]]:
    async def call() -> str:
        calls.append(asyncio.get_running_loop().time())
        if len(calls) <= times:
            raise error
        return "done"

    return call


def test_it_tries_again_with_growing_pauses_until_it_succeeds() -> None:
    calls: list[float] = []
    outcome = simulated(retry(failing(5, MasterUnreachable("away"), calls), 30.0))
    pauses = [later - sooner for sooner, later in itertools.pairwise(calls)]
    assert outcome == "done"
    for place, pause in enumerate(pauses):
        assert 0.5 * 0.1 * 2**place <= pause <= 1.5 * 0.1 * 2**place


def test_it_gives_up_when_patience_ends() -> None:
    calls: list[float] = []
    with pytest.raises(MasterUnreachable):
        simulated(retry(failing(1000, MasterUnreachable("away"), calls), 20.0))
    assert 10.0 < calls[-1] - calls[0] <= 20.0


def test_without_patience_it_asks_once() -> None:
    calls: list[float] = []
    with pytest.raises(MasterUnreachable):
        simulated(retry(failing(1, MasterUnreachable("away"), calls), 0.0))
    assert len(calls) == 1


@pytest.mark.parametrize("error", [Conflict("no"), PreconditionFailed("no"), MasterFailed("bug")])
def test_what_cannot_succeed_later_is_asked_once(error: CrawlfleetError) -> None:
    calls: list[float] = []
    with pytest.raises(type(error)):
        simulated(retry(failing(1, error, calls), 30.0))
    assert len(calls) == 1


@pytest.mark.parametrize(
    "make",
    [
        lambda fleet: fleet.create_key("dashboard", "viewer"),
        lambda fleet: fleet.rotate_key("key-1"),
        lambda fleet: fleet.create_join_token(),
    ],
    ids=["create a key", "rotate a key", "create a join token"],
)
def test_what_makes_a_secret_is_asked_once(make: Callable[[Client], Awaitable[Any]]) -> None:
    """A second rotation would take the good secret away while its answer is lost."""
    asked: list[str] = []

    class Silent:
        async def call(self, method: str, path: str, type: Any, **options: Any) -> Any:
            asked.append(path)
            raise MasterUnreachable("no answer")

    async def scenario() -> None:
        fleet = Client("http://127.0.0.1:1", "key", patience_s=30.0)
        fleet._transport = Silent()  # type: ignore[assignment]
        await make(fleet)

    with pytest.raises(MasterUnreachable):
        simulated(scenario())
    assert len(asked) == 1


def test_it_comes_back_when_it_was_told_and_not_sooner() -> None:
    calls: list[float] = []
    busy = Busy("later")
    busy.retry_after_s = 7.0
    assert simulated(retry(failing(2, busy, calls), 30.0)) == "done"
    assert all(7.0 <= b - a <= 7.2 for a, b in itertools.pairwise(calls))


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


async def serving(handler: Handler, use: Callable[[str], Awaitable[Any]]) -> Any:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        async with asyncio.timeout(30):
            return await use(f"http://127.0.0.1:{runner.addresses[0][1]}")
    finally:
        await runner.cleanup()


def problem(status: int, **headers: str) -> web.Response:
    body = {"type": "t", "title": "t", "status": status, "detail": "not now"}
    return web.json_response(body, status=status, headers=headers)


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_master_is_asked_again(status: int) -> None:
    asked = 0

    async def handler(request: web.Request) -> web.StreamResponse:
        nonlocal asked
        asked += 1
        return problem(status, **{"Retry-After": "0"}) if asked < 3 else web.json_response(STATUS)

    async def use(url: str) -> None:
        async with Client(url, "k") as client:
            assert (await client.status()).epoch == 1
        assert asked == 3
        async with Client(url, "k", patience_s=0) as hasty:
            asked_before = asked
            await hasty.status()
            assert asked == asked_before + 1

    asyncio.run(serving(handler, use))


def test_a_submission_whose_answer_was_lost_is_sent_again_under_the_same_key() -> None:
    bodies: list[Any] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        bodies.append(await request.json())
        if len(bodies) % 2:
            assert request.transport is not None
            request.transport.abort()
        answer: Any = RECEIPT
        if request.path.endswith(":batch"):
            answer = {"items": [], "deduplicated": 0}
        return web.json_response(answer)

    async def use(url: str) -> None:
        async with Client(url, "k") as client:
            await client.submit("sleep", {"seconds": 1})
            await client.clone("task-1")
            await client.submit_batch([{"task_type": "a"}, {"task_type": "b"}])
            await client.submit("sleep", idempotency_key="mine")

    asyncio.run(serving(handler, use))
    assert len(bodies) == 8
    for first, again in zip(bodies[::2], bodies[1::2], strict=True):
        assert first == again
    keys = [bodies[0]["idempotency_key"], bodies[2]["idempotency_key"]]
    keys += [task["idempotency_key"] for task in bodies[4]["tasks"]]
    assert len(set(keys)) == 4, "different requests have different keys"
    assert bodies[6]["idempotency_key"] == "mine"


def test_the_blocking_client_waits_iterates_raises_and_closes() -> None:
    ready, done = threading.Event(), threading.Event()
    places: list[str] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        if request.path.endswith("/status"):
            return web.json_response(STATUS)
        if request.path.endswith("/settings"):
            return problem(403)
        number = int(request.query.get("cursor", "0"))
        cluster = {
            "id": f"c{number}",
            "project_id": "default",
            "name": "c",
            "description": "",
            "status": "active",
            "configuration": {},
            "configuration_version": 0,
            "created_at": RECEIPT["created_at"],
            "updated_at": RECEIPT["created_at"],
            "version": 1,
        }
        later = str(number + 1) if number < 2 else None
        return web.json_response({"items": [cluster], "next_cursor": later})

    async def use(url: str) -> None:
        places.append(url)
        ready.set()
        await asyncio.to_thread(done.wait, 20)

    server = threading.Thread(target=lambda: asyncio.run(serving(handler, use)))
    server.start()
    try:
        assert ready.wait(20)
        with Client.blocking(places[0], "k") as fleet:
            assert isinstance(fleet, BlockingClient)
            assert fleet.status().epoch == 1
            assert [each.id for each in fleet.clusters()] == ["c0", "c1", "c2"]
            assert next(fleet.clusters()).id == "c0"
            with pytest.raises(CrawlfleetError, match="not now"):
                fleet.settings()
            with pytest.raises(AttributeError, match="nonsense"):
                _ = fleet.nonsense
            assert "submit" in dir(fleet)
            assert "newest first" in (fleet.tasks.__doc__ or "")
        fleet.close()
        with pytest.raises(RuntimeError, match="closed"):
            fleet.status()
    finally:
        done.set()
        server.join()
    assert not [each for each in threading.enumerate() if each.name == "crawlfleet client"]
