"""So many at once, the others in their order, and nothing is lost when somebody gives up."""

import asyncio

from crawlfleet.crawl.politeness.semaphore import Slots


def test_no_more_are_taken_than_there_are() -> None:
    slots = Slots(2)
    assert [slots.take() for _ in range(3)] == [True, True, False]
    slots.give()
    assert [slots.take() for _ in range(2)] == [True, False]


def test_those_who_wait_come_in_their_order_and_before_who_comes_later() -> None:
    async def scenario() -> list[int]:
        slots = Slots(1)
        assert slots.take()
        came: list[int] = []

        async def come(number: int) -> None:
            await slots.wait()
            came.append(number)

        waiting = [asyncio.create_task(come(number)) for number in range(3)]
        await asyncio.sleep(0)
        for _ in waiting:
            slots.give()
            assert not slots.take()
            await asyncio.sleep(0)
        await asyncio.gather(*waiting)
        slots.give()
        assert slots.take()
        return came

    assert asyncio.run(scenario()) == [0, 1, 2]


def test_who_gives_up_waiting_leaves_the_place_to_the_next() -> None:
    async def scenario() -> None:
        slots = Slots(1)
        assert slots.take()
        first, second = (asyncio.create_task(slots.wait()) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.sleep(0)
        slots.give()
        await second
        assert not slots.take()

    asyncio.run(scenario())


def test_who_gives_up_in_the_moment_of_its_turn_passes_it_on() -> None:
    async def scenario() -> None:
        slots = Slots(1)
        assert slots.take()
        first, second = (asyncio.create_task(slots.wait()) for _ in range(2))
        await asyncio.sleep(0)
        slots.give()
        first.cancel()
        await asyncio.wait([first])
        assert first.cancelled()
        await second
        slots.give()
        assert slots.take()

    asyncio.run(scenario())
