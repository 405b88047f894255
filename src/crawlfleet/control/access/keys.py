"""The keys of people and programs, and join tokens: authentication, creation, rotation, revocation.

To authenticate costs one hash and one look-up. When and from where a key was last used is kept in
memory and saved every few seconds: it is shown to people, and not worth a commit of its own.
"""

import asyncio
import hmac
from collections.abc import Callable
from typing import Final

import msgspec

from crawlfleet.control.access.node_tokens import NodeTokens
from crawlfleet.control.access.tokens import hash_secret, make_secret
from crawlfleet.control.state.fleet_state import FleetState
from crawlfleet.core.access import keys as core
from crawlfleet.errors import (
    Conflict,
    InvalidRequest,
    NotFound,
    StoreUnavailable,
    Unauthenticated,
)
from crawlfleet.model.change import Change, Claim
from crawlfleet.model.event import Event
from crawlfleet.model.ids import JOINER, KEY, make_id
from crawlfleet.model.key import ApiKey, Role
from crawlfleet.model.requests import JoinTokenRequest, KeyRequest, RotateRequest
from crawlfleet.ports.store import Refusal
from crawlfleet.ports.system import System
from crawlfleet.telemetry import Component, logger

log = logger(Component.MASTER)
SAVE_EVERY_S: Final = 5.0
MAX_SECRET: Final = 512
_WHY: Final = {
    "revoked_key": "was revoked",
    "expired_key": "has expired",
    "rotated_key": "was rotated; use its new secret",
    "used_up": "is used up",
}


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """The caller: its role, its name in the audit trail, and its node if it is one."""

    role: Role
    name: str
    node_id: str | None = None
    key_id: str | None = None
    project_id: str | None = None
    """The only project that exists for the caller; all of them when not set."""
    is_guessable: bool = False
    """The key comes from the configuration, so a person may have chosen its secret."""
    secret_hash: str = ""
    """Hash of the key's secret that authenticated the caller, or opened the caller's session."""
    session_hash: str = ""
    """Hash of the session's own secret, if the caller authenticated with a browser session."""


class Keys:
    """Makes and checks the keys of people, programs and nodes."""

    def __init__(self, *, state: FleetState, system: System, tokens: NodeTokens) -> None:
        self._state = state
        self._system = system
        self._tokens = tokens
        self._used: dict[str, tuple[float, str]] = {}
        """Time and address of the last uses of keys that are not saved in the store yet."""
        self._news = asyncio.Event()

    async def ensure(self, secret: str, *, name: str, role: Role) -> None:
        """Make this secret the only valid key of that name; earlier ones are revoked."""

        async def decide() -> list[Change]:
            return self._ensuring(secret, name, role)

        if await self._state.decide_batch(decide):
            return
        raise Conflict(f"the key {name!r} is changing too quickly; start the master again")

    def _ensuring(self, secret: str, name: str, role: Role) -> list[Change]:
        digest = hash_secret(secret)
        now = self._system.now()
        changes = [
            _told(core.revoke(key, now=now), "revoked", now=now)
            for key in self._state.keyring.keys.values()
            if key.name == name
            and key.parent_id is None
            and key.revoked_at is None
            and digest not in key.hashes
        ]
        known = self._state.keyring.key(digest)
        wanted = ApiKey(
            id=known.id if known else make_id(KEY, now, self._system.entropy),
            name=name,
            role=role,
            secret_hash=digest,
            created_at=known.created_at if known else now,
            last_used_at=known.last_used_at if known else None,
            last_used_from=known.last_used_from if known else "",
            version=known.version if known else 1,
        )
        if known is None:
            changes.append(_told(wanted, "made", now=now))
        elif known != wanted:
            again = msgspec.structs.replace(wanted, version=known.version + 1)
            changes.append(_told(again, "renewed", now=now))
        return changes

    def authenticate(self, secret: str, *, address: str = "") -> Principal:
        """Return the caller with this secret; raises `Unauthenticated` unless it is valid.

        With an address, the use of the key is recorded.
        """
        if len(secret) > MAX_SECRET:
            raise Unauthenticated("this key is not known here")
        digest = hash_secret(secret)
        key = self._state.keyring.key(digest)
        if (
            key is not None
            and key.parent_id is None
            and any(hmac.compare_digest(each, digest) for each in key.hashes)
        ):
            if (why := core.why_not(key, digest, now=self._system.wall())) is not None:
                raise Unauthenticated(f"the key {key.name!r} {_WHY[why]}", why)
            if address:
                self.note_use(key.id, address)
            return Principal(
                role=key.role,
                name=key.name,
                key_id=key.id,
                project_id=key.project_id,
                is_guessable=key.is_configured,
                secret_hash=digest,
            )
        node = self._state.keyring.node(digest)
        if node is not None:
            if not self._tokens.is_good(node, digest):
                why = "was replaced" if node.revoked_at is None else "was revoked"
                raise Unauthenticated(f"this token of {node.id} {why}", "revoked_token")
            if self._tokens.has_news:
                self._news.set()
            # By its id: a node chooses its own name, and may choose another's.
            return Principal(role=Role.NODE, name=node.id, node_id=node.id)
        raise Unauthenticated("this key is not known here")

    def note_use(self, key_id: str, address: str) -> None:
        """Record that a key was used just now, from this address."""
        self._used[key_id] = self._system.now(), address
        self._news.set()

    def is_live(self, caller: Principal) -> bool:
        """Return whether an authenticated caller would be authenticated again now."""
        key = self._state.keyring.keys.get(caller.key_id or "")
        now = self._system.wall()
        if caller.session_hash:
            session = self._state.keyring.key(caller.session_hash)
            return session is not None and core.why_over(session, key, now=now) is None
        return key is None or core.is_good(key, caller.secret_hash, now=now)

    def find(self, *, joining: bool) -> list[ApiKey]:
        """Return all join tokens, or all other keys, oldest first, expired and revoked ones too."""
        keys = (self._seen(key) for _, key in sorted(self._state.keyring.keys.items()))
        return [key for key in keys if key.parent_id is None and (key.role is Role.NODE) is joining]

    def get(self, key_id: str, *, joining: bool) -> ApiKey:
        """The join token or key, or `NotFound`."""
        key = self._state.keyring.keys.get(key_id)
        if key is None or key.parent_id or (key.role is Role.NODE) is not joining:
            raise NotFound("join-token" if joining else "key", key_id)
        return self._seen(key)

    async def create(self, request: KeyRequest, *, by: str) -> tuple[ApiKey, str]:
        """A new key and its secret; raises `InvalidRequest` or `Conflict`."""
        if problems := [*core.key_problems(request)]:
            raise InvalidRequest(problems)
        now, secret = self._system.wall(), make_secret(self._system)
        key = ApiKey(
            id=make_id(KEY, now, self._system.entropy),
            name=request.name,
            role=request.role,
            secret_hash=hash_secret(secret),
            created_at=now,
            created_by=by,
            project_id=request.project_id,
            expires_at=None if request.expires_in_s is None else now + request.expires_in_s,
        )
        return await self._make(key, by), secret

    async def create_join_token(self, request: JoinTokenRequest, *, by: str) -> tuple[ApiKey, str]:
        """A new join token and its secret; raises `InvalidRequest` or `Conflict`."""
        if request.cluster_id not in self._state.clusters:
            # Another master may have made it a moment ago.
            await self._state.refresh.clusters()
        if problems := [*core.join_token_problems(request, self._state.clusters)]:
            raise InvalidRequest(problems)
        now, secret = self._system.wall(), make_secret(self._system)
        id = make_id(JOINER, now, self._system.entropy)
        key = ApiKey(
            id=id,
            name=request.name or id,
            role=Role.NODE,
            secret_hash=hash_secret(secret),
            created_at=now,
            created_by=by,
            expires_at=now + request.expires_in_s,
            cluster_id=request.cluster_id,
            max_uses=request.uses,
        )
        return await self._make(key, by), secret

    async def rotate(self, key_id: str, request: RotateRequest, *, by: str) -> tuple[ApiKey, str]:
        """A new secret for the key; raises `NotFound` or `Conflict`."""
        secret = make_secret(self._system)

        def rotated(key: ApiKey, now: float) -> ApiKey:
            if key.revoked_at is not None:
                raise Conflict(f"the key {key.name!r} was revoked; make a new one")
            expires_at = key.expires_at
            if request.expires_in_s is not None:
                expires_at = now + request.expires_in_s
            elif expires_at is not None and expires_at <= now:
                raise Conflict(f"the key {key.name!r} has expired; give expires_in_s as well")
            digest = hash_secret(secret)
            return core.rotate(key, digest, grace_s=request.grace_s, expires_at=expires_at, now=now)

        return await self._change(key_id, rotated, "rotated", by, joining=False), secret

    async def revoke(self, key_id: str, *, joining: bool, by: str) -> ApiKey:
        """The key or join token, worth nothing from now on. May be called twice."""

        def revoked(key: ApiKey, now: float) -> ApiKey:
            return key if key.revoked_at is not None else core.revoke(key, now=now)

        return await self._change(key_id, revoked, "revoked", by, joining=joining)

    async def run(self) -> None:
        """Save the last uses of keys every few seconds, for as long as there are any."""
        while True:
            await self._news.wait()
            await asyncio.sleep(SAVE_EVERY_S)
            self._news.clear()
            try:
                await self.save()
            except StoreUnavailable as error:
                log.warning("the last use of keys waits for the store", error=str(error))
                self._news.set()

    async def save(self) -> None:
        """Save in the store which keys were used, and which old tokens of nodes are out of use."""
        used = dict(self._used)
        uses = [
            Change(rows=(msgspec.structs.replace(self._seen(key), version=key.version + 1),))
            for key in map(self._state.keyring.keys.get, used)
            if key is not None
        ]
        confirmed = self._tokens.news()
        refusals = await self._state.commit([*uses, *confirmed])
        made = [
            change
            for change, refusal in zip(confirmed, refusals[len(uses) :], strict=True)
            if refusal is None
        ]
        self._tokens.forget(made)
        for key_id, use in used.items():
            if self._used.get(key_id) == use:
                del self._used[key_id]
        if self._tokens.has_news:
            self._news.set()

    def _seen(self, key: ApiKey) -> ApiKey:
        """Return the key with its newest use, which may not be saved in the store yet."""
        at, address = self._used.get(key.id, (0.0, ""))
        if not address or at <= (key.last_used_at or 0.0):
            return key
        return msgspec.structs.replace(key, last_used_at=at, last_used_from=address)

    async def _make(self, key: ApiKey, by: str) -> ApiKey:
        claim = core.claim_name(key, now=key.created_at)
        change = _told(key, "made", claim, now=self._system.now(), by=by)
        refusal = (await self._state.commit([change]))[0]
        if refusal is not None:
            holder = refusal.claim.holder if refusal.claim else "another key"
            raise Conflict(
                f"the name {key.name!r} belongs to {holder}; revoke that first, or use another name"
            )
        return key

    async def _change(
        self,
        key_id: str,
        decide: Callable[[ApiKey, float], ApiKey],
        what: str,
        by: str,
        *,
        joining: bool,
    ) -> ApiKey:
        """The key as decided; decided anew when its last use was noted in between."""
        if key_id not in self._state.keyring.keys:
            # Another master may have made it a moment ago.
            await self._state.refresh.keys()

        async def present() -> tuple[ApiKey, Change | None]:
            key = self.get(key_id, joining=joining)
            now = self._system.wall()
            changed = decide(key, now)
            if changed is key:
                return key, None
            if key.is_configured:
                raise Conflict(
                    f"the key {key.name!r} comes from the master's configuration: change it there, "
                    "and start the master again"
                )
            # The name of a key that has expired may be another's by now.
            keeps_name = core.is_live(changed, now=now) or core.is_live(key, now=now)
            claims = (core.claim_name(changed, now=now),) if keeps_name else ()
            return changed, _told(changed, what, *claims, now=self._system.now(), by=by)

        def on_refusal(refusal: Refusal) -> None:
            if refusal.claim is not None:
                name = self.get(key_id, joining=joining).name
                raise Conflict(
                    f"the name {name!r} belongs to {refusal.claim.holder} by now; "
                    "make a new key with another name"
                )

        return await self._state.decide(key_id, present, on_refusal=on_refusal)


def _told(key: ApiKey, what: str, *claims: Claim, now: float, by: str = "") -> Change:
    """A key and the event by which other masters learn of it."""
    cause = f"{what} by {by}" if by else "named when the master started"
    event = Event(kind=f"key.{what}", subject=key.id, at=now, cause=cause)
    return Change(rows=(key,), claims=claims, events=(event,))
