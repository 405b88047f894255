"""Work to watch: a batch of tasks of every kind that needs nothing from outside."""

import asyncio
import random
from typing import Any, Final

from rich.console import Console

from crawlfleet.client import Client
from crawlfleet.errors import MasterUnreachable

TASKS: Final = 200
LOOK_EVERY_S: Final = 0.5
DEADLINE_S: Final = 120.0


class Demo:
    """Submits a batch and waits for its end."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._console = Console(stderr=True)

    async def run(self, *, quiet: bool) -> int:
        """The exit code: 0 when every task of the batch completed."""
        earlier = (await self._counts()).get("completed", 0)
        reply = await self._client.submit_batch(demo_batch())
        wanted = len(reply.items)
        self._say(f"demo: submitted {wanted} tasks", quiet)
        try:
            async with asyncio.timeout(DEADLINE_S):
                completed = await self._until_done(earlier, wanted, quiet)
        except TimeoutError:
            self._console.print(f"demo: not done after {DEADLINE_S:g} s")
            return 1
        return 0 if completed >= wanted else 1

    async def _until_done(self, earlier: int, wanted: int, quiet: bool) -> int:
        while True:
            counts = await self._counts()
            completed = counts.get("completed", 0) - earlier
            self._say(f"demo: {completed} of {wanted} tasks completed", quiet)
            if completed >= wanted or not _alive(counts):
                return completed
            await asyncio.sleep(LOOK_EVERY_S)

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


def demo_batch() -> list[dict[str, Any]]:
    """Tasks of many priorities and categories; the same ones each time."""
    chance = random.Random(8)  # noqa: S311 (looks, not secrets)
    return [
        {
            "task_type": "sleep",
            "parameters": {"seconds": round(chance.uniform(0.02, 0.4), 3)},
            "priority": chance.randint(1, 10),
            "categories": [chance.choice(("news", "shop", "jobs"))],
            "schedule_strategy": chance.choice(("least_loaded", "round_robin", "least_tasks")),
        }
        for _ in range(TASKS)
    ]
