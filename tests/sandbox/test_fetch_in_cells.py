"""`http_fetch` and `web_crawl` in cells: by the agent's proxy, which is their only way out."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from crawlfleet.model.isolation import Isolation
from crawlfleet.model.settings import SandboxSettings, WorkerSettings
from crawlfleet.model.task import ErrorClass
from crawlfleet.ports.execution import Attempt
from crawlfleet.testing.executor_suite import WatchedRun, make_assignment
from crawlfleet.worker.pool.pool import ProcessPool
from tests.support.cells import offer_of, sandbox_in

pytestmark = pytest.mark.slow

PAGES = {
    "/": '<html><title>one</title><a href="/two">two</a></html>',
    "/two": "<html><title>two</title></html>",
}


@pytest.fixture(scope="module")
def best() -> Isolation:
    return offer_of()


@contextlib.asynccontextmanager
async def site() -> AsyncIterator[int]:
    """The port of a small site on this machine."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, OSError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                path = head.split(b" ")[1].decode()
                page = PAGES.get(path, "")
                status = "200 OK" if page else "404 Not Found"
                writer.write(
                    f"HTTP/1.1 {status}\r\nContent-Type: text/html\r\n"
                    f"Content-Length: {len(page)}\r\n\r\n{page}".encode()
                )
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


Scenario = Callable[[Callable[..., Awaitable[Attempt]], int], Awaitable[Any]]


def with_cells(
    folder: Path, offer: Isolation, scenario: Scenario, *, allow_private: bool = True
) -> Any:
    """A scenario with what runs an execution in a cell, and the port of the site."""

    async def main() -> Any:
        settings = WorkerSettings(
            slots=2, allow_private=allow_private, sandbox=SandboxSettings(memory_mb=400)
        )
        async with sandbox_in(folder / "sandbox", offer) as sandbox, site() as port:
            pool = ProcessPool(settings, sandbox=sandbox)

            async def run(task_type: str, parameters: Any) -> Attempt:
                assignment = make_assignment(
                    task_type, parameters, isolation=offer.level, timeout_s=60
                )
                return await pool.run(assignment, WatchedRun())

            try:
                async with asyncio.timeout(100):
                    return await scenario(run, port)
            finally:
                await pool.close()

    return asyncio.run(main())


def data_of(attempt: Attempt) -> Any:
    assert attempt.error is None, attempt.error
    return json.loads(bytes(attempt.data or b"null"))


def test_a_page_is_fetched_by_way_of_the_agent(tmp_path: Path, best: Isolation) -> None:
    async def scenario(run: Any, port: int) -> list[Attempt]:
        by_address = await run("http_fetch", {"url": f"http://127.0.0.1:{port}/"})
        by_name = await run(
            "http_fetch", {"urls": [f"http://localhost:{port}/two", f"http://localhost:{port}/x"]}
        )
        return [by_address, by_name]

    by_address, by_name = with_cells(tmp_path, best, scenario)
    page = data_of(by_address)
    assert (page["status"], page["body"]) == (200, PAGES["/"])
    assert by_address.metrics["egress_received_bytes"] > len(PAGES["/"])
    assert by_address.metrics["egress_refused"] == 0
    assert [each["status"] for each in data_of(by_name)["pages"]] == [200, 404]


def test_what_the_guard_refuses_is_told_as_outside_of_a_cell(
    tmp_path: Path, best: Isolation
) -> None:
    async def scenario(run: Any, port: int) -> list[Attempt]:
        urls = (f"http://localhost:{port}/", f"http://127.0.0.1:{port}/")
        return [await run("http_fetch", {"url": url}) for url in urls]

    for attempt in with_cells(tmp_path, best, scenario, allow_private=False):
        assert attempt.error is not None
        assert attempt.error.error_class is ErrorClass.INVALID
        assert "a loopback address" in attempt.error.message
        assert "allow_private" in attempt.error.message


def test_a_name_that_leads_nowhere_is_told(tmp_path: Path, best: Isolation) -> None:
    async def scenario(run: Any, port: int) -> Attempt:
        return await run("http_fetch", {"url": "http://nowhere.invalid/"})

    attempt = with_cells(tmp_path, best, scenario)
    assert attempt.error is not None
    assert attempt.error.error_class is ErrorClass.NETWORK
    assert "nowhere.invalid" in attempt.error.message


def test_a_crawl_goes_by_way_of_the_agent(tmp_path: Path, best: Isolation) -> None:
    def crawl(port: int, **fetching: Any) -> dict[str, Any]:
        return {
            "url": f"http://localhost:{port}/",
            "selectors": {"title": "title"},
            "politeness": {"delay_s": 0},
            "fetching": fetching,
        }

    async def scenario(run: Any, port: int) -> tuple[Attempt, Attempt]:
        done = await run("web_crawl", crawl(port, allow_private=True))
        # The node would, this crawl would not.
        refused = await run("web_crawl", crawl(port))
        return done, refused

    done, refused = with_cells(tmp_path, best, scenario)
    data_of(done)
    assert done.metrics["pages_crawled"] == 2
    assert done.metrics["egress_received_bytes"] > 0
    assert refused.error is not None
    assert "a loopback address" in refused.error.message
