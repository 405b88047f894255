"""An ordinary Scrapy project on a real fleet: deployed, run, killed; its items as they are."""

import asyncio
import json
import os
import subprocess
import sys
from collections import Counter as Tally
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from crawlfleet.client import Client
from crawlfleet.testing.demo_shop.server import Counter, Shop
from crawlfleet.testing.known_site import ServedSite, SiteSpec
from tests.code_archives import packed
from tests.fleet.spiders_on_fleets import (
    CRAWL_DELAY_S,
    PROJECT,
    code_of,
    command,
    hosts_were_spared,
    is_whole,
    items_of,
    kill_worker,
    only_what_was_lost_was_asked_for_again,
    plain_scrapy,
    share,
    until_fetched,
)
from tests.left_behind import living
from tests.support.local_fleet import LocalFleet, running

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300), pytest.mark.xdist_group("bundles")]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalFleet]:
    folder = tmp_path_factory.mktemp("bundles")
    settings = {
        "CRAWLFLEET_WORKER_BUNDLES": "true",
        # The shop is on this machine.
        "CRAWLFLEET_WORKER_ALLOW_PRIVATE": "true",
    }
    with running(LocalFleet(folder / "fleet", **settings)) as fleet:
        asyncio.run(fleet.until_ready(nodes=2))
        command(fleet, "deploy", str(PROJECT), "--name", "shop")
        yield fleet


VISITS: Tally[str] = Tally()
"""How often each page of the shop was asked for."""


class Served(Counter):
    def do_GET(self) -> None:  # noqa: N802 (as the library calls it)
        VISITS[self.path] += 1
        super().do_GET()


@pytest.fixture(scope="module")
def shop() -> Iterator[str]:
    """At another address than the master, which no cell may reach."""
    handler = type("OfShop", (Served,), {"shop": Shop()})
    server = ThreadingHTTPServer(("127.0.0.9", 0), handler)
    server.daemon_threads = True
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.9:{server.server_address[1]}/"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def clocks(fleet: LocalFleet, shop: str, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What plain Scrapy finds of them."""
    words = ("-a", f"url={shop}", "-a", "category=clocks")
    return plain_scrapy(fleet, tmp_path_factory.mktemp("clocks"), *words)


def run_spider(fleet: LocalFleet, spider: str, *words: str, status: int = 0) -> dict[str, Any]:
    """The task when it has ended."""
    told = command(
        *(fleet, "submit", "scrapy_spider", "--bundle", "shop", "--spider", spider, *words),
        *("--wait", "--json", "--max-retries", "0"),
        status=status,
    )
    ended: dict[str, Any] = json.loads(told)
    return ended


def test_a_scrapy_project_runs_as_it_is(fleet: LocalFleet, shop: str, tmp_path: Path) -> None:
    words = ("-a", f"url={shop}", "-a", "category=lamps")
    task = run_spider(fleet, "products", *words)

    async def look() -> tuple[list[str], list[str], Any]:
        async with fleet.client() as client:
            async with asyncio.timeout(20):  # its last words and figures come beside its end
                while True:
                    lines = [line.message async for line in client.task_logs(task["id"])]
                    crawl = await client.crawl(task["id"])
                    told = any("Spider closed" in line for line in lines)
                    if told and crawl.figures and crawl.figures.items == crawl.output.items:
                        break
                    await asyncio.sleep(0.2)
                while [*code_of(fleet).glob("scratch/*")]:
                    await asyncio.sleep(0.1)
            return await items_of(client, task["id"]), lines, crawl

    items, lines, crawl = asyncio.run(look())
    assert items == plain_scrapy(fleet, tmp_path, *words)
    assert len(items) > 10
    assert all(json.loads(item)["seen_by"] == "lamps" for item in items)
    result = task["result"]
    assert result["success"]
    assert result["data"]["finish_reason"] == "finished"
    assert result["data"]["items"] == result["data"]["stats"]["item_scraped_count"] == len(items)
    assert result["metrics"]["items"] == len(items)
    assert task["bundle"] == "shop@1"
    # Made ahead by a node that was asked, or by the task: then its log says so.
    shown = json.loads(command(fleet, "bundles", "show", "shop", "--json"))
    assert shown["versions"][-1]["ready_on"]
    assert any("looking at" in line for line in lines)
    assert any("Spider closed (finished)" in line for line in lines)
    assert (crawl.output.items, crawl.figures.items) == (len(items), len(items))
    assert "csv" in crawl.output.formats


def test_what_does_not_begin_is_told(fleet: LocalFleet) -> None:
    unknown = run_spider(fleet, "nobody", status=1)
    assert unknown["error"]["error_class"] == "invalid"
    assert "there are: broken, listening, products, site" in unknown["error"]["message"]
    broken = run_spider(fleet, "broken", status=1)
    assert broken["error"]["message"] == "RuntimeError: it does not begin"


def test_a_spider_listens_on_no_port_unless_it_is_asked(fleet: LocalFleet) -> None:
    """Scrapy's telnet console and remote control run the code of whoever connects."""
    asked = {
        "none": {},
        "both": {"TELNETCONSOLE_ENABLED": True, "REMOTE_CONTROL_ENABLED": True},
    }

    async def ports(settings: dict[str, Any]) -> str:
        async with fleet.client() as client:
            parameters = {"spider": "listening", "settings": settings}
            id = (await client.submit("scrapy_spider", parameters, bundle="shop")).id
            ended = await client.wait(id)
            assert ended.status == "completed", ended.error
            (item,) = [json.loads(line) for line in await items_of(client, id)]
            return str(item["seen_by"])

    found = {name: asyncio.run(ports(settings)) for name, settings in asked.items()}
    assert found["none"] == ""
    assert found["both"], "a spider that listens would not be noticed"


def test_a_spider_is_stopped_with_what_it_has(fleet: LocalFleet, shop: str) -> None:
    async def scenario() -> tuple[Any, list[str]]:
        async with fleet.client() as client:
            id = await submit_slowly(client, shop)
            await until_items(client, id, 3)
            await client.steer(id, "stop")
            ended = await client.wait(id)
            return ended, await items_of(client, id)

    task, items = asyncio.run(scenario())
    assert task.status == "completed"
    assert task.result["data"]["finish_reason"] == "shutdown"
    assert 3 <= len(items) == task.result["data"]["items"]


def test_a_spider_whose_worker_is_killed_ends_elsewhere_with_no_item_twice(
    fleet: LocalFleet, shop: str, clocks: list[str]
) -> None:
    async def scenario() -> tuple[Any, list[str], int]:
        async with fleet.client() as client:
            id = await submit_slowly(client, shop)
            await until_items(client, id, 3)
            runners = kill_worker(fleet)
            ended = await client.wait(id)
            attempts = len(await client.executions(id))
            assert not any(living(pid) for pid in runners)
            return ended, await items_of(client, id), attempts

    task, items, attempts = asyncio.run(scenario())
    assert task.status == "completed"
    assert attempts == 2
    assert items == clocks
    assert len(items) == len({*items})


def test_a_distributed_spider_whose_worker_is_killed_goes_on_where_it_was(
    fleet: LocalFleet, shop: str, clocks: list[str]
) -> None:
    async def scenario() -> tuple[Any, list[str], Any, Tally[str]]:
        async with fleet.client() as client:
            VISITS.clear()
            id = await submit_slowly(client, shop, distributed=True)
            await until_items(client, id, 8)
            kill_worker(fleet)
            ended = await client.wait(id)
            attempts = await client.executions(id)
            return ended, await items_of(client, id), attempts, Tally(VISITS)

    task, items, attempts, visits = asyncio.run(scenario())
    assert task.status == "completed", task.error
    assert len(attempts) >= 2
    assert len(items) == len({*items}) == task.result["data"]["items"]
    # Only what was under way when the worker died may have been asked for again.
    again = {path: count for path, count in visits.items() if count > 1 and "robots" not in path}
    assert len(again) <= 6 * (len(attempts) - 1)
    assert max(again.values(), default=0) <= len(attempts)
    assert items == clocks


def test_a_spider_of_two_workers_one_of_which_is_killed_gives_every_item_once(
    fleet: LocalFleet,
) -> None:
    spec = SiteSpec(
        pages=110,
        hosts=6,
        first_host=20,
        links=8,
        page_bytes=1500,
        least_latency_ms=10,
        latency_ms=60,
        crawl_delay_s=(CRAWL_DELAY_S,),
    )

    async def scenario(site: ServedSite) -> None:
        async with fleet.client() as client:
            id = await share(client, site, 2)
            await until_fetched(site, 40)
            kill_worker(fleet)
            parts = await is_whole(client, id, site)
            await only_what_was_lost_was_asked_for_again(client, site, parts)
            hosts_were_spared(site)

    with ServedSite(spec) as site:
        asyncio.run(scenario(site))


async def submit_slowly(client: Client, shop: str, **more: Any) -> str:
    parameters = {
        **more,
        "spider": "products",
        "arguments": {"url": shop, "category": "clocks"},
        "settings": {"DOWNLOAD_DELAY": 0.15, "CONCURRENT_REQUESTS_PER_DOMAIN": 1},
    }
    return (await client.submit("scrapy_spider", parameters, bundle="shop")).id


async def until_items(client: Client, id: str, count: int) -> None:
    async with asyncio.timeout(100):
        while True:
            crawl = await client.crawl(id)
            if crawl.output is not None and crawl.output.items >= count:
                return
            assert crawl.state in {"pending", "assigned", "processing"}, crawl
            await asyncio.sleep(0.05)


def test_versions_are_listed_rolled_back_and_removed(fleet: LocalFleet, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for number in (1, 2):
        (tools / "tool.py").write_text(f"def number():\n    return {number}\n")
        command(fleet, "deploy", str(tools), "--project", "shop", "--note", f"the {number}.")
    words = ("submit", "python", "--bundle", "tools", "--project", "shop", "--wait", "--json")
    function = ("-p", "function=tool:number", "--max-retries", "0")

    def run() -> Any:
        return json.loads(command(fleet, *words, *function))["result"]["data"]

    assert run() == 2
    rolled_back = command(fleet, "bundles", "rollback", "tools", "--project", "shop", "--json")
    assert json.loads(rolled_back)["current"] == 1
    assert run() == 1
    listed = json.loads(command(fleet, "bundles", "list", "--project", "shop", "--json"))
    assert [(each["name"], each["current"], len(each["versions"])) for each in listed] == [
        ("tools", 1, 2)
    ]
    assert "the 2." in command(fleet, "bundles", "show", "tools", "--project", "shop")
    command(fleet, "bundles", "remove", "tools", "1", "--project", "shop", status=1)
    command(fleet, "bundles", "remove", "tools", "2", "--project", "shop")
    command(fleet, "bundles", "remove", "tools", "--all", "--project", "shop")
    assert json.loads(command(fleet, "bundles", "list", "--project", "shop", "--json")) == []


def test_a_hostile_archive_is_refused_by_name(fleet: LocalFleet, tmp_path: Path) -> None:
    evil = tmp_path / "evil.zip"
    evil.write_bytes(packed({"../../evil.py": ""}))
    done = subprocess.run(
        [sys.executable, "-m", "crawlfleet", "deploy", str(evil)],
        env={**os.environ, "CRAWLFLEET_URL": fleet.url, "CRAWLFLEET_KEY": fleet.key},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode != 0
    assert "leads out of the folder" in done.stderr
