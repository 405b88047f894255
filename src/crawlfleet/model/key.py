"""API keys, join tokens and browser sessions, and their roles."""

from enum import StrEnum
from typing import Final

import msgspec

CONFIGURED: Final = frozenset({"admin", "join"})
"""Names of the keys that come from the master's configuration."""


class Role(StrEnum):
    """The role of a key. Each may do all that the one before it may, except `node`, which may do
    only its own work."""

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
    """The only project that the key gives access to; all projects when not set."""
    rotated_at: float | None = None
    old_secret_hash: str = ""
    """Hash of the previous secret, which is valid until `old_expires_at`."""
    old_expires_at: float = 0.0
    last_used_at: float | None = None
    last_used_from: str = ""
    cluster_id: str | None = None
    """Cluster of the nodes that join with the token; any cluster when not set."""
    max_uses: int | None = None
    """Maximum number of nodes that may join with the token."""
    uses: int = 0
    parent_id: str | None = None
    """Id of the key that opened this browser session, or that made this sign-in link."""
    parent_hash: str = ""
    """Hash of the parent key's secret at that time; when that secret ends, so does this key."""
    version: int = 1

    @property
    def is_configured(self) -> bool:
        """Return whether the key comes from the master's configuration; a person may have chosen
        it."""
        return self.name in CONFIGURED

    @property
    def is_link(self) -> bool:
        """Return whether the key is a sign-in link, which opens one browser session."""
        return self.parent_id is not None and self.max_uses is not None

    @property
    def hashes(self) -> tuple[str, ...]:
        """Return the hashes of all known secrets that may still be valid."""
        return (
            (self.secret_hash, self.old_secret_hash)
            if self.old_secret_hash
            else (self.secret_hash,)
        )
