"""A split task on a real fleet: whatever is killed, it ends once, with all that was found."""

import asyncio
import contextlib
import os
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from crawlfleet.errors import CrawlfleetError
from crawlfleet.views.tasks import TaskView
from tests.support.local_fleet import LocalFleet, running

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
URLS = 120
SHARDS = 4


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        time.sleep(0.05)
        body = self.path.encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture
def site() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


async def _submit(fleet: LocalFleet, site: str) -> str:
    await fleet.until_ready(nodes=2)
    parameters = {
        "urls": [f"{site}/{number}" for number in range(URLS)],
        "shards": SHARDS,
        "delay_s": 0,
        "concurrency": SHARDS,
    }
    async with fleet.client() as client:
        receipt = await client.submit("http_fetch", parameters)
    assert (receipt.status, receipt.shards) == ("waiting", SHARDS)
    return receipt.id


async def _end(fleet: LocalFleet, id: str) -> TaskView:
    async with fleet.client() as client, asyncio.timeout(120):
        while True:
            with contextlib.suppress(CrawlfleetError):
                task = await client.task(id)
                if task.status in {"completed", "failed", "cancelled"}:
                    return task
            await asyncio.sleep(0.1)


VICTIMS = ["master", "worker", "all"] if os.environ.get("CRAWLFLEET_SOAK") else ["all"]


@pytest.mark.parametrize("victim", VICTIMS)
def test_a_split_task_outlives_whatever_is_killed(victim: str, site: str, tmp_path: Path) -> None:
    fleet = LocalFleet(tmp_path / "fleet", CRAWLFLEET_WORKER_ALLOW_PRIVATE="true")
    with running(fleet):
        id = asyncio.run(_submit(fleet, site))
        for pause_s in (0.5, 0.7):
            time.sleep(pause_s)
            while not fleet.kill(victim):
                time.sleep(0.05)
            if victim == "all":
                fleet.start()
        done = asyncio.run(_end(fleet, id))
        assert fleet.stop() == 0
    assert (done.status, done.error) == ("completed", None)
    assert done.shard_states == {"completed": SHARDS}
    data = done.result["data"]
    assert (data["urls"], data["fetched"], data["failed"]) == (URLS, URLS, 0)
    assert sorted(page["body"] for page in data["pages"]) == sorted(
        f"/{number}" for number in range(URLS)
    )
    ends = fleet.query(f"select kind from crawler_events where subject = '{id}' order by seq")
    assert ends == [("task.waiting",), ("task.completed",)]
