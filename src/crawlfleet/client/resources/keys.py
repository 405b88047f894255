"""Keys, join tokens and the audit log for programs."""

from collections.abc import AsyncIterator
from typing import Unpack

from crawlfleet.client.http.calls import Calls, segment
from crawlfleet.client.http.fields import AuditFilters, JoinTokenFields, KeyFields, RotateFields
from crawlfleet.views.access import (
    AuditPage,
    AuditView,
    JoinTokenPage,
    JoinTokenView,
    KeyPage,
    KeyView,
    NewJoinToken,
    NewKey,
    SessionLink,
    SessionView,
)


class KeyCalls(Calls):
    """Calls about keys, join tokens and the audit log.

    Calls that make a secret are not repeated: when no answer comes, a key may have been made or
    rotated whose secret nobody knows. Look at the list, and rotate or revoke it.
    """

    async def keys(self) -> list[KeyView]:
        """Return all keys, oldest first, also expired and revoked ones."""
        return (await self._get("/keys", KeyPage)).items

    async def key(self, key_id: str) -> KeyView:
        """Return one key."""
        return await self._get(f"/keys/{segment(key_id)}", KeyView)

    async def create_key(self, name: str, role: str, **fields: Unpack[KeyFields]) -> NewKey:
        """Create a key; `fields` are `project_id` and `expires_in_s`. Its secret is shown once."""
        return await self._post_once("/keys", NewKey, {"name": name, "role": role, **fields})

    async def rotate_key(self, key_id: str, **fields: Unpack[RotateFields]) -> NewKey:
        """Replace the secret of a key; `fields` are `grace_s` and `expires_in_s`."""
        return await self._post_once(f"/keys/{segment(key_id)}:rotate", NewKey, fields)

    async def revoke_key(self, key_id: str) -> KeyView:
        """Make a key worthless at once."""
        return await self._post(f"/keys/{segment(key_id)}:revoke", KeyView)

    async def session(self) -> SessionView:
        """Return the identity and the permissions of this client's key."""
        return await self._get("/session", SessionView)

    async def create_session_link(self) -> SessionLink:
        """A link that signs one browser in as this client, once, within 10 minutes."""
        return await self._post_once("/session:link", SessionLink, None)

    async def join_tokens(self) -> list[JoinTokenView]:
        """Return all join tokens, oldest first, also expired and used ones."""
        return (await self._get("/join-tokens", JoinTokenPage)).items

    async def join_token(self, join_token_id: str) -> JoinTokenView:
        """Return one join token."""
        return await self._get(f"/join-tokens/{segment(join_token_id)}", JoinTokenView)

    async def create_join_token(self, **fields: Unpack[JoinTokenFields]) -> NewJoinToken:
        """A new join token: `name`, `cluster_id`, `uses`, `expires_in_s`. Shown once."""
        return await self._post_once("/join-tokens", NewJoinToken, fields)

    async def revoke_join_token(self, join_token_id: str) -> JoinTokenView:
        """Revoke a join token: no more nodes can join with it."""
        path = f"/join-tokens/{segment(join_token_id)}:revoke"
        return await self._post(path, JoinTokenView)

    def audit(
        self, limit: int | None = None, **filters: Unpack[AuditFilters]
    ) -> AsyncIterator[AuditView]:
        """Iterate over the entries of the audit log, newest first, page by page; at most `limit`.

        `filters` are `actor`, `action`, `subject`, `since` and `until` (ISO 8601).
        """
        return self._pages("/audit", AuditPage, filters, limit=limit)
