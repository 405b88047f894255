"""Requests and answers about schedules."""

from collections.abc import Sequence
from datetime import datetime, tzinfo
from typing import Annotated, Any, Final, Literal, Self

import msgspec
from msgspec import UNSET, Meta, UnsetType

from crawlfleet.features.schedules.model import UTC_NAME, Firing, Overlap, Schedule, WorkflowCall
from crawlfleet.model.requests import TaskRequest
from crawlfleet.model.task import JSON_NULL
from crawlfleet.model.translatable import Said
from crawlfleet.views.fields import instant, moment

OVER: Final = "over"
"""The state of a schedule that is active and never due again."""
MAX_SHOWN: Final = 1000
MAX_FILLED_BACK: Final = 1000
MAX_INSTANCES: Final = 1000

Seconds = Annotated[float, Meta(extra_json_schema={"minimum": 1})]
"""Checked with the rest of the rule, which reports all errors at once."""
Template = Annotated[
    msgspec.Raw,
    Meta(
        extra_json_schema={
            "anyOf": [{"$ref": "#/components/schemas/TaskRequest"}, {"type": "null"}]
        }
    ),
]


class ScheduledWorkflow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A workflow to be run by the clock."""

    name: str
    """Name of a workflow of the project, or its id."""
    version: Annotated[int, Meta(ge=1, le=2**31)] | None = None
    """Version of the workflow; when not set, the newest at each due instant."""
    parameters: dict[str, Any] = {}
    """Values by name, as the workflow document declares them."""
    project_id: str | None = None
    """Project of the workflow; when not set, `default`, or the project of the workflow's id."""


class ScheduleRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new schedule: starts a `task` or a `workflow`, by `cron` or `every_s`; one of each pair."""

    name: str
    """Letters, digits, dot, dash and underscore, at most 64; no other of the project has it."""
    task: TaskRequest | None = None
    """The task to submit at each due instant; its project is the schedule's."""
    workflow: ScheduledWorkflow | None = None
    """The workflow to run at each due instant; its project is the schedule's."""
    cron: str | None = None
    """Minute, hour, day of month, month, day of week; or `@hourly`, `@daily` and so on."""
    every_s: Seconds | None = None
    """Seconds from one due instant to the next, at least 1."""
    time_zone: str = UTC_NAME
    """Time zone of the `cron` expression, such as `Europe/Berlin`."""
    start_at: datetime | None = None
    """Nothing is due before this instant; intervals are counted from it."""
    end_at: datetime | None = None
    """Nothing is due from this instant on."""
    coalesce: bool = True
    """After a time without a master, start once for all missed instants, not once for each."""
    misfire_grace_s: Seconds | None = None
    """Seconds after which a missed start is skipped; `null` starts it however late it is."""
    max_instances: Annotated[
        int, Meta(extra_json_schema={"minimum": 1, "maximum": MAX_INSTANCES})
    ] = 1
    """Maximum number of its tasks or runs that are active at once."""
    overlap: Overlap = Overlap.SKIP
    """When `max_instances` is reached: `skip` the start, or `queue` one until there is room."""
    jitter_s: Annotated[float, Meta(extra_json_schema={"minimum": 0})] = 0.0
    """Maximum random delay of each start in seconds, always the same for the same due instant."""
    description: str = ""
    paused: bool = False
    """Create the schedule paused."""


class SchedulePatch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Changes to a schedule: a field that is left out stays as it is, `null` unsets an optional
    one."""

    task: TaskRequest | UnsetType = UNSET
    """Takes the place of a workflow."""
    workflow: ScheduledWorkflow | UnsetType = UNSET
    """Takes the place of a task."""
    cron: str | UnsetType | None = UNSET
    """Takes the place of an interval."""
    every_s: Seconds | UnsetType | None = UNSET
    """Takes the place of a cron expression."""
    time_zone: str | UnsetType = UNSET
    start_at: datetime | UnsetType | None = UNSET
    end_at: datetime | UnsetType | None = UNSET
    coalesce: bool | UnsetType = UNSET
    misfire_grace_s: Seconds | UnsetType | None = UNSET
    max_instances: int | UnsetType = UNSET
    overlap: Overlap | UnsetType = UNSET
    jitter_s: float | UnsetType = UNSET
    description: str | UnsetType = UNSET


class RunRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options for starting a schedule's task or workflow now."""

    force: bool = False
    """Start even if `max_instances` is reached."""


class BackfillRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The range of due instants to back-fill."""

    since: datetime
    """First instant of the range."""
    until: datetime
    """End of the range: only earlier instants count; it must not be in the future."""
    dry_run: bool = False
    """Report the starts without making them."""


class FiringView(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a due instant."""

    id: str
    due_at: datetime
    at: datetime
    """Time when the schedule handled it."""
    outcome: str
    """`started`, `queued`, `skipped`, `missed` or `refused`."""
    origin: str
    """`rule`, `run` or `backfill`."""
    task_id: str | None
    """The task that was started."""
    run_id: str | None
    """The run of a workflow that was started."""
    reason: str
    count: int
    """Number of due instants that this entry covers; `due_at` is the last of them."""
    first_due_at: datetime | None
    """The first due instant that this entry covers, where there are several."""
    edition: int

    @classmethod
    def of(cls, firing: Firing) -> Self:
        return cls(
            id=firing.id,
            due_at=moment(firing.due_at),
            at=moment(firing.at),
            outcome=str(firing.outcome),
            origin=str(firing.origin),
            task_id=firing.task_id,
            run_id=firing.run_id,
            reason=firing.reason,
            count=firing.count,
            first_due_at=instant(firing.first_due_at),
            edition=firing.edition,
        )


class FiringPage(msgspec.Struct, frozen=True, kw_only=True):
    items: list[FiringView]
    next_cursor: str | None


class ScheduledWorkflowView(msgspec.Struct, frozen=True, kw_only=True):
    """The workflow that a schedule runs."""

    id: str
    name: str
    version: int | None
    """Version that runs; `null`: the newest at each due instant."""
    parameters: dict[str, Any]

    @classmethod
    def of(cls, call: WorkflowCall) -> Self:
        return cls(id=call.id, name=call.name, version=call.number, parameters=call.parameters)


class ScheduleView(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule with its last start and its next due instant."""

    id: str
    name: str
    project_id: str
    description: str
    status: str
    """`active`, `paused`, or `over`: nothing is due any more."""
    cron: str | None
    every_s: float | None
    time_zone: str
    start_at: datetime | None
    end_at: datetime | None
    coalesce: bool
    misfire_grace_s: float | None
    max_instances: int
    overlap: str
    jitter_s: float
    task: Template
    """`null` when it runs a workflow."""
    workflow: ScheduledWorkflowView | None
    """`null` when it submits a task."""
    next_at: datetime | None
    """Time of the next start, including jitter; `null` while the schedule is paused or over."""
    running: list[str]
    """Tasks or runs of the schedule that are known not to have ended."""
    waiting_since: datetime | None
    """The due instant that waits for room."""
    last: FiringView | None
    edition: int
    """Increases when the rule or the task or workflow is changed."""
    created_at: datetime
    updated_at: datetime
    version: int

    @classmethod
    def of(cls, schedule: Schedule, next_at: float | None, running: Sequence[str]) -> Self:
        rule = schedule.rule
        call = schedule.workflow
        is_over = schedule.is_active and next_at is None
        return cls(
            id=schedule.id,
            name=schedule.name,
            project_id=schedule.project_id,
            description=schedule.description,
            status=OVER if is_over else str(schedule.status),
            cron=rule.cron,
            every_s=rule.every_s,
            time_zone=rule.time_zone,
            start_at=instant(rule.start_at),
            end_at=instant(rule.end_at),
            coalesce=rule.coalesce,
            misfire_grace_s=rule.misfire_grace_s,
            max_instances=rule.max_instances,
            overlap=str(rule.overlap),
            jitter_s=rule.jitter_s,
            task=schedule.task if call is None else JSON_NULL,
            workflow=None if call is None else ScheduledWorkflowView.of(call),
            next_at=instant(next_at),
            running=[*running],
            waiting_since=instant(schedule.waiting.due_at) if schedule.waiting else None,
            last=FiringView.of(schedule.last) if schedule.last else None,
            edition=schedule.edition,
            created_at=moment(schedule.created_at),
            updated_at=moment(schedule.updated_at),
            version=schedule.version,
        )


class SchedulePage(msgspec.Struct, frozen=True, kw_only=True):
    items: list[ScheduleView]
    next_cursor: str | None


class DueView(msgspec.Struct, frozen=True, kw_only=True):
    """A due instant to come."""

    due_at: datetime
    local: str
    """The due instant in the schedule's time zone."""
    starts_at: datetime
    """Start time, including jitter."""

    @classmethod
    def of(cls, due: float, starts_at: float, zone: tzinfo) -> Self:
        return cls(
            due_at=moment(due),
            local=datetime.fromtimestamp(due, zone).strftime("%a %Y-%m-%d %H:%M:%S %Z"),
            starts_at=moment(starts_at),
        )


class DuePage(msgspec.Struct, frozen=True, kw_only=True):
    time_zone: str
    items: list[DueView]


class BackfillReply(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a back-fill."""

    items: list[FiringView]
    """One for each due instant that was, or would be, dealt with now."""
    already: int
    """Due instants of the range that had been started before."""


class ScheduleReason(msgspec.Struct, frozen=True, kw_only=True):
    """Why a schedule does not run, or did not run."""

    code: Literal[
        "paused", "not_begun", "over", "waiting", "no_room", "missed", "refused", "skipped"
    ]
    message: str
    remedy: str
    values: dict[str, Said] = {}


class ScheduleExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """Why a schedule is (not) running."""

    schedule_id: str
    summary: str
    next_at: datetime | None
    reasons: list[ScheduleReason]
    """Reasons that prevent the next start or prevented the last one; empty when there are none."""

    @classmethod
    def of(
        cls, schedule: Schedule, summary: str, reasons: list[ScheduleReason], next_at: float | None
    ) -> Self:
        return cls(
            schedule_id=schedule.id, summary=summary, next_at=instant(next_at), reasons=reasons
        )
