"""Locks that hold across processes and machines, with fencing.

A lock alone protects nothing: its holder may be stopped for a minute and go on as if nothing had
happened. So there are three lines of defence. A hold ends by itself (`lease_s`), by the clock of
whoever keeps the locks. Its holder is told *before* that, by a clock of its own that no setting
of the time can move. And each hold has a token that only grows, for those who must be certain:
what is guarded compares it with the highest it has seen, and refuses a lower one.
"""

from types import TracebackType
from typing import Protocol, Self

from crawlfleet.model.wire.locks import LockHold, LockOccupied


class LockSource(Protocol):
    """Who gives out locks. Every method may raise `LocksUnavailable` with the outcome unknown;
    asking again is safe."""

    async def take(self, name: str, holder: str, lease_s: float) -> LockHold | LockOccupied:
        """Hold the name for so long; or how it is occupied.

        A `holder` names one hold and not a person: it is never used for another. Who holds it
        already, and asks again since no answer came, has the same token and a lease begun anew.
        """
        ...

    async def renew(self, hold: LockHold) -> bool:
        """Begin the lease anew; whether it was still held. A hold that has ended stays ended."""
        ...

    async def release(self, hold: LockHold) -> bool:
        """Give it up; whether it was still held. May be called twice."""
        ...


class Locks(LockSource, Protocol):
    """Where locks are kept."""

    async def open(self) -> None:
        """Make ready what they are kept in. May be called twice."""
        ...

    async def close(self) -> None:
        """Let go of connections; holds stay. May be called twice."""
        ...

    async def look(self, name: str) -> LockOccupied | None:
        """Who has it; `None` when nobody does."""
        ...


class Lock(Protocol):
    """A lock as its holder sees it: entered when it is held, and renewed until it is left.

        async with context.lock("price-list") as lock:
            await upload(lines, fence=lock.token)

    When it can no longer be sure of the lease, the block is cancelled and `LockLost` raised from
    it: before the lease is over by the clock of the holder. A process that was stopped meanwhile
    may take one more step before it hears; who is about to do what cannot be undone calls `check`
    first, and passes the token on to whoever can compare it.
    """

    @property
    def name(self) -> str: ...

    @property
    def token(self) -> int:
        """The fencing token. Raises `LockLost` when the lock was never held."""
        ...

    @property
    def is_held(self) -> bool:
        """Whether it is certainly held at this moment."""
        ...

    @property
    def remaining_s(self) -> float:
        """For how long it is certainly held if no renewal comes through; 0 when it is not."""
        ...

    def check(self) -> None:
        """Raise `LockLost` unless it is certainly held at this moment."""
        ...

    async def __aenter__(self) -> Self:
        """Wait for it. Raises `LockBusy` when that takes longer than the holder would wait."""
        ...

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None: ...
