"""Tasks that try to write and connect where they should not, and what a viewer reads of them."""

import asyncio
import os
import socket
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from crawlfleet.client import Client
from crawlfleet.errors import InvalidRequest
from crawlfleet.testing.local_fleet import LocalFleet, running
from tests.fleet.crawls_on_fleets import has_ended, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(200), pytest.mark.xdist_group("sinks")]
VALUE = "hunter2/but: rather@longer"
PAGE = b"<html><h1>import os</h1></html>"


class Site(BaseHTTPRequestHandler):
    """Says what a line of a program would be, and remembers who asked."""

    asked: list[str] = []  # noqa: RUF012

    def do_GET(self) -> None:
        self.asked.append(self.headers.get("Authorization", ""))
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(PAGE)))
        self.end_headers()
        self.wfile.write(PAGE)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Site) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalFleet]:
    folder = tmp_path_factory.mktemp("sinks") / "fleet"
    settings = {"CRAWLFLEET_WORKER_ALLOW_PRIVATE": "true"}
    with running(LocalFleet(folder, workers=1, **settings)) as fleet:
        asyncio.run(fleet.until_ready(nodes=1))
        yield fleet


def order(site: str, *sinks: dict[str, Any], **fetching: Any) -> dict[str, Any]:
    return {
        "url": site,
        "depth": 0,
        "selectors": {"title": "h1"},
        "politeness": {"obey_robots": False, "delay_s": 0, "retries": 0},
        "fetching": {"allow_private": True, **fetching},
        "sinks": [*sinks],
    }


async def ended(client: Client, parameters: dict[str, Any], **fields: Any) -> Any:
    receipt = await client.submit("web_crawl", parameters, max_retries=0, **fields)
    await until(client, receipt.id, has_ended)
    return await client.task(receipt.id)


def test_a_task_writes_below_the_folder_of_its_node_and_nowhere_else(
    fleet: LocalFleet, site: str, tmp_path: Path
) -> None:
    below, elsewhere = fleet.folder / "sinks", tmp_path / "elsewhere"
    elsewhere.mkdir()
    below.mkdir(exist_ok=True)
    (below / "linked").symlink_to(elsewhere)
    (below / "link.csv").symlink_to(elsewhere / "made.csv")
    (below / "store.db").symlink_to(fleet.folder / "crawlfleet.db")
    up = os.path.relpath(elsewhere, below)
    refused = [
        ({"url": f"{up}/x.jsonl"}, "leads out"),
        ({"url": f"file://{up}/x.jsonl"}, "leads out"),
        ({"url": "evil.pth", "format": "csv"}, "ending"),
        ({"url": str(elsewhere / "authorized_keys"), "format": "csv"}, "ending"),
        ({"url": "parts", "format": "csv", "rotate_mb": 1}, "ending"),
        ({"url": "sqlite:///..%2Fcrawlfleet.db?table=x"}, "leads out"),
        ({"url": "postgresql://me@/shop?host=/run/postgresql"}, "parameter 'host'"),
        ({"url": "postgresql://me@db.example/shop?passfile=/etc/passwd"}, "'passfile'"),
    ]
    failing = [
        ({"url": str(elsewhere / "x.jsonl")}, "not below the folder"),
        ({"url": f"file://{elsewhere}/x.csv"}, "not below the folder"),
        ({"url": f"sqlite:///{fleet.folder}/crawlfleet.db?table=x"}, "not below the folder"),
        ({"url": "linked/x.jsonl"}, "linked is a link"),
        ({"url": "link.csv"}, "link.csv is a link"),
        ({"url": "sqlite:///store.db?table=x"}, "store.db is a link"),
        ({"url": "sqlite:///linked/x.db"}, "linked is a link"),
    ]

    async def scenario() -> None:
        async with fleet.client() as client:
            for sink, why in refused:
                with pytest.raises(InvalidRequest) as raised:
                    await client.submit("web_crawl", order(site, sink))
                (problem,) = raised.value.problems
                assert (problem.field, why in problem.message) == ("parameters.sinks[0].url", True)
            for sink, why in failing:
                task = await ended(client, order(site, sink))
                assert (task.status, why in task.error.message) == ("failed", True), task.error
            good = [{"url": "items.csv"}, {"url": str(below / "items.jsonl.gz")}]
            task = await ended(client, order(site, *good, {"url": "sqlite:///shop.db"}))
            assert task.status == "completed", task.error

    asyncio.run(scenario())
    assert [*elsewhere.iterdir()] == []
    assert (below / "items.csv").read_text() == f"page_url,title\n{site},import os\n"
    assert (below / "items.jsonl.gz").stat().st_size
    assert (below / "shop.db").stat().st_size
    made = fleet.query("SELECT name FROM sqlite_master WHERE name IN ('x', 'crawlfleet_output')")
    assert made == []


def test_a_task_connects_where_the_guard_lets_it(tmp_path: Path) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        running(LocalFleet(tmp_path / "fleet", workers=1)) as fleet,
    ):
        server.setblocking(False)
        port = server.getsockname()[1]

        async def scenario() -> None:
            await fleet.until_ready(nodes=1)
            async with fleet.client() as client:
                for host in ("127.0.0.1", "localhost", "192.0.2.1:1,127.0.0.1"):
                    sink = {"url": f"postgresql://me@{host}:{port}/shop"}
                    task = await ended(client, order("https://shop.example/", sink))
                    assert "not connected" in task.error.message, task.error

        asyncio.run(scenario())
        with pytest.raises(BlockingIOError):
            server.accept()


def test_a_secret_is_sent_to_the_site_and_shown_to_nobody(fleet: LocalFleet, site: str) -> None:
    headers = {"Authorization": "Bearer ${secret:SHOP_TOKEN}"}

    async def scenario() -> None:
        async with fleet.client() as client:
            await client.set_secret("SHOP_TOKEN", VALUE)
            task = await ended(client, order(site, headers=headers))
            assert (task.status, task.secrets) == ("completed", ("SHOP_TOKEN",)), task.error
            assert Site.asked[-1] == f"Bearer {VALUE}"
            fetched = await client.submit("http_fetch", {"url": site, "headers": headers})
            assert (await client.wait(fetched.id, timeout_s=60)).status == "completed"
            assert Site.asked[-1] == f"Bearer {VALUE}"
            proxy = "http://me:${secret:SHOP_TOKEN}@127.0.0.1:1"
            failed = await ended(client, order(site, proxy=proxy))
            assert failed.status == "failed"
            for wrong, field in (
                ({"proxy": f"http://me:{VALUE[:7]}@127.0.0.1:1"}, "fetching.proxy"),
                ({"headers": {"Authorization": "Bearer x"}}, "fetching.headers.Authorization"),
                ({"headers": {"X-Key": "${secret:NO_SUCH}"}}, "fetching.headers.X-Key"),
            ):
                with pytest.raises(InvalidRequest) as raised:
                    await client.submit("web_crawl", order(site, **wrong))
                assert [each.field for each in raised.value.problems] == [f"parameters.{field}"]
            looker = await client.create_key("looker", role="viewer")
        async with Client(fleet.url, looker.secret, patience_s=0) as viewer:
            seen = [task async for task in viewer.tasks()]
            lines = [[line async for line in viewer.task_logs(task.id)] for task in seen]
            events = await viewer.newest_events(limit=500)
            told = repr([[await viewer.task(task.id) for task in seen], lines, events])
            assert "SHOP_TOKEN" in told
            assert "hunter2" not in told

    asyncio.run(scenario())
    for path in (each for each in fleet.folder.rglob("*") if each.is_file()):
        assert b"hunter2" not in path.read_bytes(), path


def test_schedules_and_workflows_are_held_to_the_same(fleet: LocalFleet, site: str) -> None:
    wrong = order(site, {"url": "postgresql://me:hunter22@db.example/shop"})
    unknown = order(site, headers={"X-Key": "${secret:NO_SUCH}"})

    async def scenario() -> None:
        async with fleet.client() as client:
            for parameters, field in ((wrong, "sinks[0].url"), (unknown, "fetching.headers.X-Key")):
                task = {"task_type": "web_crawl", "parameters": parameters}
                with pytest.raises(InvalidRequest) as raised:
                    await client.create_schedule("nightly", task, cron="0 3 * * *")
                assert [each.field for each in raised.value.problems] == [
                    f"task.parameters.{field}"
                ]
                document = {"name": "shop", "steps": {"crawl": task}}
                with pytest.raises(InvalidRequest) as raised:
                    await client.save_workflow(document)
                assert [each.field for each in raised.value.problems] == [
                    f"steps.crawl.parameters.{field}"
                ]

    asyncio.run(scenario())
