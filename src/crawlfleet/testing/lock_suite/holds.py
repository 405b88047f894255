"""Holds: one at a time, with tokens that grow."""

import asyncio
from pathlib import Path

from crawlfleet.model.wire.locks import LockHold, LockOccupied
from crawlfleet.ports.locks import Locks
from crawlfleet.testing.lock_suite.harness import LockHarness, must_take, on_locks


class HoldTests(LockHarness):
    @on_locks
    async def test_lock_is_held_by_one_at_a_time(self, locks: Locks, folder: Path) -> None:
        hold = await must_take(locks, "a")
        assert (hold.name, hold.holder, hold.lease_s) == ("door", "a", 60.0)
        assert hold.token > 0
        other = await locks.take("door", "b", 60.0)
        assert isinstance(other, LockOccupied)
        assert (other.holder, other.token) == ("a", hold.token)
        assert 50.0 < other.free_in_s <= 60.0

    @on_locks
    async def test_locks_of_other_names_are_free(self, locks: Locks, folder: Path) -> None:
        await must_take(locks, "a", name="door")
        await must_take(locks, "b", name="window")
        await must_take(locks, "c", name="door' OR 1=1 -- {} 门")

    @on_locks
    async def test_look_tells_who_has_it(self, locks: Locks, folder: Path) -> None:
        assert await locks.look("door") is None
        hold = await must_take(locks, "a")
        seen = await locks.look("door")
        assert seen is not None
        assert (seen.holder, seen.token) == ("a", hold.token)
        await locks.release(hold)
        assert await locks.look("door") is None

    @on_locks
    async def test_released_lock_is_free_and_its_next_token_higher(
        self, locks: Locks, folder: Path
    ) -> None:
        tokens = []
        for number in range(20):
            hold = await must_take(locks, f"holder-{number}")
            tokens.append(hold.token)
            assert await locks.release(hold)
        assert tokens == sorted(set(tokens))

    @on_locks
    async def test_taking_again_as_the_same_holder_gives_the_same_token(
        self, locks: Locks, folder: Path
    ) -> None:
        """The answer to the first may have been lost."""
        first = await must_take(locks, "a", 2.0)
        again = await must_take(locks, "a", 60.0)
        assert again.token == first.token
        seen = await locks.look("door")
        assert seen is not None
        assert seen.free_in_s > 50.0

    @on_locks
    async def test_renewed_lock_is_held_beyond_its_first_lease(
        self, locks: Locks, folder: Path
    ) -> None:
        hold = await must_take(locks, "a", 1.5)
        for _ in range(4):
            await asyncio.sleep(0.5)
            assert await locks.renew(hold)
        assert isinstance(await locks.take("door", "b", 1.0), LockOccupied)

    @on_locks
    async def test_lease_that_is_over_can_be_taken_and_not_renewed(
        self, locks: Locks, folder: Path
    ) -> None:
        old = await must_take(locks, "a", 0.2)
        await asyncio.sleep(0.3)
        assert await locks.look("door") is None
        assert not await locks.renew(old), "it is over, though nobody else has it"
        new = await must_take(locks, "b")
        assert new.token > old.token
        assert not await locks.renew(old)
        assert not await locks.release(old)
        assert await locks.renew(new), "what the old holder said had no effect"

    @on_locks
    async def test_release_may_be_said_twice(self, locks: Locks, folder: Path) -> None:
        hold = await must_take(locks, "a")
        assert await locks.release(hold)
        assert not await locks.release(hold)
        assert not await locks.renew(hold)

    @on_locks
    async def test_of_many_that_ask_at_once_one_gets_it(self, locks: Locks, folder: Path) -> None:
        for number in range(5):
            answers = await asyncio.gather(
                *(locks.take(f"door-{number}", f"holder-{n}", 60.0) for n in range(20))
            )
            assert sum(isinstance(each, LockHold) for each in answers) == 1
