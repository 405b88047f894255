"""Tests of locks that are held when their process ends."""

from pathlib import Path

from crawlfleet.model.wire.locks import LockOccupied
from crawlfleet.ports.locks import Locks
from crawlfleet.testing.lock_suite.harness import LockHarness, must_take, on_locks


class LockRestartTests(LockHarness):
    @on_locks
    async def test_holds_and_tokens_are_there_after_a_restart(
        self, locks: Locks, folder: Path
    ) -> None:
        hold = await must_take(locks, "a")
        await locks.close()
        again = self.make_locks(folder)
        await again.open()
        try:
            found = await again.take("door", "b", 60.0)
            assert isinstance(found, LockOccupied)
            assert found.token == hold.token
            assert await again.renew(hold)
            assert await again.release(hold)
            assert (await must_take(again, "b")).token > hold.token
        finally:
            await again.close()

    @on_locks
    async def test_two_users_of_the_same_place_see_the_same_locks(
        self, locks: Locks, folder: Path
    ) -> None:
        other = self.make_locks(folder)
        await other.open()
        try:
            hold = await must_take(locks, "a")
            assert isinstance(await other.take("door", "b", 60.0), LockOccupied)
            assert await locks.release(hold)
            assert (await must_take(other, "b")).token > hold.token
        finally:
            await other.close()
