"""Schedules and what became of their due instants, as they are stored."""

from typing import Final

from crawlfleet.features.schedules.model import Firing, Outcome, Schedule
from crawlfleet.ports.tables import (
    Index,
    Owned,
    Query,
    Table,
    below,
    equal,
    is_set,
    is_unset,
    unequal,
)

FIRINGS: Final = Table(
    Firing,
    "crawler_schedule_firings",
    columns=(
        "id",
        "schedule_id",
        "project_id",
        "due_at",
        "at",
        "outcome",
        "origin",
        "task_id",
        "version",
    ),
    indexes=(
        Index("ix_firings_schedule", ("schedule_id", "id")),
        Index("ix_firings_at", ("at", "id")),
    ),
)
SCHEDULES: Final = Table(
    Schedule,
    "crawler_schedules",
    columns=(
        "id",
        "project_id",
        "name",
        "status",
        "rule",
        "task",
        "cursor",
        "edition",
        "created_at",
        "updated_at",
        "removed_at",
        "version",
    ),
    indexes=(Index("ix_schedules_removed", ("removed_at", "id"), is_set("removed_at")),),
    owns=(Owned(FIRINGS, by="schedule_id"),),
)


def kept_schedules() -> Query[Schedule]:
    """All schedules that were not removed."""
    return SCHEDULES.where(is_unset("removed_at"))


def removed_schedules(*, before: float, limit: int) -> Query[Schedule]:
    """Schedules that were removed before then, those first that were removed first."""
    return SCHEDULES.where(below("removed_at", before), order=("removed_at", "id"), limit=limit)


def firings_of(schedule_id: str, *, after: str | None, limit: int) -> Query[Firing]:
    """Firings of a schedule with an id below `after`, the newest due instant first."""
    return FIRINGS.where(
        equal("schedule_id", schedule_id), below("id", after), newest_first=True, limit=limit
    )


def old_firings(*, before: float, limit: int) -> Query[Firing]:
    """Firings that were dealt with before then, the oldest first. One that waits will be written
    again when it starts."""
    return FIRINGS.where(
        below("at", before), unequal("outcome", Outcome.QUEUED), order=("at", "id"), limit=limit
    )
