"""The audit log: one entry for each request that changed something."""

from typing import Final

import msgspec

MAX_SUBJECTS: Final = 20


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One request that changed something. It holds no secrets and no request body."""

    id: str
    at: float
    actor: str
    """The name of the key, or the id of the node."""
    actor_id: str
    """Id of the key or node, because a name may be reused."""
    role: str
    address: str
    """Address of the client, as far as it is known."""
    action: str
    """The name of the route."""
    subjects: tuple[str, ...] = ()
    """Ids of the first 20 changed things."""
    count: int = 0
    """Number of changed things."""
    project_id: str | None = None
    """The project that the key is bound to."""


class AuditFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Filter for audit entries; a field that is `None` does not restrict."""

    actor: str | None = None
    """Name or id of the key or node."""
    action: str | None = None
    subject: str | None = None
    since: float | None = None
    until: float | None = None
    """Before this instant."""
