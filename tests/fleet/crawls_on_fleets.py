"""Crawls that are submitted to a fleet and watched until something is so."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from crawlfleet.client import Client
from crawlfleet.errors import CrawlfleetError
from crawlfleet.features.crawls.views import CrawlView
from tests.crawl_figures import assert_shown


async def submit(client: Client, parameters: dict[str, Any], **fields: Any) -> str:
    """The id of a crawl that is tried again soon, however often something dies under it."""
    receipt = await client.submit(
        "web_crawl",
        parameters,
        max_retries=50,
        retry_policy={"initial_delay_s": 0.1, "max_delay_s": 0.2},
        **fields,
    )
    return receipt.id


async def until(
    client: Client, id: str, holds: Callable[[CrawlView], bool], within_s: float = 120.0
) -> CrawlView:
    """The crawl, once that is so of it; masters may be away meanwhile. Whenever it is looked at,
    its figures agree."""
    async with asyncio.timeout(within_s):
        while True:
            with contextlib.suppress(CrawlfleetError):
                crawl = await client.crawl(id)
                assert_shown(crawl)
                if holds(crawl):
                    return crawl
            await asyncio.sleep(0.05)


def has_ended(crawl: CrawlView) -> bool:
    return crawl.state in {"completed", "failed", "cancelled", "timeout"}
