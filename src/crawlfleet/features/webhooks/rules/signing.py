"""Signatures of what is sent to others: who has the secret can tell that it comes from us.

What is signed is the moment of sending and the body. A receiver refuses what is older than a few
minutes, so that nobody can play an old message again, and knows what it has by the delivery's id.
"""

import hmac
from collections.abc import Sequence
from typing import Final

SCHEME: Final = "v1"


def signature(secrets: Sequence[str], timestamp: int, body: bytes) -> str:
    """The value of the header: one part for each secret, parted by commas."""
    return ",".join(f"{SCHEME}={_digest(secret, timestamp, body)}" for secret in secrets)


def is_signed(header: str, secret: str, timestamp: int, body: bytes) -> bool:
    """Whether one of the parts of a header is that of the secret; compared in constant time."""
    wanted = f"{SCHEME}={_digest(secret, timestamp, body)}".encode()
    parts = [part.strip().encode() for part in header.split(",")]
    return any(hmac.compare_digest(part, wanted) for part in parts)


def _digest(secret: str, timestamp: int, body: bytes) -> str:
    message = f"{timestamp}.".encode() + body
    return hmac.new(secret.encode(), message, "sha256").hexdigest()
