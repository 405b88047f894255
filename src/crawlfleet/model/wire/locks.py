"""A lock as it is held, and what an execution says about one to the master."""

from enum import StrEnum
from typing import Annotated, Final

import msgspec

SHORTEST_LEASE_S: Final = 1.0
LONGEST_LEASE_S: Final = 3600.0
MOST_NAME_CHARS: Final = 200


class LockHold(msgspec.Struct, frozen=True, kw_only=True):
    """The right to a name, for a while."""

    name: str
    holder: str
    token: int
    """Higher than that of any hold of this name before: whoever guards something by this lock
    refuses a token that is lower than the highest it has seen."""
    lease_s: float
    """For how long from when it was asked for; a renewal begins it anew."""


class LockOccupied(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody else has it."""

    holder: str
    token: int
    free_in_s: float
    """After so long it is free, unless it is renewed."""


class LockVerb(StrEnum):
    TAKE = "take"
    RENEW = "renew"
    RELEASE = "release"


class LockRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an execution wants of a lock; may be said again when no answer came."""

    verb: LockVerb
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=MOST_NAME_CHARS)]
    number: int
    """Which of its holds; an execution numbers them as it takes them."""
    lease_s: Annotated[float, msgspec.Meta(ge=SHORTEST_LEASE_S, le=LONGEST_LEASE_S)] = 30.0
    token: int = 0
    """Of the hold to renew or release."""


class LockReply(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What came of it."""

    done: bool
    """Whether it is held (`take`, `renew`), or was until now (`release`)."""
    token: int = 0
    holder: str = ""
    """Who has it, where that is somebody else."""
    free_in_s: float = 0.0
