"""The task types that a fleet knows."""

from typing import Any

import msgspec


class TaskTypeView(msgspec.Struct, frozen=True, kw_only=True):
    """A task type, and how its tasks are written."""

    name: str
    summary: str
    parameters: dict[str, Any] | None
    """A JSON schema, whole in itself; `null` where the master does not know it."""
    nodes: int
    """How many nodes that are online have an executor for it."""


class TaskTypePage(msgspec.Struct, frozen=True, kw_only=True):
    items: list[TaskTypeView]
    next_cursor: str | None
