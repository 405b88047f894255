"""Clocks that jump: leases may end early or late, tokens never go back."""

import asyncio
from pathlib import Path

import pytest

from crawlfleet.errors import LockLost
from crawlfleet.model.wire.locks import LockOccupied
from crawlfleet.ports.locks import Locks
from crawlfleet.testing.lock_suite.harness import LockHarness, held_by, must_take, on_locks

HOUR_S = 3600.0


class ClockTests(LockHarness):
    @on_locks
    async def test_clock_set_forward_ends_leases_and_the_holder_hears(
        self, locks: Locks, folder: Path
    ) -> None:
        with pytest.raises(LockLost):  # noqa: PT012
            async with held_by(locks, "a", lease_s=6.0) as lock:
                self.leap(folder, HOUR_S)
                other = await must_take(locks, "b")
                assert other.token > lock.token, "so what is guarded can tell them apart"
                await asyncio.sleep(60.0)

    @on_locks
    async def test_clock_set_back_does_not_keep_a_dead_holder_s_lock(
        self, locks: Locks, folder: Path
    ) -> None:
        old = await must_take(locks, "dead", 1.0)
        self.leap(folder, -HOUR_S)
        found = await locks.take("door", "b", 60.0)
        if isinstance(found, LockOccupied):
            assert found.free_in_s <= 1.01, "from now on by its lease, not by the clock before"
            await asyncio.sleep(1.2)
            found = await must_take(locks, "b")
        assert found.token > old.token

    @on_locks
    async def test_tokens_grow_over_every_jump(self, locks: Locks, folder: Path) -> None:
        tokens = []
        for number, seconds in enumerate((0.0, HOUR_S, -2 * HOUR_S, -HOUR_S, 10 * HOUR_S)):
            self.leap(folder, seconds)
            hold = await must_take(locks, f"holder-{number}", 60.0)
            tokens.append(hold.token)
            assert await locks.release(hold)
        assert tokens == sorted(set(tokens))
