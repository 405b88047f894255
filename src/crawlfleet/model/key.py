"""Keys that let somebody in, and what each role may do."""

from enum import StrEnum
from typing import Final

import msgspec

CONFIGURED: Final = frozenset({"admin", "join"})
"""The names of the keys that the master makes from its own configuration."""


class Role(StrEnum):
    """Each role may do what the one before it may; `node` stands apart: only its own work."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"
    NODE = "node"


class ApiKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key as the store knows it: never the secret itself. With the role `node`, a join token."""

    id: str
    name: str
    role: Role
    secret_hash: str
    created_at: float
    expires_at: float | None = None
    revoked_at: float | None = None
    created_by: str = ""
    project_id: str | None = None
    """The only project that exists for whoever shows it; all of them when not set."""
    rotated_at: float | None = None
    old_secret_hash: str = ""
    """Of the secret before the newest, which is good until `old_expires_at` and known after it."""
    old_expires_at: float = 0.0
    last_used_at: float | None = None
    last_used_from: str = ""
    cluster_id: str | None = None
    """Where nodes that join with it belong; anywhere when not set."""
    max_uses: int | None = None
    """How many nodes may join with it."""
    uses: int = 0
    parent_id: str | None = None
    """The key that signed in, where this is a session of a browser, or a link to open one."""
    parent_hash: str = ""
    """Of the secret of that key with which it did: what ends that, ends this."""
    version: int = 1

    @property
    def is_configured(self) -> bool:
        """Whether it comes from the master's configuration: a person may have chosen its secret."""
        return self.name in CONFIGURED

    @property
    def is_link(self) -> bool:
        """Whether it is a link that opens a session, once."""
        return self.parent_id is not None and self.max_uses is not None

    @property
    def hashes(self) -> tuple[str, ...]:
        """Of all its secrets that are known, and may still be good."""
        return (
            (self.secret_hash, self.old_secret_hash)
            if self.old_secret_hash
            else (self.secret_hash,)
        )
