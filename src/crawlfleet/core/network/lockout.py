"""Lockout of addresses that send wrong keys: a bucket that refills, and a lock that grows.

Each wrong key takes from the bucket of its address. When the bucket is empty, the address is locked
out, each time for twice as long. After a long time without a wrong key its lockout state is reset.
"""

from typing import Final

import msgspec

FIRST_LOCK_S: Final = 2.0
MAX_LOCK_S: Final = 300.0
FORGOTTEN_AFTER_S: Final = 3600.0
MINUTE_S: Final = 60.0


class LockoutStanding(msgspec.Struct, frozen=True, kw_only=True):
    """Lockout state of one address."""

    left: float
    """Number of wrong keys that the address may still send at once."""
    at: float
    """Time of the last wrong key."""
    locks: int = 0
    """Number of times that the address was locked out."""
    locked_until: float = 0.0


def after_wrong_key(
    before: LockoutStanding | None, *, per_minute: float, now: float
) -> LockoutStanding:
    """Return the lockout state of an address that has just sent a wrong key."""
    if before is None or now - before.at > FORGOTTEN_AFTER_S:
        before = LockoutStanding(left=per_minute, at=now)
    if before.locked_until > now:
        return before
    refilled = min(before.left + (now - before.at) * per_minute / MINUTE_S, per_minute)
    if refilled >= 1.0:
        return msgspec.structs.replace(before, left=refilled - 1.0, at=now)
    lock_s = min(FIRST_LOCK_S * 2.0**before.locks, MAX_LOCK_S)
    return LockoutStanding(left=refilled, at=now, locks=before.locks + 1, locked_until=now + lock_s)


def locked_for_s(standing: LockoutStanding | None, *, now: float) -> float:
    """Return the seconds until an address may try again; 0 when it is not locked out."""
    return 0.0 if standing is None else max(standing.locked_until - now, 0.0)
