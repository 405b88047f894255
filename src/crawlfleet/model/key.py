"""Keys that let somebody in, and what each role may do."""

from enum import StrEnum

import msgspec


class Role(StrEnum):
    """Each role may do what the one before it may; `node` stands apart: only its own work."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"
    NODE = "node"


class ApiKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key as the store knows it: never the secret itself."""

    id: str
    name: str
    role: Role
    secret_hash: str
    created_at: float
    expires_at: float | None = None
    revoked_at: float | None = None
    version: int = 1
