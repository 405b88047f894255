"""What tests of Scrapy projects on real fleets have in common."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from crawlfleet.client import Client
from crawlfleet.testing.known_site import ServedSite
from tests.support.local_fleet import LocalFleet

PROJECT = Path(__file__).parent / "scrapy_project"
DELAY_S, CRAWL_DELAY_S = 0.1, 0.3
UNCOMMITTED_S = 4.0
"""What was asked for so long before a death may be asked for again: a step, and a busy machine."""
UNHEARD_S = 3.0
"""For so long a worker of these fleets may be silent before it counts as dead."""


async def share(client: Client, site: ServedSite, workers: int, **more: Any) -> str:
    """Have several workers run the spider of the known site, two requests to a host at once."""
    settings = {
        "DOWNLOAD_DELAY": DELAY_S,
        "RANDOMIZE_DOWNLOAD_DELAY": False,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 2,
        "LOG_LEVEL": "WARNING",
    }
    parameters = {
        "spider": "site",
        "arguments": {"url": site.spec.url(0)},
        "settings": settings | more.pop("settings", {}),
        "workers": workers,
        **more,
    }
    return (await client.submit("scrapy_spider", parameters, bundle="shop")).id


def fetches(site: ServedSite) -> dict[int, list[float]]:
    """When each page was asked for, by the server's own log."""
    found: dict[int, list[float]] = {}
    for hit in site.hits():
        if hit.page >= 0:
            found.setdefault(hit.page, []).append(hit.at)
    return found


def hosts_were_spared(site: ServedSite, at_once: int = 2) -> None:
    """Nobody was asked oftener than it allows, nor by more requests at once."""
    hits = site.hits()
    assert max(hit.busy for hit in hits) <= at_once
    for host in range(site.spec.hosts):
        times = [hit.at for hit in hits if hit.host == host]
        asked = site.spec.crawl_delay_s
        delay_s = asked[host] if host < len(asked) else DELAY_S
        # Of all of them together: a single one may be late on its way, and the next one not.
        assert (len(times) - 3) * delay_s <= max(times) - min(times), f"{len(times)} of {host}"


async def only_what_was_lost_was_asked_for_again(
    client: Client, site: ServedSite, parts: list[Any]
) -> None:
    """Whoever died, by a test's hand or since the machine was too busy to hear it, had asked for
    it a moment before, and not committed it."""
    attempts = [each for part in parts for each in await client.executions(part.id)]
    ends = [each.end_time.timestamp() for each in attempts if each.status == "lost"]
    assert ends
    for times in fetches(site).values():
        for before in sorted(times)[:-1]:
            assert any(-1 <= end - before <= UNHEARD_S + UNCOMMITTED_S for end in ends)


async def until_fetched(site: ServedSite, pages: int) -> None:
    async with asyncio.timeout(100):
        while len(fetches(site)) < pages:
            await asyncio.sleep(0.1)


async def is_whole(client: Client, id: str, site: ServedSite) -> list[Any]:
    """Wait for the end: each item is there once. The parts of the spider."""
    ended = await client.wait(id)
    assert ended.status == "completed", ended.error
    found = [json.loads(line) for line in await items_of(client, id)]
    spec = site.spec
    truth = [each for page in range(spec.pages) for each in spec.products(page)]
    assert sorted((each["title"], each["price"]) for each in found) == sorted(
        (each.title, each.price) for each in truth
    )
    result = ended.result
    assert result["data"]["items"] == result["metrics"]["items"] == len(truth)
    assert result["metrics"]["pages_crawled"] == spec.pages
    assert {*fetches(site)} == {*range(spec.pages)}
    return [await client.task(each.id) async for each in client.tasks(parent_id=id)]


def command(fleet: LocalFleet, *words: str, status: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "crawlfleet", *words],
        env={**os.environ, "CRAWLFLEET_URL": fleet.url, "CRAWLFLEET_KEY": fleet.key},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout


async def items_of(client: Client, task_id: str) -> list[str]:
    pieces = [piece async for piece in client.download_crawl(task_id, format="jsonl")]
    return sorted(b"".join(pieces).decode().splitlines())


def code_of(fleet: LocalFleet) -> Path:
    return fleet.folder.with_name(f"{fleet.folder.name}-code")


def plain_scrapy(
    fleet: LocalFleet, folder: Path, *words: str, spider: str = "products"
) -> list[str]:
    """The items of `scrapy crawl`, with the Scrapy of the environment."""
    shutil.copytree(PROJECT, folder / "plain")
    (scrapy, *_) = code_of(fleet).glob("environments/*/venv/bin/scrapy")
    subprocess.run(
        [scrapy, "crawl", spider, *words, "-o", "items.jsonl"],
        cwd=folder / "plain",
        check=True,
        capture_output=True,
        timeout=100,
    )
    return sorted((folder / "plain" / "items.jsonl").read_text("utf-8").splitlines())


def kill_worker(fleet: LocalFleet) -> list[int]:
    """Kill the agent under which a spider runs; the ids of the processes below it."""
    for agent in fleet.processes("worker"):
        below = agent.children(recursive=True)
        if any("runner" in " ".join(each.cmdline()) for each in below):
            agent.kill()
            return [each.pid for each in below]
    raise AssertionError("nobody runs a spider")
