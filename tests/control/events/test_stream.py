"""Following the event log: what is new, a sign of life when nothing is, and an end in time."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from crawlfleet.control.events.stream import EventFilter, Events, StreamedEvents
from crawlfleet.core.tasks.orders import Verb
from crawlfleet.model.requests import TaskRequest
from crawlfleet.testing.simulation.clock import run_simulated
from tests.control.stage import Stage, stage

EVERYTHING = EventFilter()


async def next_kinds(news: AsyncIterator[StreamedEvents]) -> list[str]:
    events, _ = await anext(news)
    return [event.kind for event in events]


def test_a_follower_hears_what_happens_and_its_place_first() -> None:
    async def scene() -> None:
        async with stage() as on:
            await on.submit()
            await asyncio.sleep(1)
            with on.control.events.follow(EVERYTHING, after=None) as news:
                assert await anext(news) == StreamedEvents((), 1)
                task = await on.submit()
                await on.order(Verb.PAUSE, task)
                assert await next_kinds(news) == ["task.pending", "task.paused"]

    run_simulated(scene())


def test_a_follower_of_something_rare_is_told_how_far_it_got() -> None:
    async def scene() -> None:
        async with stage() as on:
            with on.control.events.follow(EventFilter(kind="node."), after=0) as news:
                await anext(news)
                await on.submit()
                begun = asyncio.get_running_loop().time()
                assert await anext(news) == StreamedEvents((), 1)
                assert 15 <= asyncio.get_running_loop().time() - begun < 16
                await on.node()
                assert await next_kinds(news) == ["node.online"]

    run_simulated(scene())


def test_a_follower_of_something_rare_is_told_so_while_much_else_happens() -> None:
    """Each time it is seen whether its key is still good."""

    async def scene() -> None:
        async with stage() as on:

            async def submit() -> None:
                while True:
                    await on.submit()
                    await asyncio.sleep(1)

            busy = asyncio.create_task(submit())
            with on.control.events.follow(EventFilter(kind="node."), after=None) as news:
                await anext(news)
                for _ in range(2):
                    begun = asyncio.get_running_loop().time()
                    assert not (await anext(news)).events
                    assert asyncio.get_running_loop().time() - begun < 17
            busy.cancel()

    run_simulated(scene())


@pytest.mark.slow
def test_a_follower_catches_up_through_any_number_of_portions() -> None:
    async def scene() -> None:
        async with stage() as on:
            tasks = [await on.submit() for _ in range(2_500)]
            await on.order(Verb.PAUSE, tasks[-1])
            with on.control.events.follow(EventFilter(kind="task.paused"), after=0) as news:
                await anext(news)
                assert await next_kinds(news) == ["task.paused"]
            with on.control.events.follow(EVERYTHING, after=0) as news:
                await anext(news)
                sizes = [len((await anext(news)).events) for _ in range(3)]
                assert sizes == [1000, 1000, 501]

    run_simulated(scene())


def test_following_ends_when_the_master_stops_and_after_a_while() -> None:
    async def scene() -> None:
        async with stage() as on:
            with on.control.events.follow(EVERYTHING, after=0) as news:
                heard = [each async for each in news]
                assert asyncio.get_running_loop().time() >= 900
                assert len(heard) > 50
            with on.control.events.follow(EVERYTHING, after=0) as news:
                await anext(news)
                on.control.dismiss()
                assert [each async for each in news] == []

    run_simulated(scene())


@pytest.mark.slow
def test_a_page_of_something_rare_ends_somewhere_and_the_next_goes_on() -> None:
    async def scene() -> None:
        async with stage() as on:
            await fill(on, 21_000)
            events: Events = on.control.events
            page, cursor = await events.find(EventFilter(kind="node."), after=0, limit=10)
            assert (page, cursor) == ([], "20000")
            page, cursor = await events.find(EventFilter(kind="node."), after=20_000, limit=10)
            assert ([event.kind for event in page], cursor) == (["node.online"], None)
            newest = await events.newest(EventFilter(kind="node."), limit=10)
            assert newest == page

    run_simulated(scene())


async def fill(on: Stage, tasks: int) -> None:
    await on.control.tasks.submit_batch([TaskRequest(task_type="work")] * tasks, by="people")
    await on.node(task_types=("none",))
    await asyncio.sleep(1)
