"""Sessions of browsers, and the links that open them: each belongs to a key, and never outlives it.

A session is stored like a key: only its hash, in the same table, so all masters know it and a
restart changes nothing. It has no rights of its own. Each request checks the key again; when that
is revoked, has expired or lost the secret that was shown, the session is over. A new session takes
the row of one that is over, so that signing in never makes the store grow.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from crawlfleet.control.access.keys import Keys, Principal
from crawlfleet.control.access.tokens import hash_secret, make_secret
from crawlfleet.control.state.fleet_state import FleetState
from crawlfleet.core.access import keys as core
from crawlfleet.errors import Refused, Unauthenticated
from crawlfleet.model.change import Change
from crawlfleet.model.event import Event
from crawlfleet.model.ids import BROWSER, LINK, make_id
from crawlfleet.model.key import ApiKey, Role
from crawlfleet.model.settings import ServerSettings
from crawlfleet.ports.system import System

LINK_LASTS_S: Final = 600.0
MAX_OF_A_KEY: Final = 50
"""Sessions, and links, of one key at once; one more ends the oldest."""


class SignIns:
    """Opens, knows and ends the sessions of browsers."""

    def __init__(
        self, *, state: FleetState, system: System, keys: Keys, settings: ServerSettings
    ) -> None:
        self._state = state
        self._system = system
        self._keys = keys
        self._lasts_s = settings.sign_in_hours * 3600.0

    def authenticate(self, secret: str, *, address: str = "") -> Principal:
        """Return the caller of a browser session; raises `Unauthenticated` if it is over."""
        session, caller = self._known(secret, links=False)
        if address:
            self._keys.note_use(session.parent_id or "", address)
        return caller

    def authenticate_link(self, secret: str) -> Principal:
        """Return the caller of a sign-in link; raises `Unauthenticated` if it is used or old."""
        return self._known(secret, links=True)[1]

    def expiry_of(self, caller: Principal) -> float | None:
        """Return when the caller's session or key expires; `None` for never."""
        shown = self._state.keyring.key(caller.session_hash or caller.secret_hash)
        return None if shown is None else shown.expires_at

    async def open(self, caller: Principal, *, link: str | None = None) -> tuple[Principal, str]:
        """Open a session for a caller with a key or a link; return it and its secret.

        The link is used up in the same commit, so that it opens one session only.
        """
        if caller.role is Role.NODE:
            raise Refused("nodes and join tokens cannot sign in; use the key of a person")
        secret = make_secret(self._system)

        async def decide() -> tuple[None, Change]:
            used = [_used(self._known(link, links=True)[0])] if link else []
            session = self._row(caller, secret, lasts_s=self._lasts_s, link=False)
            event = _told("signed_in", caller, self._system.now())
            return None, Change(rows=(session, *used), events=(event,))

        await self._state.decide("the link", decide)
        return self._known(secret, links=False)[1], secret

    async def make_link(self, caller: Principal) -> tuple[ApiKey, str]:
        """A new link for another browser of the caller, and its secret."""
        if caller.role is Role.NODE:
            raise Refused("nodes and join tokens cannot sign in; use the key of a person")
        secret = make_secret(self._system)

        async def decide() -> tuple[ApiKey, Change]:
            link = self._row(caller, secret, lasts_s=LINK_LASTS_S, link=True)
            event = _told("link_made", caller, self._system.now())
            return link, Change(rows=(link,), events=(event,))

        return await self._state.decide("the link", decide), secret

    async def close(self, caller: Principal) -> None:
        """End the caller's session. May be called twice."""

        async def decide() -> tuple[None, Change | None]:
            session = self._state.keyring.key(caller.session_hash)
            if session is None or session.revoked_at is not None:
                return None, None
            now = self._system.now()
            event = _told("signed_out", caller, now)
            return None, Change(rows=(core.revoke(session, now=now),), events=(event,))

        await self._state.decide("the session", decide)

    def _known(self, secret: str, *, links: bool) -> tuple[ApiKey, Principal]:
        held = self._state.keyring.key(hash_secret(secret))
        what = "this link was used, or is too old" if links else "this session is over"
        if held is None or held.parent_id is None or held.is_link is not links:
            raise Unauthenticated(
                f"{what}; sign in again", "unknown_key" if links else "ended_session"
            )
        parent = self._state.keyring.keys.get(held.parent_id)
        why = core.why_over(held, parent, now=self._system.wall())
        if parent is None or why is not None:
            raise Unauthenticated(f"{what}; sign in again", why or "ended_session")
        return held, Principal(
            role=parent.role,
            name=parent.name,
            key_id=parent.id,
            project_id=parent.project_id,
            secret_hash=held.parent_hash,
            session_hash="" if links else held.secret_hash,
        )

    def _row(self, caller: Principal, secret: str, *, lasts_s: float, link: bool) -> ApiKey:
        """A row for a new session or link: a new one, or the next version of one that is free."""
        now = self._system.wall()
        free = next(self._free(caller.key_id or "", links=link, now=now), None)
        return ApiKey(
            id=free.id if free else make_id(LINK if link else BROWSER, now, self._system.entropy),
            name=caller.name,
            role=caller.role,
            secret_hash=hash_secret(secret),
            created_at=now,
            expires_at=now + lasts_s,
            created_by=caller.name,
            project_id=caller.project_id,
            max_uses=1 if link else None,
            parent_id=caller.key_id,
            parent_hash=caller.secret_hash,
            version=free.version + 1 if free else 1,
        )

    def _free(self, key_id: str, *, links: bool, now: float) -> Iterator[ApiKey]:
        """Rows of sessions or links that are over, then the oldest of a key that has too many."""
        keys = self._state.keyring.keys
        held = [each for each in keys.values() if each.parent_id and each.is_link is links]
        for each in held:
            if core.why_over(each, keys.get(each.parent_id or ""), now=now) is not None:
                yield each
        own = [each for each in held if each.parent_id == key_id]
        if len(own) >= MAX_OF_A_KEY:
            yield min(own, key=lambda each: each.created_at)


def _used(link: ApiKey) -> ApiKey:
    return msgspec.structs.replace(link, uses=1, version=link.version + 1)


def _told(what: str, caller: Principal, now: float) -> Event:
    """Return the event by which other masters learn that keys have changed."""
    return Event(
        kind=f"key.{what}", subject=caller.key_id or "", at=now, cause=f"{what} by {caller.name}"
    )
