"""Pages for tests of single sinks."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from crawlfleet.model.crawl.extraction import Item
from crawlfleet.ports.sink import PageRecord


def page(
    *fields: Mapping[str, Any], id: int = 1, kind: str = "products", **more: Any
) -> PageRecord:
    """A page with an item of each of `fields`."""
    items = [Item(kind=kind, fields=each) for each in fields]
    return PageRecord(id=id, url=f"https://a.example/{id}", at=1e9, items=items, **more)


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(60):
            await scenario()

    asyncio.run(main())
