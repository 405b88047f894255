"""Trying again what may succeed later: with pauses that grow, and not all at once."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from crawlfleet.errors import CrawlfleetError

T = TypeVar("T")
FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 5.0


async def persist(call: Callable[[], Awaitable[T]], patience_s: float) -> T:
    """The outcome of a call that may be made again; raises its last error when patience ends.

    A master that says when to come back is taken at its word.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + patience_s
    pause_s = FIRST_PAUSE_S
    while True:
        try:
            return await call()
        except CrawlfleetError as error:
            # By chance, so that all who were turned away do not come back at once.
            chance = random.uniform(0.5, 1.5)  # noqa: S311
            wait_s = pause_s * chance
            if error.retry_after_s is not None:
                wait_s = error.retry_after_s + FIRST_PAUSE_S * chance
            if not error.retryable or loop.time() + wait_s > deadline:
                raise
        await asyncio.sleep(wait_s)
        pause_s = min(pause_s * 2, LONGEST_PAUSE_S)
