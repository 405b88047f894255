"""Trying again what may succeed later: with pauses that grow, and not all at once."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeVar

from crawlfleet.errors import Busy, CrawlfleetError, MasterUnreachable, NotFound

T = TypeVar("T")
FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 5.0


def is_passing(error: CrawlfleetError) -> bool:
    """Whether the same call may succeed later."""
    return error.retryable


def was_not_sent(error: CrawlfleetError) -> bool:
    """Whether the call never got to a master, so that nothing can have been done."""
    return isinstance(error, MasterUnreachable) and error.retryable and not error.was_sent


async def persist(
    call: Callable[[], Awaitable[T]],
    patience_s: float,
    may_again: Callable[[CrawlfleetError], bool] = is_passing,
) -> T:
    """The outcome of a call that may be made again after such errors; raises its last error when
    patience ends.

    A master that says when to come back is taken at its word.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + patience_s
    pause_s = FIRST_PAUSE_S
    while True:
        try:
            return await call()
        except CrawlfleetError as error:
            wait_s = pause_after(error, pause_s)
            if not may_again(error) or loop.time() + wait_s > deadline:
                raise
        await asyncio.sleep(wait_s)
        pause_s = min(pause_s * 2, LONGEST_PAUSE_S)


async def persist_until_gone(call: Callable[[], Awaitable[T]], patience_s: float) -> T | None:
    """As `persist`, for what takes something away; `None` when an answer was lost, and it is gone.

    What was never there is told as `NotFound`.
    """
    may_be_done = False

    async def attempt() -> T | None:
        nonlocal may_be_done
        try:
            return await call()
        except NotFound:
            if may_be_done:
                return None
            raise
        except CrawlfleetError as error:
            may_be_done |= not (was_not_sent(error) or isinstance(error, Busy))
            raise

    return await persist(attempt, patience_s)


def pause_after(error: CrawlfleetError, pause_s: float) -> float:
    """How long to wait before the next attempt."""
    # By chance, so that all who were turned away do not come back at once.
    chance = random.uniform(0.5, 1.5)  # noqa: S311
    if error.retry_after_s is not None:
        return error.retry_after_s + FIRST_PAUSE_S * chance
    return pause_s * chance


@asynccontextmanager
async def within(timeout_s: float | None, what: str) -> AsyncIterator[None]:
    """Waiting ends after so long, if it is set: the `TimeoutError` says what has not ended."""
    limit = asyncio.timeout(timeout_s)
    try:
        async with limit:
            yield
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise TimeoutError(
            f"{what} had not ended within {timeout_s:g} s; wait longer, or look why"
        ) from error
