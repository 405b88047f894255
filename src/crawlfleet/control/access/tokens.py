"""Secrets: made from 256 random bits, shown once, and kept as a hash only."""

import hashlib
from typing import Final

from crawlfleet.ports.system import System

SECRET_BYTES: Final = 32


def make_secret(system: System) -> str:
    """A new secret: 64 hex characters."""
    return system.entropy(SECRET_BYTES).hex()


def csrf_token(session_hash: str) -> str:
    """What only a page that may read our answers knows of the session with this hash."""
    return hash_secret(f"csrf:{session_hash}")


def hash_secret(secret: str) -> str:
    """How a secret is stored."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
