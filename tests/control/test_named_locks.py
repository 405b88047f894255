"""Locks by name that leave nothing behind."""

import asyncio

import pytest

from crawlfleet.control.named_locks import NamedLocks


def test_one_at_a_time_and_nothing_is_kept() -> None:
    async def scene() -> None:
        turns = NamedLocks()
        inside: list[int] = []

        async def work(number: int) -> None:
            async with turns.of("a"):
                inside.append(number)
                await asyncio.sleep(0)
                assert inside[-1] == number
                async with turns.of(f"b{number}"):
                    await asyncio.sleep(0)

        await asyncio.gather(*map(work, range(20)))
        assert inside == [*range(20)]
        assert len(turns) == 0

    asyncio.run(scene())


def test_whoever_fails_or_is_cancelled_lets_the_next_go_on() -> None:
    async def scene() -> None:
        turns = NamedLocks()
        held = asyncio.Event()

        async def hold() -> None:
            async with turns.of("a"):
                held.set()
                await asyncio.sleep(60)

        first = asyncio.create_task(hold())
        await held.wait()
        second = asyncio.create_task(hold())
        await asyncio.sleep(0)
        second.cancel()
        first.cancel()
        await asyncio.wait([first, second])
        assert len(turns) == 0
        with pytest.raises(ValueError, match="trouble"):
            async with turns.of("a"):
                raise ValueError("trouble")
        assert len(turns) == 0

    asyncio.run(scene())
