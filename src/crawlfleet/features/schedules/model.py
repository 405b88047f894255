"""Schedules: tasks and workflow runs that start at given times, and the history of each.

A *due instant* is a time at which the rule of a schedule starts something. The result of one due
instant, or of several that were late together, is a *firing*.
"""

from enum import StrEnum
from typing import Any, Final

import msgspec

from crawlfleet.model.ids import instant_digits
from crawlfleet.model.task import EMPTY_OBJECT

UTC_NAME: Final = "UTC"


class Overlap(StrEnum):
    """What happens at a due instant when as many tasks or runs as may be are still at work."""

    SKIP = "skip"
    """Nothing; the history says so."""
    QUEUE = "queue"
    """One waits until there is room. Others are skipped for as long as it does."""


class ScheduleStatus(StrEnum):
    ACTIVE = "active"
    PAUSED = "paused"


class Outcome(StrEnum):
    """The result of a due instant."""

    STARTED = "started"
    QUEUED = "queued"
    """The start waits for the end of an earlier task of the schedule."""
    SKIPPED = "skipped"
    """The start was skipped because too many tasks of the schedule were at work."""
    MISSED = "missed"
    """Nobody was there in time: the master was away for longer than the grace."""
    REFUSED = "refused"
    """The task or the run was not accepted, such as in a project that is closed."""


class Origin(StrEnum):
    """Why a firing came to be."""

    RULE = "rule"
    RUN = "run"
    """A user started the schedule at once."""
    BACKFILL = "backfill"
    """A user asked for the due instants of a range."""


class Rule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The times at which a schedule is due, and the policy for late and overlapping starts."""

    cron: str | None = None
    every_s: float | None = None
    """Interval in seconds; a rule sets `cron` or `every_s`."""
    time_zone: str = UTC_NAME
    start_at: float | None = None
    """The first instant that may be due; intervals are counted from it."""
    end_at: float | None = None
    """Nothing is due at or after this instant."""
    coalesce: bool = True
    """When several due instants are late together, start only one task, for the last of them."""
    misfire_grace_s: float | None = None
    """Seconds after which a late due instant counts as missed; never when not set."""
    max_instances: int = 1
    """Maximum number of tasks of the schedule that may be at work at once."""
    overlap: Overlap = Overlap.SKIP
    jitter_s: float = 0.0
    """Maximum delay in seconds; each due instant is put off by its own part of it."""


class WorkflowCall(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The workflow that a schedule runs."""

    id: str
    name: str
    number: int | None = None
    """Version of the workflow to run; the newest one at each due instant when not set."""
    parameters: dict[str, Any] = {}


class WaitingFiring(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The firing that waits for room."""

    due_at: float
    edition: int
    count: int = 1
    first_due_at: float | None = None


class Firing(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The result of a due instant. Its id follows from the schedule, the edition and the instant,
    so a second attempt to handle the same instant writes the same row and is refused."""

    id: str
    schedule_id: str
    project_id: str
    due_at: float
    at: float
    """Time at which the due instant was handled."""
    outcome: Outcome
    edition: int = 1
    origin: Origin = Origin.RULE
    task_id: str | None = None
    run_id: str | None = None
    """Id of the workflow run that the firing started; `task_id` is set instead if it started a
    task."""
    count: int = 1
    """Number of due instants that this firing covers; `due_at` is the last of them."""
    first_due_at: float | None = None
    """First due instant that the firing covers, if it covers several."""
    reason: str = ""
    version: int = 1


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """A task that is submitted, or a workflow that is run, at given times. `version` grows with
    each committed change, `edition` only when a user changes the work or its times."""

    id: str
    project_id: str
    name: str
    created_at: float
    updated_at: float
    rule: Rule
    task: msgspec.Raw = EMPTY_OBJECT
    """The request that is submitted, as JSON; an empty object when a workflow is run."""
    workflow: WorkflowCall | None = None
    description: str = ""
    status: ScheduleStatus = ScheduleStatus.ACTIVE
    cause: str = ""
    """User or token that brought the schedule into this state, with the action."""
    edition: int = 1
    cursor: float = 0.0
    """All due instants up to this one have been handled."""
    waiting: WaitingFiring | None = None
    running: tuple[str, ...] = ()
    """Ids of tasks and runs of the schedule that may still be at work."""
    last: Firing | None = None
    """The newest firing of the schedule."""
    removed_at: float | None = None
    version: int = 1

    @property
    def is_active(self) -> bool:
        return self.status is ScheduleStatus.ACTIVE and self.removed_at is None


def firing_id(schedule_id: str, edition: int, due_at: float, origin: Origin = Origin.RULE) -> str:
    """Return the id of the firing of a due instant. Ids of a schedule sort by the instant.

    Firings that a user asked for have other ids than those of the rule.
    """
    return f"{firings_from(schedule_id, due_at)}-{edition}{_BESIDE[origin]}"


def firings_from(schedule_id: str, due_at: float) -> str:
    """Return the prefix of the ids of all firings at this instant. Firings of later instants have
    higher ids."""
    body = schedule_id.partition("-")[2]
    return f"fire-{body}-{instant_digits(round(due_at * 1000))}"


_BESIDE: Final = {Origin.RULE: "", Origin.RUN: "r", Origin.BACKFILL: "b"}
