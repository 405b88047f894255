"""Whom one task, or one run, is told of: those who asked for it."""

from typing import Final

import msgspec

UPDATE: Final = ":update"
COMPLETE: Final = ":complete"
PROGRESSED: Final = "task.progressed"
"""The kind of events that tell how far a task has got, of those that somebody is told of."""


class Callback(msgspec.Struct, frozen=True, kw_only=True):
    """Where the call-backs of a task or a run go, and whose secret signs them."""

    url: str
    """What `:update` and `:complete` are added to."""
    webhook_id: str
    """The webhook of the format `callback` that carries them."""
