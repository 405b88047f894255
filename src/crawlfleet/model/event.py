"""Events: one for each change of state, with its cause."""

from typing import Any

import msgspec


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A fact in the past tense. `seq` is given by the store and only grows."""

    kind: str
    """Subject and new state, such as `task.completed` or `node.unresponsive`."""
    subject: str
    """The id of the thing that changed."""
    at: float
    cause: str
    """Reason of the change in words: the caller or the rule that caused it."""
    from_state: str | None = None
    to_state: str | None = None
    details: dict[str, Any] = {}
    project_id: str | None = None
    """Project of the subject; not set for things of the whole fleet."""
    seq: int = 0
