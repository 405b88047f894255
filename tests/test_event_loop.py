"""No error in the background is lost: neither at the end of a loop nor while it runs."""

import asyncio
import gc
from typing import Any

import pytest

from crawlfleet import event_loop
from crawlfleet.event_loop import alongside

Told = list[tuple[str, str]]


async def fails(text: str = "no") -> None:
    raise ValueError(text)


async def moments() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def told_by(work: Any, *, fast: bool) -> tuple[Any, Told]:
    """What the work gives, and which errors were reported."""
    told: Told = []

    def report(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        told.append((type(context["exception"]).__name__, str(context["exception"])))

    gc.disable()  # what is reported is so because the end was looked at, and not by chance
    try:
        return event_loop.run(work, fast=fast, report=report), told
    finally:
        gc.enable()


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("is_cancelled", [False, True])
def test_an_error_that_nobody_has_read_is_reported_at_the_end(
    fast: bool, is_cancelled: bool
) -> None:
    async def work() -> int:
        task = asyncio.create_task(fails())
        keeps: list[Any] = [task]
        keeps.append(keeps)  # only a search for garbage finds it
        await moments()
        if is_cancelled:
            task.cancel()
        return 7

    assert told_by(work(), fast=fast) == (7, [("ValueError", "no")])


@pytest.mark.parametrize("fast", [False, True])
def test_an_error_that_was_read_is_not_reported(fast: bool) -> None:
    async def work() -> list[bool]:
        tasks = [asyncio.create_task(fails(), name=str(number)) for number in range(4)]
        await moments()
        for task in tasks:
            task.cancel()
        with pytest.raises(ValueError, match="no"):
            await tasks[0]
        with pytest.raises(ValueError, match="no"):
            await asyncio.gather(tasks[1])
        asking = asyncio.create_task(asyncio.sleep(60))
        await moments()
        asking.cancel()
        await asyncio.wait([asking])
        return [bool(tasks[2].exception()), bool(tasks[3].exception()), asking.cancelled()]

    assert told_by(work(), fast=fast) == ([True, True, True], [])


def test_what_the_work_raises_is_raised() -> None:
    with pytest.raises(ValueError, match="no"):
        event_loop.run(fails())


def test_what_runs_alongside_ends_with_the_body() -> None:
    ended = asyncio.Event()

    async def lasts() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    async def work() -> bool:
        async with alongside(lasts(), name="lasts"):
            await moments()
            assert not ended.is_set()
        return ended.is_set()

    assert told_by(work(), fast=False) == (True, [])


def test_what_fails_alongside_is_reported_at_once_and_the_body_goes_on() -> None:
    heard: list[str] = []

    async def work() -> list[str]:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: heard.append(context["message"]))
        async with alongside(fails(), name="table"):
            await moments()
            return [*heard]

    assert told_by(work(), fast=False) == (["table failed in the background"], [])
