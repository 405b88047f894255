"""Locks that hold across processes and machines, with fencing.

A lock alone protects nothing: its holder may be stopped for a minute and go on as if nothing had
happened. So there are three lines of defence. A hold ends by itself (`lease_s`), by the clock of
the lock store. Its holder is warned *before* that, by a clock of its own that setting the time does
not move. And each hold has a token that only grows, for callers that must be certain: the guarded
resource compares it with the highest token it has seen, and refuses a lower one.
"""

from types import TracebackType
from typing import Protocol, Self

from crawlfleet.model.wire.locks import LockHold, LockOccupied


class LockSource(Protocol):
    """Grants locks. Every method may raise `LocksUnavailable` with the outcome unknown; calling
    again is safe.
    """

    async def take(self, name: str, holder: str, lease_s: float) -> LockHold | LockOccupied:
        """Take the lock for so long; returns the hold, or how the lock is occupied.

        A `holder` names one hold and not a person: it is never used for another. A holder that has
        the lock already, and calls again since no answer came, gets the same token and a new lease.
        """
        ...

    async def renew(self, hold: LockHold) -> bool:
        """Begin the lease anew; returns whether the lock was still held. A hold that has ended
        stays ended.
        """
        ...

    async def release(self, hold: LockHold) -> bool:
        """Release the lock; returns whether it was still held. May be called twice."""
        ...


class Locks(LockSource, Protocol):
    """Stores locks."""

    async def open(self) -> None:
        """Prepare the storage. May be called twice."""
        ...

    async def close(self) -> None:
        """Close connections; holds stay. May be called twice."""
        ...

    async def look(self, name: str) -> LockOccupied | None:
        """Return how the lock is occupied; `None` when it is free."""
        ...


class Lock(Protocol):
    """A lock for its holder: held when the block is entered, and renewed until it is left.

        async with context.lock("price-list") as lock:
            await upload(lines, fence=lock.token)

    When the lock can no longer be sure of its lease, the block is cancelled and raises `LockLost`:
    before the lease is over by the holder's clock. A process that was stopped meanwhile may take
    one more step before that; before a step that cannot be undone, call `check`, and pass the token
    to the resource if it can compare tokens.
    """

    @property
    def name(self) -> str: ...

    @property
    def token(self) -> int:
        """The fencing token. Raises `LockLost` when the lock was never held."""
        ...

    @property
    def is_held(self) -> bool:
        """True if the lock is certainly held at this moment."""
        ...

    @property
    def remaining_s(self) -> float:
        """Seconds for which the lock is certainly held if no renewal comes through; 0 when it is
        not held.
        """
        ...

    def check(self) -> None:
        """Raise `LockLost` unless the lock is certainly held at this moment."""
        ...

    async def __aenter__(self) -> Self:
        """Wait for the lock. Raises `LockBusy` when that takes longer than allowed."""
        ...

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None: ...
