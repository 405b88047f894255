"""Keys, join tokens, sessions and the audit log as the API shows them.

A secret is shown once, when it is made.
"""

from datetime import datetime
from typing import Annotated, Self

import msgspec

from crawlfleet.core.access.keys import status_of
from crawlfleet.model.audit import AuditEntry
from crawlfleet.model.key import ApiKey, Role
from crawlfleet.views.fields import instant, moment


class KeyView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A key, without its secret."""

    id: str
    name: str
    role: Annotated[str, msgspec.Meta(extra_json_schema={"enum": [str(each) for each in Role]})]
    status: Annotated[str, msgspec.Meta(extra_json_schema={"enum": ["live", "expired", "revoked"]})]
    created_at: datetime
    created_by: str = ""
    project_id: str | None = None
    """The only project that the key gives access to."""
    expires_at: datetime | None = None
    rotated_at: datetime | None = None
    old_valid_until: datetime | None = None
    """End of the time in which the previous secret is valid, too."""
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None
    last_used_from: str = ""

    @classmethod
    def of(cls, key: ApiKey, *, now: float) -> Self:
        is_old_good = key.old_secret_hash and key.old_expires_at > now
        return cls(
            id=key.id,
            name=key.name,
            role=str(key.role),
            status=status_of(key, now=now),
            created_at=moment(key.created_at),
            created_by=key.created_by,
            project_id=key.project_id,
            expires_at=instant(key.expires_at),
            rotated_at=instant(key.rotated_at),
            old_valid_until=instant(key.old_expires_at) if is_old_good else None,
            revoked_at=instant(key.revoked_at),
            last_used_at=instant(key.last_used_at),
            last_used_from=key.last_used_from,
        )


class NewKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key and its secret, which is not shown again."""

    key: KeyView
    secret: str


class JoinTokenView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A join token, without its secret."""

    id: str
    name: str
    status: Annotated[
        str, msgspec.Meta(extra_json_schema={"enum": ["live", "expired", "revoked", "used_up"]})
    ]
    created_at: datetime
    created_by: str = ""
    cluster_id: str | None = None
    """Cluster of the nodes that join with the token; any cluster when not set."""
    uses: int = 0
    """Number of nodes that have joined with the token, where that is limited."""
    max_uses: int | None = None
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None
    last_used_from: str = ""

    @classmethod
    def of(cls, key: ApiKey, *, now: float) -> Self:
        return cls(
            id=key.id,
            name=key.name,
            status=status_of(key, now=now),
            created_at=moment(key.created_at),
            created_by=key.created_by,
            cluster_id=key.cluster_id,
            uses=key.uses,
            max_uses=key.max_uses,
            expires_at=instant(key.expires_at),
            revoked_at=instant(key.revoked_at),
            last_used_at=instant(key.last_used_at),
            last_used_from=key.last_used_from,
        )


class NewJoinToken(msgspec.Struct, frozen=True, kw_only=True):
    """A join token and its secret, which is not shown again."""

    join_token: JoinTokenView
    secret: str
    join: str = ""
    """Value to start a worker with: the secret and, if the master has TLS, the fingerprint of its
    public key. A worker that was given it connects to no other master."""


class KeyPage(msgspec.Struct, frozen=True, kw_only=True):
    items: list[KeyView]
    next_cursor: str | None


class JoinTokenPage(msgspec.Struct, frozen=True, kw_only=True):
    items: list[JoinTokenView]
    next_cursor: str | None


class SignInRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request to sign in with a `key` or with a `link`; exactly one of them."""

    key: str | None = None
    link: str | None = None
    """The text after the `#` of the link."""


class SessionView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The caller's identity, role and session."""

    name: str
    """Name of the key."""
    role: Annotated[str, msgspec.Meta(extra_json_schema={"enum": [str(each) for each in Role]})]
    projects: tuple[str, ...] | None = None
    """The only projects that the key gives access to; all when not set."""
    expires_at: datetime | None = None
    """Time when the session, or the key that was used instead, expires; never when not set."""
    csrf: str = ""
    """Token that the session sends as `X-Crawlfleet-Csrf` with each request that changes
    something."""


class SessionLink(msgspec.Struct, frozen=True, kw_only=True):
    """A link that signs one browser in, once."""

    path: str
    """The link, without the address of the master."""
    token: str
    """The text after the `#` of the link."""
    expires_at: datetime


class AuditView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One request that changed something."""

    id: str
    at: datetime
    actor: str
    """The name of the key, or the id of the node."""
    actor_id: str
    role: Annotated[str, msgspec.Meta(extra_json_schema={"enum": [str(each) for each in Role]})]
    action: str
    """The name of the route, as in the OpenAPI document."""
    count: int
    """Number of things that the request changed."""
    subjects: tuple[str, ...] = ()
    """Ids of the first 20 things that the request changed."""
    address: str = ""
    project_id: str | None = None
    """The project that the key is bound to."""

    @classmethod
    def of(cls, entry: AuditEntry) -> Self:
        return cls(
            id=entry.id,
            at=moment(entry.at),
            actor=entry.actor,
            actor_id=entry.actor_id,
            role=entry.role,
            action=entry.action,
            count=entry.count,
            subjects=entry.subjects,
            address=entry.address,
            project_id=entry.project_id,
        )


class AuditPage(msgspec.Struct, frozen=True, kw_only=True):
    items: list[AuditView]
    next_cursor: str | None
