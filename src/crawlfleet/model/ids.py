"""Identifiers: a prefix that names the kind, and a time-ordered, unguessable body.

The body is 25 lower-case base-32 characters: 45 bits of milliseconds (good until the year 3084)
and 80 random bits. Sorting ids sorts by time of creation; nobody can guess a neighbour.
"""

from base64 import b32encode
from collections.abc import Callable
from typing import Final

ALPHABET: Final = b"0123456789abcdefghjkmnpqrstvwxyz"
"""In the order of their codes, so that text sorts like the number; without i, l, o and u."""
_TO_ALPHABET: Final = bytes.maketrans(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", ALPHABET)
BODY_LENGTH: Final = 25
RANDOM_BITS: Final = 80

PROJECT: Final = "proj"
CLUSTER: Final = "clus"
NODE: Final = "node"
SESSION: Final = "sess"
TASK: Final = "task"
EXECUTION: Final = "exec"
KEY: Final = "key"

Entropy = Callable[[int], bytes]
"""Returns as many random bytes as asked for; `secrets.token_bytes`, or a seeded one."""


def make_id(prefix: str, now: float, entropy: Entropy) -> str:
    """A new id of the kind `prefix`, made at `now` (seconds since the epoch)."""
    number = int(now * 1000) << RANDOM_BITS | int.from_bytes(entropy(RANDOM_BITS // 8), "big")
    # 125 bits at the front of 16 bytes are exactly the first 25 characters.
    body = b32encode((number << 3).to_bytes(16, "big"))[:BODY_LENGTH]
    return f"{prefix}-{body.translate(_TO_ALPHABET).decode()}"
