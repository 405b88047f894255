"""Holders: renewal in the background, and hearing of the end before it comes."""

import asyncio
import time
from pathlib import Path

import pytest

from crawlfleet.errors import LockBusy, LockLost, LocksUnavailable
from crawlfleet.model.wire.locks import LockHold, LockOccupied
from crawlfleet.ports.locks import Locks
from crawlfleet.testing.lock_suite.harness import (
    LEASE_S,
    LockHarness,
    held_by,
    must_take,
    on_locks,
)
from crawlfleet.worker.executor.locks import HeldLock


class CutLocks:
    """Locks whose renewals are lost."""

    def __init__(self, locks: Locks) -> None:
        self.is_cut = False
        self.take, self.release, self.look = locks.take, locks.release, locks.look
        self.open, self.close = locks.open, locks.close
        self._locks = locks

    async def renew(self, hold: LockHold) -> bool:
        if self.is_cut:
            raise LocksUnavailable("the line is cut")
        return await self._locks.renew(hold)


class HolderTests(LockHarness):
    @on_locks
    async def test_lock_is_kept_while_the_block_runs_and_free_after_it(
        self, locks: Locks, folder: Path
    ) -> None:
        async with held_by(locks, "a") as lock:
            assert lock.is_held
            assert lock.token > 0
            assert 0.0 < lock.remaining_s < LEASE_S
            await asyncio.sleep(1.5 * LEASE_S)
            lock.check()
            assert isinstance(await locks.take("door", "b", 1.0), LockOccupied)
        assert not lock.is_held
        assert await locks.look("door") is None

    @on_locks
    async def test_lock_is_free_after_a_block_that_fails(self, locks: Locks, folder: Path) -> None:
        with pytest.raises(ZeroDivisionError):
            async with held_by(locks, "a"):
                raise ZeroDivisionError
        assert await locks.look("door") is None

    @on_locks
    async def test_who_waits_gets_it_when_it_is_released(self, locks: Locks, folder: Path) -> None:
        order: list[str] = []

        async def work(name: str) -> int:
            async with held_by(locks, name, lease_s=30.0) as lock:
                order.append(f"{name} in")
                await asyncio.sleep(0.02)
                order.append(f"{name} out")
                return lock.token

        tokens = await asyncio.gather(*(work(f"w{n}") for n in range(6)))
        assert len(set(tokens)) == 6
        for entered, left in zip(order[::2], order[1::2], strict=True):
            assert (entered.split()[0], left.split()[1]) == (left.split()[0], "out")

    @on_locks
    async def test_who_will_not_wait_long_is_told_who_has_it(
        self, locks: Locks, folder: Path
    ) -> None:
        await must_take(locks, "the-other")
        with pytest.raises(LockBusy, match="the-other"):
            async with held_by(locks, "a", wait_s=0.1):
                raise AssertionError("two have it")

    @on_locks
    async def test_holder_that_cannot_renew_is_told_before_its_lease_is_over(
        self, locks: Locks, folder: Path
    ) -> None:
        cut = CutLocks(locks)
        still_held: LockOccupied | None = None
        lock = HeldLock(cut, "door", holder="a", lease_s=LEASE_S * 2)
        with pytest.raises(LockLost, match="the line is cut"):  # noqa: PT012
            async with lock:
                cut.is_cut = True
                try:
                    await asyncio.sleep(60.0)
                finally:
                    assert not lock.is_held
                    still_held = await locks.look("door")
        assert still_held is not None, "told too late: it was somebody else's to take already"
        assert still_held.holder == "a"

    @on_locks
    async def test_holder_whose_lock_is_another_s_is_told_at_the_next_renewal(
        self, locks: Locks, folder: Path
    ) -> None:
        with pytest.raises(LockLost, match="somebody else"):  # noqa: PT012
            async with held_by(locks, "a") as lock:
                mine = LockHold(name="door", holder="a", token=lock.token, lease_s=LEASE_S)
                assert await locks.release(mine)
                await must_take(locks, "b")
                await asyncio.sleep(60.0)
        seen = await locks.look("door")
        assert seen is not None
        assert seen.holder == "b", "leaving must not release what is another's"

    @on_locks
    async def test_being_cancelled_inside_is_no_loss(self, locks: Locks, folder: Path) -> None:
        inside = asyncio.Event()

        async def work() -> None:
            async with held_by(locks, "a"):
                inside.set()
                await asyncio.sleep(60.0)

        task = asyncio.create_task(work())
        await inside.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await locks.look("door") is None

    @on_locks
    async def test_holder_that_blocked_its_own_loop_hears_of_it(
        self, locks: Locks, folder: Path
    ) -> None:
        """Renewals need the event loop; the clock goes on without it."""
        skipped_s = 0.0
        with pytest.raises(LockLost):  # noqa: PT012
            lock = HeldLock(
                locks,
                "door",
                holder="a",
                lease_s=LEASE_S,
                clock=lambda: time.monotonic() + skipped_s,
            )
            async with lock:
                skipped_s = LEASE_S
                assert not lock.is_held
                lock.check()
