"""Secrets: made from 256 random bits, shown once, and kept as a hash only."""

import hashlib
from typing import Final

from crawlfleet.ports.system import System

SECRET_BYTES: Final = 32


def make_secret(system: System) -> str:
    """A new secret: 64 hex characters."""
    return system.entropy(SECRET_BYTES).hex()


def csrf_token(session_hash: str) -> str:
    """Return the CSRF token of a session: only a page that may read our responses knows it."""
    return hash_secret(f"csrf:{session_hash}")


def hash_secret(secret: str) -> str:
    """Return the hash under which a secret is stored."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
