"""Work that begins by the clock: what is to be done when, and what became of it each time.

A *due instant* is one at which the rule of a schedule says "now". What became of one, or of several
that came to the same, is a *firing*.
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
    """What became of a due instant."""

    STARTED = "started"
    QUEUED = "queued"
    """It waits for the end of an earlier task of the schedule."""
    SKIPPED = "skipped"
    """Too many tasks of the schedule were at work."""
    MISSED = "missed"
    """Nobody was there in time: the master was away for longer than the grace."""
    REFUSED = "refused"
    """The task or the run was not accepted, such as in a project that is closed."""


class Origin(StrEnum):
    """Why a firing came to be."""

    RULE = "rule"
    RUN = "run"
    """Somebody asked for it at once."""
    BACKFILL = "backfill"
    """Somebody asked for the due instants of a range."""


class Rule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """When a schedule is due, and what to do when that cannot be kept."""

    cron: str | None = None
    every_s: float | None = None
    """One of the two is set."""
    time_zone: str = UTC_NAME
    start_at: float | None = None
    """The first instant that may be due; intervals are counted from it."""
    end_at: float | None = None
    """From this instant on nothing is due."""
    coalesce: bool = True
    """Of several due instants that are late together, only the last starts a task."""
    misfire_grace_s: float | None = None
    """Later than that a due instant is missed; never when not set."""
    max_instances: int = 1
    """So many tasks of the schedule may be at work at once."""
    overlap: Overlap = Overlap.SKIP
    jitter_s: float = 0.0
    """Each due instant is put off by its own part of this."""


class WorkflowCall(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The workflow that a schedule runs."""

    id: str
    name: str
    number: int | None = None
    """Which of its versions; the newest at each due instant when not set."""
    parameters: dict[str, Any] = {}


class WaitingFiring(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The firing that waits for room."""

    due_at: float
    edition: int
    count: int = 1
    first_due_at: float | None = None


class Firing(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What became of a due instant. Its id follows from the schedule, its edition and the instant:
    whoever deals with it twice would write the same row, and is refused.
    """

    id: str
    schedule_id: str
    project_id: str
    due_at: float
    at: float
    """When it was dealt with."""
    outcome: Outcome
    edition: int = 1
    origin: Origin = Origin.RULE
    task_id: str | None = None
    run_id: str | None = None
    """What it started: a task, or the run of a workflow."""
    count: int = 1
    """How many due instants it stands for; `due_at` is the last of them."""
    first_due_at: float | None = None
    """The first of them, where there are several."""
    reason: str = ""
    version: int = 1


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """A task that is submitted, or a workflow that is run, again and again. `version` grows with
    each committed change, `edition` only when somebody changes what is to be done or when.
    """

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
    """Who put it into this state."""
    edition: int = 1
    cursor: float = 0.0
    """All that was due up to this instant has been dealt with."""
    waiting: WaitingFiring | None = None
    running: tuple[str, ...] = ()
    """Tasks and runs of it that may still be at work."""
    last: Firing | None = None
    """What happened last."""
    removed_at: float | None = None
    version: int = 1

    @property
    def is_active(self) -> bool:
        return self.status is ScheduleStatus.ACTIVE and self.removed_at is None


def firing_id(schedule_id: str, edition: int, due_at: float, origin: Origin = Origin.RULE) -> str:
    """The one name of what becomes of a due instant. Ids of a schedule sort by the instant.

    What somebody asks for has a name beside that of the rule.
    """
    return f"{firings_from(schedule_id, due_at)}-{edition}{_BESIDE[origin]}"


def firings_from(schedule_id: str, due_at: float) -> str:
    """How the ids of firings of this instant begin: all of later instants are higher."""
    body = schedule_id.partition("-")[2]
    return f"fire-{body}-{instant_digits(round(due_at * 1000))}"


_BESIDE: Final = {Origin.RULE: "", Origin.RUN: "r", Origin.BACKFILL: "b"}
