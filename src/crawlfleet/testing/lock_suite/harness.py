"""Runs a test that is a coroutine on fresh locks; and something to guard by them."""

import asyncio
import fcntl
from collections.abc import Awaitable, Callable
from importlib import import_module
from pathlib import Path
from typing import ClassVar, TypeVar, cast

from crawlfleet.model.wire.locks import LockHold
from crawlfleet.ports.locks import Locks
from crawlfleet.worker.executor.locks import HeldLock

DEADLINE_S = 120.0
LEASE_S = 2.0
"""Short enough to wait for, long enough for a busy machine."""


ROUNDS = 25
"""Number of times that each racing process takes the lock."""


class LockHarness:
    """Base of test classes; a backend's class describes its locks in these attributes."""

    make: ClassVar[str] = ""
    """`package.module:function` that makes them of a URL, also in another process."""

    def url(self, folder: Path) -> str:
        """Return the URL of the locks of this folder."""
        return ""

    def make_locks(self, folder: Path) -> Locks:
        """Locks that are not open yet."""
        return made(self.make, self.url(folder))

    def leap(self, folder: Path, seconds: float) -> None:
        """Set the clock that leases go by forward, or back where that is below zero."""
        raise NotImplementedError


H = TypeVar("H", bound=LockHarness)


def made(factory: str, url: str) -> Locks:
    """The locks that a factory makes of a URL."""
    module, _, name = factory.partition(":")
    return cast("Locks", getattr(import_module(module), name)(url))


def on_locks(test: Callable[[H, Locks, Path], Awaitable[None]]) -> Callable[[H, Path], None]:
    """Make a test of `async def test_…(self, locks, folder)`."""

    def run(self: H, tmp_path: Path) -> None:
        async def scenario() -> None:
            locks = self.make_locks(tmp_path)
            async with asyncio.timeout(DEADLINE_S):
                await locks.open()
                try:
                    await test(self, locks, tmp_path)
                finally:
                    await locks.close()

        asyncio.run(scenario())

    run.__name__ = run.__qualname__ = test.__name__
    run.__doc__ = test.__doc__
    return run


async def must_take(
    locks: Locks, holder: str, lease_s: float = 60.0, name: str = "door"
) -> LockHold:
    """Take a lock that must be free."""
    hold = await locks.take(name, holder, lease_s)
    assert isinstance(hold, LockHold), f"{hold.holder} has it"
    return hold


def held_by(
    locks: Locks, holder: str, lease_s: float = LEASE_S, wait_s: float | None = 30.0
) -> HeldLock:
    return HeldLock(locks, "door", holder=holder, lease_s=lease_s, wait_s=wait_s)


class Guard:
    """A file that is written to under a lock and compares tokens, as fencing requires."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, token: int, word: str) -> bool:
        """Append a word unless a higher token was used before; return whether it was appended."""
        with self._path.open("a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            highest = max((int(line.split()[0]) for line in file), default=0)
            if token < highest:
                return False
            file.write(f"{token} {word}\n")
            return True

    def words(self) -> list[tuple[int, str]]:
        """All that was taken, in order, with the tokens."""
        if not self._path.exists():
            return []
        lines = (line.split() for line in self._path.read_text().splitlines())
        return [(int(token), word) for token, word in lines]
