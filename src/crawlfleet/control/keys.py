"""Who is calling: secrets are shown once, stored as hashes, and compared in constant time.

Secrets are 256 random bits, so a plain SHA-256 is enough to store them: there is nothing to guess.
"""

import hashlib
import hmac
from typing import Final

import msgspec

from crawlfleet.control.state import FleetState
from crawlfleet.errors import Unauthenticated
from crawlfleet.model.change import Change
from crawlfleet.model.ids import KEY, make_id
from crawlfleet.model.key import ApiKey, Role
from crawlfleet.ports.system import System

SECRET_BYTES: Final = 32


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """The caller: its role, its name in the audit trail, and its node if it is one."""

    role: Role
    name: str
    node_id: str | None = None


class Keys:
    """Makes and checks the keys of people, programs and nodes."""

    def __init__(self, *, state: FleetState, system: System) -> None:
        self._state = state
        self._system = system

    async def ensure(self, secret: str, *, name: str, role: Role) -> None:
        """Make this secret a valid key; nothing happens when it already is one."""
        digest = hash_secret(secret)
        known = self._state.keys.get(digest)
        if known is not None and known.role is role:
            return
        now = self._system.now()
        key = ApiKey(
            id=make_id(KEY, now, self._system.entropy),
            name=name,
            role=role,
            secret_hash=digest,
            created_at=now,
        )
        await self._state.commit([Change(keys=(key,))])

    def new_secret(self) -> str:
        """64 hex characters that nobody can guess."""
        return self._system.entropy(SECRET_BYTES).hex()

    def authenticate(self, secret: str) -> Principal:
        """Who holds this secret; raises `Unauthenticated` if nobody does (any more)."""
        digest = hash_secret(secret)
        key = self._state.keys.get(digest)
        if key is not None and hmac.compare_digest(key.secret_hash, digest):
            if key.revoked_at is not None:
                raise Unauthenticated(f"the key {key.name!r} was revoked")
            if key.expires_at is not None and key.expires_at <= self._system.now():
                raise Unauthenticated(f"the key {key.name!r} has expired")
            return Principal(role=key.role, name=key.name)
        node = self._state.node_by_token(digest)
        if node is not None and hmac.compare_digest(node.token_hash, digest):
            return Principal(role=Role.NODE, name=node.name, node_id=node.id)
        raise Unauthenticated("this key is not known here")


def hash_secret(secret: str) -> str:
    """How a secret is stored."""
    return hashlib.sha256(secret.encode()).hexdigest()
