"""Validation of schedules, and the changes that create, modify and remove them."""

from collections.abc import Iterator, Mapping
from datetime import datetime, timezone, tzinfo
from itertools import chain, islice
from math import ceil
from typing import Any, Final

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from crawlfleet.core.quality.expectations import in_series, of_schedule
from crawlfleet.core.tasks.admission import MAX_PROBLEMS
from crawlfleet.core.text.names import description_problems, name_problems
from crawlfleet.errors import FieldProblem
from crawlfleet.features.schedules.model import Rule, Schedule, ScheduleStatus, WorkflowCall
from crawlfleet.features.schedules.rules import cron
from crawlfleet.features.schedules.rules.recurrence import FURTHEST, Recurrence
from crawlfleet.features.schedules.views import MAX_INSTANCES, SchedulePatch, ScheduleRequest
from crawlfleet.model.change import NEVER, Change, Claim
from crawlfleet.model.event import Event
from crawlfleet.model.requests import TaskRequest
from crawlfleet.model.task import EMPTY_OBJECT

YEAR_S: Final = 366 * 86_400.0
MAX_JITTER_S: Final = 86_400.0
RULE_FIELDS: Final = tuple(Rule.__struct_fields__)
_INSTANTS: Final = ("start_at", "end_at")
SET_BACK_S: Final = 60.0
"""Tolerance in seconds: a clock that is behind by less was probably not set back, since those of
two masters differ."""
_WHEN: Final = ("cron", "every_s", "time_zone", "start_at", "end_at")
"""Fields of a rule that determine which instants are due."""


def rule_of(request: ScheduleRequest) -> Rule:
    """Return the rule of a request, with instants as seconds."""
    return Rule(**{name: _kept(getattr(request, name)) for name in RULE_FIELDS})


def rule_of_preview(query: Any) -> Rule:
    """Return the rule of a preview query, with instants as seconds."""
    return Rule(**{name: _kept(getattr(query, name)) for name in _WHEN})


def patched(rule: Rule, patch: SchedulePatch) -> Rule:
    """Return the rule with a patch applied. Setting one of `cron` and `every_s` removes the
    other."""
    given = {
        name: _kept(value) for name in RULE_FIELDS if (value := getattr(patch, name)) is not UNSET
    }
    if given.get("cron") is not None and "every_s" not in given:
        given["every_s"] = None
    if given.get("every_s") is not None and "cron" not in given:
        given["cron"] = None
    return replace(rule, **given)


def _kept(value: Any) -> Any:
    if not isinstance(value, datetime):
        return value
    # Without a zone it is that of the whole API.
    at = value if value.tzinfo else value.replace(tzinfo=timezone.utc)  # noqa: UP017
    return at.timestamp()


def problems_of(
    rule: Rule, zone: tzinfo | None, *, name: str = "", description: str = "", near: str = ""
) -> list[FieldProblem]:
    """Return the problems of a schedule, except those of its task; empty if there are none.

    `zone` is the time zone that the rule names, `None` if it is unknown; `near` is a similar name
    to suggest.
    """
    found = chain(
        _texts(name, description),
        _when(rule),
        _zone(rule, zone, near),
        _window(rule),
        _limits(rule),
    )
    return list(islice(found, MAX_PROBLEMS))


def work_problems(asked: ScheduleRequest | SchedulePatch) -> Iterator[FieldProblem]:
    """Yield the problems of the task or workflow that are specific to schedules."""
    has_task = isinstance(asked.task, TaskRequest)
    has_workflow = isinstance(asked.workflow, msgspec.Struct)
    if has_task and has_workflow:
        yield FieldProblem(
            field="workflow",
            message="is set beside task",
            remedy="set one of the two; a step of the workflow can do what the task does",
        )
    if isinstance(asked, ScheduleRequest) and not has_task and not has_workflow:
        yield FieldProblem(
            field="task",
            message="is missing, and so is workflow",
            remedy="set one of the two: what to submit, or which workflow to run",
        )
    if isinstance(asked.task, TaskRequest):
        yield from _template_problems(asked.task)


def _template_problems(request: TaskRequest) -> Iterator[FieldProblem]:
    if request.idempotency_key is not None:
        yield FieldProblem(
            field="task.idempotency_key",
            value=request.idempotency_key,
            message="would make one task for all times",
            remedy="leave it out: each due instant starts its task once in any case",
        )


def _texts(name: str, description: str) -> Iterator[FieldProblem]:
    if name:
        yield from name_problems(name)
    yield from description_problems(description)


def _when(rule: Rule) -> Iterator[FieldProblem]:
    if (rule.cron is None) == (rule.every_s is None):
        both = rule.cron is not None
        yield FieldProblem(
            field="cron",
            value=rule.cron,
            message="is set beside every_s" if both else "is missing, and so is every_s",
            remedy="set one of the two: cron for times of the day, every_s for an interval",
        )
    elif rule.cron is not None:
        read = cron.read(rule.cron)
        if isinstance(read, FieldProblem):
            yield read
    elif rule.every_s is not None and not 1 <= rule.every_s <= YEAR_S:
        yield _out_of_range("every_s", rule.every_s, 1, YEAR_S)


def _zone(rule: Rule, zone: tzinfo | None, near: str) -> Iterator[FieldProblem]:
    if zone is None:
        meant = f"did you mean {near!r}? " if near else ""
        yield FieldProblem(
            field="time_zone",
            value=rule.time_zone[:100],
            message="is not a time zone",
            remedy=f"{meant}use a name of the IANA database, such as Europe/Berlin, or UTC",
        )


def _window(rule: Rule) -> Iterator[FieldProblem]:
    for field in _INSTANTS:
        instant = getattr(rule, field)
        if instant is not None and not 0 <= instant <= FURTHEST:
            yield FieldProblem(
                field=field,
                value=None,
                message="is out of range",
                remedy="use an instant between the years 1970 and 2900",
            )
    if rule.start_at is not None and rule.end_at is not None and rule.end_at <= rule.start_at:
        yield FieldProblem(
            field="end_at",
            value=None,
            message="is not after start_at",
            remedy="let it end later, or leave one of the two out",
        )


def _limits(rule: Rule) -> Iterator[FieldProblem]:
    if not 1 <= rule.max_instances <= MAX_INSTANCES:
        yield _out_of_range("max_instances", rule.max_instances, 1, MAX_INSTANCES)
    if rule.misfire_grace_s is not None and not 1 <= rule.misfire_grace_s <= YEAR_S:
        yield _out_of_range("misfire_grace_s", rule.misfire_grace_s, 1, YEAR_S)
    longest = min(MAX_JITTER_S, MAX_JITTER_S if rule.every_s is None else rule.every_s)
    if not 0 <= rule.jitter_s <= longest:
        yield _out_of_range("jitter_s", rule.jitter_s, 0, max(longest, 0))


def _out_of_range(field: str, value: float, low: float, high: float) -> FieldProblem:
    remedy = f"use a number from {low:.15g} to {high:.15g}"
    return FieldProblem(field=field, value=value, message="is out of range", remedy=remedy)


_DEFAULTS: Final[Mapping[str, Any]] = {
    field.name: field.default
    if field.default_factory is msgspec.NODEFAULT
    else field.default_factory()
    for field in msgspec.structs.fields(TaskRequest)
}


def template_of(request: TaskRequest) -> msgspec.Raw:
    """Return a task request as JSON with the fields that differ from their defaults, and the
    project."""
    given = {
        name: value
        for name, default in _DEFAULTS.items()
        if (value := getattr(request, name)) != default or name == "project_id"
    }
    return msgspec.Raw(msgspec.json.encode(given))


def request_of(schedule: Schedule) -> TaskRequest:
    """Return the task request that a schedule submits. Its expectations are compared with the
    schedule's own earlier results, unless they name another series."""
    request = msgspec.json.decode(schedule.task, type=TaskRequest)
    if request.expectations is None:
        return request
    expected = in_series(request.expectations, of_schedule(schedule.name))
    return replace(request, expectations=expected)


def name_scope(project_id: str) -> str:
    """Return the claim scope in which schedule names of a project are unique."""
    return f"schedule:{project_id}"


def new_schedule(
    request: ScheduleRequest,
    call: WorkflowCall | None,
    *,
    project_id: str,
    id: str,
    now: float,
    cause: str,
) -> Change:
    """The change that makes a schedule and claims its name."""
    schedule = Schedule(
        id=id,
        project_id=project_id,
        name=request.name,
        description=request.description,
        created_at=now,
        updated_at=now,
        rule=rule_of(request),
        task=EMPTY_OBJECT if request.task is None else template_of(request.task),
        workflow=call,
        status=ScheduleStatus.PAUSED if request.paused else ScheduleStatus.ACTIVE,
        cause=cause,
        cursor=now,
    )
    return Change(
        rows=(schedule,),
        claims=(_claim(schedule, now, NEVER),),
        events=(_event("created", schedule, now, cause),),
    )


def changed_schedule(
    schedule: Schedule,
    patch: SchedulePatch,
    call: WorkflowCall | None = None,
    *,
    now: float,
    cause: str,
) -> Change | None:
    """Return the change that a patch makes; `None` when the schedule is like that already.

    `call` is the workflow that the patch names. A task replaces a workflow, and vice versa. If the
    patch changes the due instants, past ones are dropped.
    """
    rule = patched(schedule.rule, patch)
    task, workflow = schedule.task, schedule.workflow
    if patch.task is not UNSET:
        task, workflow = template_of(patch.task), None
    elif call is not None:
        task, workflow = EMPTY_OBJECT, call
    same_task = workflow == schedule.workflow and (
        msgspec.json.decode(task) == msgspec.json.decode(schedule.task)
    )
    same_rule = rule == schedule.rule
    description = schedule.description if patch.description is UNSET else patch.description
    if same_task and same_rule and description == schedule.description:
        return None
    same_instants = all(getattr(rule, name) == getattr(schedule.rule, name) for name in _WHEN)
    changed = replace(
        schedule,
        rule=rule,
        task=schedule.task if same_task else task,
        workflow=workflow,
        description=description,
        edition=schedule.edition + (not (same_task and same_rule)),
        cursor=schedule.cursor if same_instants else max(schedule.cursor, now),
    )
    return _changed(changed, "changed", now, cause)


def moved_schedule(
    schedule: Schedule, status: ScheduleStatus, *, now: float, cause: str
) -> Change | None:
    """Return the change that pauses or resumes a schedule; `None` when it is like that already.

    Instants that were due during a pause are not late after it.
    """
    if schedule.status is status:
        return None
    cursor = schedule.cursor
    if status is ScheduleStatus.ACTIVE:
        cursor = max(cursor, now)
    kind = "resumed" if status is ScheduleStatus.ACTIVE else "paused"
    moved = replace(schedule, status=status, cause=cause, cursor=cursor)
    return _changed(moved, kind, now, cause)


def set_back(schedule: Schedule, *, now: float) -> Change | None:
    """Return the change after the clock was set back behind the cursor; `None` if it was not, or by
    less than `SET_BACK_S`.

    A schedule by elapsed time continues from now, under a new edition, so that its instants get new
    ids. Times of the day do not come again.
    """
    if schedule.cursor <= now + SET_BACK_S or not follows_elapsed_time(schedule.rule):
        return None
    moved = replace(schedule, cursor=now, edition=schedule.edition + 1)
    return _changed(moved, "set_back", now, "the clock of the master was set back")


def follows_elapsed_time(rule: Rule) -> bool:
    """Return true if a rule goes by elapsed time, not by the time of the day."""
    if rule.cron is None:
        return True
    read = cron.read(rule.cron)
    return not isinstance(read, FieldProblem) and read.follows_the_clock


def removed_schedule(schedule: Schedule, *, now: float, cause: str) -> Change:
    """Return the change that removes a schedule and frees its name."""
    change = _changed(replace(schedule, removed_at=now, waiting=None), "removed", now, cause)
    return replace(change, claims=(_claim(schedule, now, now),))


def _changed(schedule: Schedule, kind: str, now: float, cause: str) -> Change:
    changed = replace(schedule, updated_at=now, version=schedule.version + 1)
    return Change(rows=(changed,), events=(_event(kind, changed, now, cause),))


def _claim(schedule: Schedule, now: float, expires_at: float) -> Claim:
    return Claim(
        scope=name_scope(schedule.project_id),
        key=schedule.name,
        holder=schedule.id,
        at=now,
        expires_at=expires_at,
    )


def _event(kind: str, schedule: Schedule, now: float, cause: str) -> Event:
    return Event(
        kind=f"schedule.{kind}",
        subject=schedule.id,
        at=now,
        cause=cause,
        details={"name": schedule.name},
        project_id=schedule.project_id,
    )


def essence(schedule: Schedule) -> tuple[object, ...]:
    """Return the requested fields of a schedule; two schedules of one name are the same request if
    equal."""
    work = msgspec.json.decode(schedule.task), schedule.workflow
    return schedule.project_id, schedule.name, schedule.description, schedule.rule, work


def recurrence_of(schedule: Schedule, zone: tzinfo) -> Recurrence:
    """Return the recurrence of a schedule in the time zone that it names."""
    made_at = schedule.created_at
    if schedule.cursor < made_at and (every := schedule.rule.every_s):
        # The clock was set back behind its beginning: even instants go on as they were counted.
        made_at -= every * ceil((made_at - schedule.cursor) / every)
    return Recurrence(schedule.rule, zone, made_at=made_at)
