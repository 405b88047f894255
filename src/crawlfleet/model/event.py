"""What happened, with its cause: one event for each change of state."""

from typing import Any

import msgspec


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A fact in the past tense. `seq` is given by the store and only grows."""

    kind: str
    """Such as `task.completed` or `node.unresponsive`: the subject and its new state."""
    subject: str
    """The id of the thing that changed."""
    at: float
    cause: str
    """Why, in words: who asked, or which rule fired."""
    from_state: str | None = None
    to_state: str | None = None
    details: dict[str, Any] = {}
    project_id: str | None = None
    """Whose the subject is; not set for what belongs to the whole fleet."""
    seq: int = 0
