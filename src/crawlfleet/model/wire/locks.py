"""Locks: a held lock, and requests of executions to the master."""

from enum import StrEnum
from typing import Annotated, Final

import msgspec

SHORTEST_LEASE_S: Final = 1.0
MAX_LEASE_S: Final = 3600.0
MAX_NAME_CHARS: Final = 200


class LockHold(msgspec.Struct, frozen=True, kw_only=True):
    """A lock that is held for a limited time."""

    name: str
    holder: str
    token: int
    """Fencing token, higher than that of any earlier hold of this name. Code that is protected by
    the lock must refuse a token that is lower than the highest it has seen."""
    lease_s: float
    """Length of the lease in seconds from the request; a renewal starts it again."""


class LockOccupied(msgspec.Struct, frozen=True, kw_only=True):
    """The answer when another holder has the lock."""

    holder: str
    token: int
    free_in_s: float
    """Seconds until the lock is free, unless it is renewed."""


class LockVerb(StrEnum):
    TAKE = "take"
    RENEW = "renew"
    RELEASE = "release"


class LockRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An execution's request for a lock; it may be sent again when no answer came."""

    verb: LockVerb
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_NAME_CHARS)]
    number: int
    """Number of the hold; an execution numbers its holds in order."""
    lease_s: Annotated[float, msgspec.Meta(ge=SHORTEST_LEASE_S, le=MAX_LEASE_S)] = 30.0
    token: int = 0
    """Token of the hold to renew or release."""


class LockReply(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of a lock request."""

    done: bool
    """True if the lock is held (`take`, `renew`), or was held until now (`release`)."""
    token: int = 0
    holder: str = ""
    """Present holder, where it is another one."""
    free_in_s: float = 0.0
