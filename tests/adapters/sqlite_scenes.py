"""A SQLite store for one scene."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from crawlfleet.adapters.store.sqlite.store import SqliteStore


def run(folder: Path, scenario: Callable[[SqliteStore], Awaitable[None]]) -> None:
    """Plays it with a store in the folder, open until it ends."""

    async def main() -> None:
        store = SqliteStore(path=folder / "store.db")
        await store.open()
        try:
            await scenario(store)
        finally:
            await store.close()

    asyncio.run(main())
