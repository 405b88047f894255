"""Signatures of deliveries: a receiver with the secret can verify that this fleet sent them.

The signature covers the time of sending and the body. A receiver refuses messages that are older
than a few minutes, so that none can be replayed, and detects repeats by the delivery's id.
"""

import hmac
from collections.abc import Sequence
from typing import Final

SCHEME: Final = "v1"


def signature(secrets: Sequence[str], timestamp: int, body: bytes) -> str:
    """The value of the header: one part for each secret, parted by commas."""
    return ",".join(f"{SCHEME}={_digest(secret, timestamp, body)}" for secret in secrets)


def is_signed(header: str, secret: str, timestamp: int, body: bytes) -> bool:
    """Return true if one part of a header is the signature by the secret. The comparison takes
    constant time."""
    wanted = f"{SCHEME}={_digest(secret, timestamp, body)}".encode()
    parts = [part.strip().encode() for part in header.split(",")]
    return any(hmac.compare_digest(part, wanted) for part in parts)


def _digest(secret: str, timestamp: int, body: bytes) -> str:
    message = f"{timestamp}.".encode() + body
    return hmac.new(secret.encode(), message, "sha256").hexdigest()
