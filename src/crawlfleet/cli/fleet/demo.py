"""Submits work for a demo: a crawl of the demo shop, and tasks of other kinds around it."""

import asyncio
import random
from typing import Any, Final

from rich.console import Console

from crawlfleet.client import Client
from crawlfleet.errors import MasterUnreachable
from crawlfleet.views.tasks import TaskView

SLEEPS: Final = 60
FETCHED: Final = ("blog/", "calendar/", "category/kites/", "category/lamps/", "gone")
PRODUCTS_SHOWN: Final = 3
LOOK_EVERY_S: Final = 0.5
DEADLINE_S: Final = 120.0


class Demo:
    """Submits a batch and waits for its end."""

    def __init__(self, client: Client, shop: str) -> None:
        """`shop` is the address of the demo shop."""
        self._client = client
        self._shop = shop
        self._console = Console(stderr=True, highlight=False)

    async def run(self, *, quiet: bool) -> int:
        """The exit code: 0 when every task of the batch completed."""
        earlier = (await self._counts()).get("completed", 0)
        reply = await self._client.submit_batch(demo_batch(self._shop))
        wanted, crawl = len(reply.items), reply.items[0].id
        self._say(f"demo: submitted {wanted} tasks, among them a crawl of {self._shop}", quiet)
        try:
            async with asyncio.timeout(DEADLINE_S):
                completed = await self._until_done(earlier, wanted, crawl, quiet)
        except TimeoutError:
            self._console.print(f"demo: not done after {DEADLINE_S:g} s")
            return 1
        if crawl is not None and not quiet:
            self._show(await self._client.task(crawl))
        return 0 if completed >= wanted else 1

    async def _until_done(self, earlier: int, wanted: int, crawl: str | None, quiet: bool) -> int:
        told = ""
        while True:
            counts = await self._counts()
            completed = counts.get("completed", 0) - earlier
            pages = "" if quiet or crawl is None else await self._pages(crawl)
            line = f"demo: {completed} of {wanted} tasks completed{pages}"
            if line != told:
                self._say(told := line, quiet)
            if completed >= wanted or not _alive(counts):
                return completed
            await asyncio.sleep(LOOK_EVERY_S)

    async def _pages(self, crawl: str) -> str:
        try:
            progress = (await self._client.task(crawl)).progress
        except MasterUnreachable:
            return ""
        return f"; the crawl has {progress.done:g} pages" if progress else ""

    def _show(self, crawl: TaskView) -> None:
        """Show the products that the crawl found."""
        if not crawl.result or not crawl.result["success"]:
            return
        products, metrics = crawl.result["data"]["products"], crawl.result["metrics"]
        self._say(
            f"demo: {metrics['pages_crawled']:g} pages and {len(products)} products in "
            f"{metrics['processing_time']:.1f} s, such as",
            quiet=False,
        )
        for product in products[:PRODUCTS_SHOWN]:
            self._say(f"  {product['title']}, {product['price']}", quiet=False)

    def _say(self, text: str, quiet: bool) -> None:
        if not quiet:
            self._console.print(text)

    async def _counts(self) -> dict[str, int]:
        try:
            return (await self._client.status()).totals.tasks
        except MasterUnreachable:
            return {"pending": 1}


def _alive(counts: dict[str, int]) -> bool:
    return any(counts.get(name) for name in ("waiting", "pending", "assigned", "processing"))


def demo_batch(shop: str) -> list[dict[str, Any]]:
    """A crawl of the shop, requests to it, and tasks of many priorities; the same each time."""
    chance = random.Random(8)  # noqa: S311 (looks, not secrets)
    crawl = {
        "task_type": "web_crawl",
        "priority": 10,
        "categories": ["shop"],
        "parameters": {
            "url": shop,
            "selectors": {"product": "div.product", "title": "h2.title", "price": "span.price"},
            "scope": {"max_query_variants": 25},
            "politeness": {"delay_s": 0, "concurrency": 4, "retry_delay_s": 1},
            "fetching": {"allow_private": True},
        },
    }
    fetches = [{"task_type": "http_fetch", "parameters": {"url": shop + path}} for path in FETCHED]
    sleeps = [
        {
            "task_type": "sleep",
            "parameters": {"seconds": round(chance.uniform(0.02, 0.4), 3)},
            "priority": chance.randint(1, 9),
            "categories": [chance.choice(("news", "shop", "jobs"))],
            "schedule_strategy": chance.choice(("least_loaded", "round_robin", "least_tasks")),
        }
        for _ in range(SLEEPS)
    ]
    return [crawl, *fetches, *sleeps]
