"""State of one key in the fleet's politeness ledger. Times are of the ledger's own clock."""

import math
from typing import Final

import msgspec

USER_S: Final = 15.0
"""Time after which a user that has not asked again is dropped, with its delay."""


class User(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A crawl that asked for a key recently."""

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
    """Time by which its requests have ended, whatever happened."""
    is_returned: bool = False
    """True if its last start is known and counted: the window was returned or has ended."""


class LedgerTurn(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A waiting request for a key: its user and host, when it began to wait, and its last request.

    The order is the same for all keys of a request, so that the first in the queue gets all of
    them.
    """

    since: float
    name: str
    host: str
    asked_at: float


class LedgerEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The ledger's state of one key."""

    users: tuple[User, ...] = ()
    holds: tuple[LedgerHold, ...] = ()
    queue: tuple[LedgerTurn, ...] = ()
    next_at: float = 0.0
    """Earliest start of the next request, according to the holders of windows."""
    last_at: float = -math.inf
    """Start of the last request, as far as it is known."""
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
