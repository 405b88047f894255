"""Who changed what: one entry for each request that changed something."""

from typing import Final

import msgspec

MOST_SUBJECTS: Final = 20


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One request, however many things it changed. It never holds a secret, nor what was sent."""

    id: str
    at: float
    actor: str
    """The name of the key, or the id of the node."""
    actor_id: str
    """The id of the key or node: a name may be given again."""
    role: str
    address: str
    """Of the client, as far as it is known."""
    action: str
    """The name of the route."""
    subjects: tuple[str, ...] = ()
    """The ids of what was changed; the first 20."""
    count: int = 0
    """How many things were changed."""
    project_id: str | None = None
    """The project that the key is bound to."""


class AuditFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which entries are wanted; what is `None` does not restrict."""

    actor: str | None = None
    """The name or the id."""
    action: str | None = None
    subject: str | None = None
    since: float | None = None
    until: float | None = None
    """Before this instant."""
