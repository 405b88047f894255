"""Retries of calls that may succeed later, with growing and random pauses."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeVar

from crawlfleet.errors import Busy, CrawlfleetError, MasterUnreachable, NotFound

T = TypeVar("T")
FIRST_PAUSE_S: Final = 0.1
MAX_PAUSE_S: Final = 5.0


def is_passing(error: CrawlfleetError) -> bool:
    """Return whether the same call may succeed later."""
    return error.retryable


def was_not_sent(error: CrawlfleetError) -> bool:
    """Return whether the call never reached a master, so that it cannot have had an effect."""
    return isinstance(error, MasterUnreachable) and error.retryable and not error.was_sent


async def retry(
    call: Callable[[], Awaitable[T]],
    patience_s: float,
    may_retry: Callable[[CrawlfleetError], bool] = is_passing,
) -> T:
    """The result of a call that is repeated after passing errors for `patience_s`; then its last
    error is raised.

    When a master names the time to wait, the call is repeated then.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + patience_s
    pause_s = FIRST_PAUSE_S
    while True:
        try:
            return await call()
        except CrawlfleetError as error:
            wait_s = pause_after(error, pause_s)
            if not may_retry(error) or loop.time() + wait_s > deadline:
                raise
        await asyncio.sleep(wait_s)
        pause_s = min(pause_s * 2, MAX_PAUSE_S)


async def retry_removal(call: Callable[[], Awaitable[T]], patience_s: float) -> T | None:
    """Call as `retry` does, for a removal: returns `None` when an answer was lost and the thing is
    gone. Raises `NotFound` when the first answer says that there was no such thing.
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

    return await retry(attempt, patience_s)


def pause_after(error: CrawlfleetError, pause_s: float) -> float:
    """Return the pause before the next attempt, in seconds."""
    # Random, so that clients that were refused together do not come back together.
    chance = random.uniform(0.5, 1.5)  # noqa: S311
    if error.retry_after_s is not None:
        return error.retry_after_s + FIRST_PAUSE_S * chance
    return pause_s * chance


@asynccontextmanager
async def within(timeout_s: float | None, what: str) -> AsyncIterator[None]:
    """Limit waiting in this block to `timeout_s`, if set; `TimeoutError` names `what`."""
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
