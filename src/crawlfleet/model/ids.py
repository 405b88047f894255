"""Identifiers: a prefix that names the kind, and a time-ordered, unguessable body.

The body is 25 lower-case base-32 characters: 45 bits of milliseconds (good until the year 3084)
and 80 random bits. Sorting ids sorts by time of creation; nobody can guess a neighbour.
"""

from collections.abc import Callable
from typing import Final

ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"
"""In the order of their codes, so that text sorts like the number; without i, l, o and u."""
_PAIRS: Final = tuple(high + low for high in ALPHABET for low in ALPHABET)
BODY_LENGTH: Final = 25
RANDOM_BITS: Final = 80

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

Entropy = Callable[[int], bytes]
"""Returns as many random bytes as asked for; `secrets.token_bytes`, or a seeded one."""


def make_id(prefix: str, now: float, entropy: Entropy) -> str:
    """A new id of the kind `prefix`, made at `now` (seconds since the epoch)."""
    number = int(now * 1000) << RANDOM_BITS | int.from_bytes(entropy(RANDOM_BITS // 8), "big")
    pairs = _PAIRS
    return "".join(
        [
            prefix,
            "-",
            ALPHABET[number >> 120 & 31],
            pairs[number >> 110 & 1023],
            pairs[number >> 100 & 1023],
            pairs[number >> 90 & 1023],
            pairs[number >> 80 & 1023],
            pairs[number >> 70 & 1023],
            pairs[number >> 60 & 1023],
            pairs[number >> 50 & 1023],
            pairs[number >> 40 & 1023],
            pairs[number >> 30 & 1023],
            pairs[number >> 20 & 1023],
            pairs[number >> 10 & 1023],
            pairs[number & 1023],
        ]
    )
