"""Identifiers: a prefix for the kind, and a time-ordered, unguessable body.

The body is 25 lower-case base-32 characters: 45 bits of milliseconds (good until the year 3084) and
80 random bits. Sorting ids sorts by time of creation.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Final

ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"
"""Digits in the order of their character codes, so that ids sort like numbers; without i, l, o and
u."""
_LETTERS: Final = (ALPHABET * 8).encode("ascii")
"""The letter for each byte: eight bytes per letter, so that all letters are equally likely."""
BODY_LENGTH: Final = 25
RANDOM_LETTERS: Final = 16

PROJECT: Final = "proj"
CLUSTER: Final = "clus"
NODE: Final = "node"
SESSION: Final = "sess"
TASK: Final = "task"
EXECUTION: Final = "exec"
KEY: Final = "key"
JOINER: Final = "join"
AUDIT: Final = "audit"
BROWSER: Final = "web"
LINK: Final = "link"
SCHEDULE: Final = "sched"
WORKFLOW: Final = "flow"
RUN: Final = "run"
WEBHOOK: Final = "hook"
SILENCE: Final = "sil"
ALERT: Final = "alert"
MEASURED: Final = "meas"

Entropy = Callable[[int], bytes]
"""Returns the requested number of random bytes; `secrets.token_bytes`, or a seeded source."""


@lru_cache(maxsize=64)
def instant_digits(milliseconds: int) -> str:
    """Return the part of an id that encodes its time; cached, because thousands are made at
    once."""
    digits = (ALPHABET[milliseconds >> shift & 31] for shift in range(40, -1, -5))
    return "".join(digits)


def make_id(prefix: str, now: float, entropy: Entropy) -> str:
    """A new id of the kind `prefix`, made at `now` (seconds since the epoch)."""
    drawn = entropy(RANDOM_LETTERS).translate(_LETTERS).decode("ascii")
    return f"{prefix}-{instant_digits(int(now * 1000))}{drawn}"
