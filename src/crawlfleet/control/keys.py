"""Who is calling: secrets are shown once, stored as hashes, and compared in constant time.

Secrets are 256 random bits, so a plain SHA-256 is enough to store them: there is nothing to guess.
"""

import hashlib
import hmac

import msgspec

from crawlfleet.control.state import FleetState
from crawlfleet.errors import Unauthenticated
from crawlfleet.model.change import Change
from crawlfleet.model.event import Event
from crawlfleet.model.ids import KEY, make_id
from crawlfleet.model.key import ApiKey, Role
from crawlfleet.ports.system import System


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
        """Make this secret the only valid key of that name; earlier ones are revoked."""
        digest = hash_secret(secret)
        now = self._system.now()
        earlier = [
            key
            for key in self._state.keys.values()
            if key.name == name and key.revoked_at is None and key.secret_hash != digest
        ]
        changes = [_told(_revoked(key, now), "revoked", now) for key in earlier]
        known = self._state.keys.get(digest)
        if known is None:
            key = ApiKey(
                id=make_id(KEY, now, self._system.entropy),
                name=name,
                role=role,
                secret_hash=digest,
                created_at=now,
            )
            changes.append(_told(key, "made", now))
        elif known.revoked_at is not None or known.role is not role:
            valid = msgspec.structs.replace(
                known, name=name, role=role, revoked_at=None, version=known.version + 1
            )
            changes.append(_told(valid, "renewed", now))
        await self._state.commit(changes)

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
            # By its id: a node chooses its own name, and may choose another's.
            return Principal(role=Role.NODE, name=node.id, node_id=node.id)
        raise Unauthenticated("this key is not known here")


def _revoked(key: ApiKey, now: float) -> ApiKey:
    return msgspec.structs.replace(key, revoked_at=now, version=key.version + 1)


def _told(key: ApiKey, what: str, now: float) -> Change:
    """A key and the event by which other masters learn of it."""
    event = Event(kind=f"key.{what}", subject=key.id, at=now, cause="named when the master started")
    return Change(keys=(key,), events=(event,))


def hash_secret(secret: str) -> str:
    """How a secret is stored."""
    return hashlib.sha256(secret.encode()).hexdigest()
