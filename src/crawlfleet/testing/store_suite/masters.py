"""Tests of a store that several masters share: one leads, and all receive each other's changes."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TypeVar

from crawlfleet.ports.store import Change, RefusalKind, Store
from crawlfleet.testing.store_suite.harness import (
    DEADLINE_S,
    Harness,
    commit_one,
    is_refused,
    must,
    take_lead,
)
from crawlfleet.testing.store_suite.samples import make_event, make_session, make_task

H = TypeVar("H", bound=Harness)
SOON_S = 10.0


def on_stores(test: Callable[[H, Store, Store], Awaitable[None]]) -> Callable[[H, Path], None]:
    """Make a test of `async def test_…(self, one, other)`, two masters' stores over one state."""

    def run(self: H, tmp_path: Path) -> None:
        async def scenario() -> None:
            async with asyncio.timeout(DEADLINE_S), AsyncExitStack() as stack:
                stores = [self.make_store(tmp_path) for _ in range(2)]
                for store in stores:
                    await stack.enter_async_context(_opened(store))
                await test(self, *stores)

        asyncio.run(scenario())

    run.__name__ = run.__qualname__ = test.__name__
    run.__doc__ = test.__doc__
    return run


@asynccontextmanager
async def _opened(store: Store) -> AsyncIterator[Store]:
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def wait_for_lead(store: Store, leader: str) -> int:
    """Wait until the lead is won, and return the epoch."""
    async with asyncio.timeout(SOON_S):
        while True:
            lead = await store.lead(leader)
            if lead is not None:
                return lead.epoch
            await asyncio.sleep(0.05)


async def hear(changes: AsyncIterator[int], upto: int) -> int:
    """Wait until the changes have reached this event number; return the newest number."""
    async with asyncio.timeout(SOON_S):
        async for newest in changes:
            if newest >= upto:
                return newest
    raise AssertionError(f"event {upto} was never told of")


class SharedStoreTests(Harness):
    """`make_store` called again with the same folder gives another master's store."""

    @on_stores
    async def test_one_of_two_masters_leads(self, one: Store, other: Store) -> None:
        leads = await asyncio.gather(one.lead("one"), other.lead("other"))
        assert sum(lead is not None for lead in leads) == 1
        (winner,) = [name for name, lead in zip(("one", "other"), leads, strict=True) if lead]
        for store in (one, other):
            assert (await store.leadership()).leader == winner

    @on_stores
    async def test_the_other_leads_when_the_leader_resigns(self, one: Store, other: Store) -> None:
        lead = await one.lead("one")
        assert lead is not None
        assert await other.lead("other") is None
        await lead.resign()
        epoch = await wait_for_lead(other, "other")
        assert epoch == lead.epoch + 1
        assert await one.lead("one") is None
        await lead.resign()
        assert await one.lead("one") is None, "who does not lead any more resigns for nobody"

    @on_stores
    async def test_the_other_leads_when_the_leader_closes(self, one: Store, other: Store) -> None:
        await take_lead(one, "one")
        assert await other.lead("other") is None
        await one.close()
        await wait_for_lead(other, "other")

    @on_stores
    async def test_changes_of_a_former_leader_are_refused(self, one: Store, other: Store) -> None:
        first = await one.lead("one")
        assert first is not None
        await must(one, Change(tasks=(make_task(1),), epoch=first.epoch))
        await first.resign()
        second = await wait_for_lead(other, "other")
        refusal = await commit_one(one, Change(tasks=(make_task(2),), epoch=first.epoch))
        assert is_refused(refusal, RefusalKind.EPOCH, str(second))
        await must(other, Change(tasks=(make_task(2),), epoch=second))

    @on_stores
    async def test_each_hears_of_what_the_other_commits(self, one: Store, other: Store) -> None:
        at_one, at_other = one.changes(), other.changes()
        for number in range(1, 6):
            await must(one, Change(tasks=(make_task(number),), events=(make_event(),)))
            assert await hear(at_other, number * 2 - 1) == number * 2 - 1
            await must(other, Change(events=(make_event(),)))
            assert await hear(at_one, number * 2) == number * 2

    @on_stores
    async def test_what_was_committed_before_is_told_of(self, one: Store, other: Store) -> None:
        await must(one, Change(events=(make_event(), make_event())))
        assert await hear(other.changes(), 2) == 2

    @on_stores
    async def test_what_is_told_of_can_be_read(self, one: Store, other: Store) -> None:
        changes = other.changes()
        for number in range(1, 30):
            await must(one, Change(tasks=(make_task(number),), events=(make_event(),)))
            newest = await hear(changes, number)
            assert [each.seq for each in await other.events(after=newest - 1, limit=5)] == [newest]

    @on_stores
    async def test_heartbeats_wake_nobody(self, one: Store, other: Store) -> None:
        changes = other.changes()
        await must(one, Change(sessions=(make_session(),), events=(make_event(),)))
        await hear(changes, 1)
        told = asyncio.ensure_future(anext(changes))
        for version in range(2, 12):
            await must(one, Change(sessions=(make_session(version=version),)))
        await asyncio.sleep(0.2)
        assert not told.done()
        await must(one, Change(events=(make_event(),)))
        assert await asyncio.wait_for(told, SOON_S) == 2
