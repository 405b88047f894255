"""Keys and join tokens as they are told of: a secret is shown once, when it is made."""

from datetime import datetime
from typing import Annotated

import msgspec

from crawlfleet.model.key import Role


class KeyView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A key, without its secret."""

    id: str
    name: str
    role: Annotated[str, msgspec.Meta(extra_json_schema={"enum": [str(each) for each in Role]})]
    status: Annotated[str, msgspec.Meta(extra_json_schema={"enum": ["live", "expired", "revoked"]})]
    created_at: datetime
    created_by: str = ""
    project_id: str | None = None
    """The only project that it is good for."""
    expires_at: datetime | None = None
    rotated_at: datetime | None = None
    old_valid_until: datetime | None = None
    """How long the secret before the newest is good as well."""
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None
    last_used_from: str = ""


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
    """Where its nodes belong; anywhere when not set."""
    uses: int = 0
    """How many nodes have joined with it, where that is limited."""
    max_uses: int | None = None
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None
    last_used_from: str = ""


class NewJoinToken(msgspec.Struct, frozen=True, kw_only=True):
    """A join token and its secret, which is not shown again."""

    join_token: JoinTokenView
    secret: str
    join: str = ""
    """What to start a worker with: the secret and, of a master with TLS, the fingerprint of its
    public key. A worker that was given it talks to nobody else."""


class KeyPage(msgspec.Struct, frozen=True, kw_only=True):
    items: list[KeyView]
    next_cursor: str | None


class JoinTokenPage(msgspec.Struct, frozen=True, kw_only=True):
    items: list[JoinTokenView]
    next_cursor: str | None
