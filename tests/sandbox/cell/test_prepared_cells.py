"""Cells that are made ahead: when, for whom, and what becomes of those that nobody takes."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec
import pytest

from crawlfleet.errors import SandboxFailed
from crawlfleet.sandbox.cell.cell import LocalCell
from crawlfleet.sandbox.cell.prepared_cells import PreparedCells
from crawlfleet.sandbox.spec import Bind, CellSpec

T = TypeVar("T")


class Made:
    """A cell, as far as spares look at it."""

    def __init__(self, plan: CellSpec) -> None:
        self.plan = plan
        self.is_over = False


class Maker:
    """Makes cells when it is let, and notes which were discarded."""

    def __init__(self) -> None:
        self.made: list[Made] = []
        self.discarded: list[Made] = []
        self.may_make = asyncio.Event()
        self.may_make.set()
        self.fails = False
        self.begun = self.cancelled = 0

    async def make(self, plan: CellSpec) -> LocalCell:
        self.begun += 1
        try:
            await self.may_make.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self.fails:
            raise SandboxFailed("no layer")
        cell = Made(plan)
        self.made.append(cell)
        return cast("LocalCell", cell)

    async def discard(self, cell: LocalCell) -> None:
        self.discarded.append(cast("Any", cell))


def plan(name: str, *binds: str) -> CellSpec:
    return CellSpec(layers=(), scratch=name, binds=tuple(map(Bind, binds)))


def with_spares(
    scenario: Callable[[PreparedCells, Maker], Awaitable[T]], *, most: int = 1, keep_s: float = 60
) -> T:
    async def main() -> T:
        maker = Maker()
        spares = PreparedCells(maker.make, maker.discard, max_cells=most, pause_s=0, keep_s=keep_s)
        try:
            async with asyncio.timeout(30):
                return await scenario(spares, maker)
        finally:
            await spares.empty()
            await spares.empty()

    return asyncio.run(main())


async def settled() -> None:
    """When the next pause is over, and what it began is done."""
    for _ in range(3):
        await asyncio.sleep(0.002)


def test_what_was_asked_for_again_is_there_the_next_time_and_each_cell_is_given_once() -> None:
    async def scenario(spares: PreparedCells, maker: Maker) -> list[LocalCell | None]:
        taken = []
        for _ in range(5):
            taken.append(await spares.take(plan("a")))
            await settled()
        return taken

    first, second, *others = with_spares(scenario)
    assert first is second is None
    assert None not in others
    assert len(set(others)) == 3


def test_whoever_comes_while_one_is_made_waits_for_it() -> None:
    async def scenario(spares: PreparedCells, maker: Maker) -> None:
        taking = await taking_what_is_being_made(spares, maker)
        assert not taking.done()
        maker.may_make.set()
        assert cast("Any", await taking) is maker.made[0]

    with_spares(scenario)


def test_work_of_many_kinds_has_no_cells_made_for_nothing() -> None:
    async def scenario(spares: PreparedCells, maker: Maker) -> None:
        for number in range(40):
            await spares.take(plan(str(number)))
        assert maker.begun == 0
        for _ in range(10):
            for name in "ab":
                await spares.take(plan(name))
                await settled()
        # One kind has the only spare; the other is not given it in turns.
        assert len({cell.plan.scratch for cell in maker.made}) == 1
        assert maker.discarded == []

    with_spares(scenario)


def test_none_is_given_that_has_ended_or_would_see_something_else(tmp_path: Path) -> None:
    folder = tmp_path / "code"
    folder.mkdir()
    wanted = plan("a", str(folder))

    async def scenario(spares: PreparedCells, maker: Maker) -> None:
        for _ in range(2):
            await spares.take(wanted)
        await settled()
        maker.made[0].is_over = True
        assert await spares.take(wanted) is None
        await settled()
        assert maker.discarded == maker.made[:1]
        folder.rename(tmp_path / "old")
        folder.mkdir()
        assert await spares.take(wanted) is None
        await settled()
        assert maker.discarded == maker.made[:2]
        assert cast("Any", await spares.take(wanted)) is maker.made[2]

    with_spares(scenario)


def test_none_is_made_while_the_work_comes_in() -> None:
    async def scenario(spares: PreparedCells, maker: Maker) -> None:
        for _ in range(20):
            assert await spares.take(plan("a")) is None
        assert maker.begun == 0
        await settled()
        assert len(maker.made) == 3
        taken = [await spares.take(plan("a")) for _ in range(4)]
        assert [cast("Any", each) for each in taken] == [*maker.made, None]

    with_spares(scenario, most=3)


def test_one_that_nobody_takes_is_ended_after_a_while() -> None:
    async def scenario(spares: PreparedCells, maker: Maker) -> None:
        for _ in range(2):
            await spares.take(plan("a"))
        while not maker.discarded:
            await asyncio.sleep(0.005)
        assert maker.discarded == maker.made

    with_spares(scenario, keep_s=0.01)


def test_where_none_can_be_made_whoever_asks_makes_one_for_itself() -> None:
    async def scenario(spares: PreparedCells, maker: Maker) -> None:
        maker.fails = True
        for _ in range(4):
            assert await spares.take(plan("a")) is None
            await settled()

    with_spares(scenario)


@pytest.mark.parametrize("is_made", [True, False])
def test_all_are_ended_with_the_sandbox(is_made: bool) -> None:
    async def scenario(spares: PreparedCells, maker: Maker) -> None:
        await spares.take(plan("a"))
        if not is_made:
            maker.may_make.clear()
        await spares.take(plan("a"))
        await settled()
        await spares.empty()
        assert maker.discarded == maker.made
        assert (len(maker.made), maker.cancelled) == ((1, 0) if is_made else (0, 1))

    with_spares(scenario)


async def taking_what_is_being_made(
    spares: PreparedCells, maker: Maker
) -> "asyncio.Task[LocalCell | None]":
    """Somebody waits for a spare that is not ready."""
    await spares.take(plan("a"))
    maker.may_make.clear()
    await spares.take(plan("a"))
    await settled()
    taking = asyncio.create_task(spares.take(plan("a")))
    await settled()
    return taking


def test_whoever_gives_up_ends_what_was_made_for_it() -> None:
    async def scenario(spares: PreparedCells, maker: Maker) -> None:
        taking = await taking_what_is_being_made(spares, maker)
        taking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await taking
        await settled()
        assert maker.cancelled == 1

    with_spares(scenario)


def test_whoever_gives_up_when_it_is_just_there_ends_it() -> None:
    async def scenario(spares: PreparedCells, maker: Maker) -> None:
        taking = await taking_what_is_being_made(spares, maker)
        maker.may_make.set()
        asyncio.get_running_loop().call_soon(taking.cancel)
        with pytest.raises(asyncio.CancelledError):
            await taking
        await spares.empty()
        assert len(maker.made) == 2  # one more for whoever comes next
        assert sorted(map(id, maker.discarded)) == sorted(map(id, maker.made))

    with_spares(scenario)


def test_none_is_made_or_given_once_they_are_closed() -> None:
    async def scenario(spares: PreparedCells, maker: Maker) -> None:
        for _ in range(2):
            await spares.take(plan("a"))
        await settled()
        await spares.close()
        for _ in range(3):
            assert await spares.take(plan("a")) is None
            await settled()
        assert (maker.begun, maker.discarded) == (1, maker.made)

    with_spares(scenario)


def test_none_is_given_that_hides_what_is_no_longer_there(tmp_path: Path) -> None:
    secret, renewed = tmp_path / "node.json", tmp_path / "new"
    secret.write_text("1")
    wanted = msgspec.structs.replace(plan("a"), hidden=(str(secret),))

    async def scenario(spares: PreparedCells, maker: Maker) -> None:
        for _ in range(2):
            await spares.take(wanted)
        await settled()
        renewed.write_text("2")
        renewed.rename(secret)
        assert await spares.take(wanted) is None

    with_spares(scenario)
