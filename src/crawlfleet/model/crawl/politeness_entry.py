"""What the fleet's politeness ledger remembers of a key. Times are those of its keeper's clock."""

import math
from typing import Final

import msgspec

USER_S: Final = 15.0
"""Who has not asked for so long counts no longer, with the delay that it wanted."""


class User(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Who asked for a key lately."""

    name: str
    asked_at: float
    delay_s: float
    concurrency: int

    @property
    def until(self) -> float:
        """When it counts no longer, unless it asks again."""
        return self.asked_at + max(USER_S, 2 * self.delay_s)


class LedgerHold(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A window that was granted."""

    name: str
    until: float
    permits: int
    lingers_until: float
    """Its requests have ended by then, whatever happened to it."""
    is_returned: bool = False
    """Whether the last start is known, and counted."""


class LedgerTurn(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Who waits for a key and for the sake of which host, since when, and when it asked last.

    The order is the same for all keys of a want, so that the first of all who wait goes on.
    """

    since: float
    name: str
    host: str
    asked_at: float


class LedgerEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """All that the ledger knows of a key."""

    users: tuple[User, ...] = ()
    holds: tuple[LedgerHold, ...] = ()
    queue: tuple[LedgerTurn, ...] = ()
    next_at: float = 0.0
    """No request may start before then, by those that have."""
    last_at: float = -math.inf
    """When the last one started, as far as that is known."""
    paused_until: float = 0.0
    pause: str = ""

    @property
    def delay_s(self) -> float:
        return max((user.delay_s for user in self.users), default=0.0)

    @property
    def concurrency(self) -> int:
        return min((user.concurrency for user in self.users), default=1)

    @property
    def over_at(self) -> float:
        """When there is nothing left to remember."""
        ends = [hold.lingers_until for hold in self.holds]
        ends += [user.until for user in self.users]
        return max(self.paused_until, self.next_at, *ends, 0.0)
