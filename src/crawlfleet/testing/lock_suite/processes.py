"""Real processes: stopped beyond their lease, killed, racing; and many renewals at once."""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from crawlfleet.model.wire.locks import LockOccupied
from crawlfleet.ports.locks import Locks
from crawlfleet.testing.lock_suite.harness import (
    LEASE_S,
    ROUNDS,
    Guard,
    LockHarness,
    held_by,
    must_take,
    on_locks,
)
from crawlfleet.worker.executor.locks import HeldLock

HOLDER = "crawlfleet.testing.lock_suite.holder"
MANY = 40
RACERS = 3


class ProcessTests(LockHarness):
    @on_locks
    async def test_holder_stopped_beyond_its_lease_writes_no_more(
        self, locks: Locks, folder: Path
    ) -> None:
        """Checked by itself before it writes, and where it is careless by the token."""
        guard = Guard(folder / "guarded")
        for manner, last_word in (("careful", "lost"), ("careless", "refused")):
            async with self._holder(folder, manner) as process:
                assert (await _line(process))[0] == "held"
                await _go(process)
                assert await _line(process) == ["wrote"]
                os.kill(process.pid, signal.SIGSTOP)
                async with held_by(locks, f"after-{manner}", lease_s=30.0) as lock:
                    assert guard.write(lock.token, "parent")
                    os.kill(process.pid, signal.SIGCONT)
                    await _go(process)
                    assert await _line(process) == [last_word], manner
                    seen = await locks.look("door")
                    assert seen is not None
                    assert seen.token == lock.token
        tokens = [token for token, _ in guard.words()]
        assert tokens == sorted(tokens)

    @on_locks
    async def test_lock_of_a_killed_holder_is_free_after_its_lease(
        self, locks: Locks, folder: Path
    ) -> None:
        async with self._holder(folder, "careful") as process:
            token = int((await _line(process))[1])
            await asyncio.sleep(LEASE_S)  # it has renewed since
            assert isinstance(await locks.take("door", "b", 1.0), LockOccupied)
            process.kill()
            async with held_by(locks, "heir") as lock:
                assert lock.token > token

    @on_locks
    async def test_processes_that_race_never_meet(self, locks: Locks, folder: Path) -> None:
        async with asyncio.TaskGroup() as group:
            racers = [group.create_task(self._race(folder)) for _ in range(RACERS)]
        assert [racer.result() for racer in racers] == [["done"]] * RACERS
        assert int((folder / "count").read_text()) == RACERS * ROUNDS
        tokens = [token for token, _ in Guard(folder / "guarded").words()]
        assert len(tokens) == RACERS * ROUNDS
        assert tokens == sorted(set(tokens))

    @on_locks
    async def test_many_holders_renew_while_others_ask_without_pause(
        self, locks: Locks, folder: Path
    ) -> None:
        over = asyncio.Event()
        locks_are_held = [asyncio.Event() for _ in range(MANY)]
        refused = 0

        async def hold(number: int) -> None:
            lock = HeldLock(locks, f"door-{number}", holder=f"h{number}", lease_s=2 * LEASE_S)
            async with lock:
                locks_are_held[number].set()
                await asyncio.sleep(3 * LEASE_S)
                lock.check()

        async def press(number: int) -> None:
            nonlocal refused
            while not over.is_set():
                found = await locks.take(f"door-{number}", "presser", 60.0)
                assert isinstance(found, LockOccupied)
                refused += 1
                await asyncio.sleep(0.05)

        async with asyncio.TaskGroup() as group:
            holders = [group.create_task(hold(number)) for number in range(MANY)]
            for number in range(MANY):
                await locks_are_held[number].wait()
            pressers = [group.create_task(press(number % MANY)) for number in range(MANY)]
            await asyncio.sleep(2.5 * LEASE_S)
            over.set()
            await asyncio.gather(*pressers, *holders)
        assert refused > MANY
        await must_take(locks, "b", name="door-0")

    async def _race(self, folder: Path) -> list[str]:
        async with self._holder(folder, "count") as process:
            return await _line(process)

    @asynccontextmanager
    async def _holder(self, folder: Path, manner: str) -> AsyncIterator[Process]:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            HOLDER,
            self.make,
            self.url(folder),
            manner,
            str(folder),
            stdin=PIPE,
            stdout=PIPE,
        )
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()


async def _line(process: Process) -> list[str]:
    assert process.stdout is not None
    return (await process.stdout.readline()).decode().split()


async def _go(process: Process) -> None:
    assert process.stdin is not None
    process.stdin.write(b".")
    await process.stdin.drain()
