"""/api/v1/schedules"""

from collections.abc import Sequence
from datetime import datetime
from http import HTTPStatus
from typing import Annotated, Final

import msgspec

from crawlfleet.api.examples import schedules as examples
from crawlfleet.api.http.etags import tagged, wanted_version
from crawlfleet.api.http.parameters import (
    PageQuery,
    PageSize,
    check_id,
    check_name_cursor,
    seconds_of,
)
from crawlfleet.api.http.routing import (
    OPERATORS,
    READERS,
    Call,
    Example,
    Handler,
    Reply,
    Route,
    Scope,
)
from crawlfleet.api.routes.tasks import in_scope
from crawlfleet.errors import FieldProblem, InvalidRequest
from crawlfleet.features.schedules.model import UTC_NAME, Firing, Schedule, ScheduleStatus
from crawlfleet.features.schedules.rules.schedules import rule_of_preview
from crawlfleet.features.schedules.service import Schedules, Upcoming
from crawlfleet.features.schedules.views import (
    MAX_SHOWN,
    BackfillReply,
    BackfillRequest,
    DuePage,
    DueView,
    FiringPage,
    FiringView,
    RunRequest,
    ScheduledWorkflow,
    ScheduleExplanation,
    SchedulePage,
    SchedulePatch,
    ScheduleRequest,
    ScheduleView,
    Seconds,
)
from crawlfleet.model.requests import TaskRequest

Count = Annotated[int, msgspec.Meta(ge=1, le=MAX_SHOWN)]


class ScheduleQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Filters, and which page."""

    project_id: str | None = None
    """List only schedules of this project."""
    name: str | None = None
    """List only the schedule with this name."""
    cursor: str | None = None
    """The `next_cursor` of the previous page."""
    limit: PageSize = 100
    """Maximum number of schedules in the page."""


class NextQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    after: datetime | None = None
    """First instant of the range; now when not set."""
    count: Count = 10
    """Maximum number of due instants."""


class PreviewQuery(NextQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A rule that is not stored."""

    cron: str | None = None
    """A cron expression."""
    every_s: Seconds | None = None
    """Interval in seconds, instead of `cron`."""
    time_zone: str = UTC_NAME
    """Time zone of the `cron` expression."""
    start_at: datetime | None = None
    """Nothing is due before this instant."""
    end_at: datetime | None = None
    """Nothing is due from this instant on."""


async def create(call: Call) -> Reply:
    request: ScheduleRequest = call.body
    if request.task is not None:
        request = msgspec.structs.replace(request, task=_in_scope(call, request.task))
    if request.workflow is not None:
        own = _workflow_in_scope(call, request.workflow)
        request = msgspec.structs.replace(request, workflow=own)
    schedule, created = await call.service(Schedules).create(request, by=call.caller.name)
    return await _reply(call, schedule, created=created)


async def find(call: Call) -> SchedulePage:
    query: ScheduleQuery = call.query
    after = check_name_cursor(query.cursor)
    own = call.project_id
    if own is not None and query.project_id not in (None, own):
        return SchedulePage(items=[], next_cursor=None)
    found = call.service(Schedules).page(
        after=after,
        limit=query.limit + 1,
        project_id=own if own is not None else query.project_id,
        name=query.name,
    )
    page = found[: query.limit]
    return SchedulePage(
        items=[_view(call, each, each.running) for each in page],
        next_cursor=page[-1].id if len(found) > len(page) else None,
    )


async def get(call: Call) -> Reply:
    return await _reply(call, await call.service(Schedules).find(_id(call)))


async def change(call: Call) -> Reply:
    patch: SchedulePatch = call.body
    if patch.task is not msgspec.UNSET:
        patch = msgspec.structs.replace(patch, task=_in_scope(call, patch.task))
    if patch.workflow is not msgspec.UNSET:
        own = _workflow_in_scope(call, patch.workflow)
        patch = msgspec.structs.replace(patch, workflow=own)
    schedule = await call.service(Schedules).change(
        _id(call), patch, by=call.caller.name, if_version=wanted_version(call)
    )
    return await _reply(call, schedule)


def _move(status: ScheduleStatus) -> Handler:
    async def handle(call: Call) -> Reply:
        schedule = await call.service(Schedules).move(
            _id(call), status, by=call.caller.name, if_version=wanted_version(call)
        )
        return await _reply(call, schedule)

    return handle


async def remove(call: Call) -> Reply:
    schedule = await call.service(Schedules).remove(
        _id(call), by=call.caller.name, if_version=wanted_version(call)
    )
    return await _reply(call, schedule)


async def run(call: Call) -> FiringView:
    request: RunRequest = call.body
    fired = await call.service(Schedules).run(_id(call), force=request.force, by=call.caller.name)
    return FiringView.of(fired)


async def fill_back(call: Call) -> BackfillReply:
    request: BackfillRequest = call.body
    firings, already = await call.service(Schedules).fill_back(
        _id(call),
        seconds_of(request.since),
        seconds_of(request.until),
        dry_run=request.dry_run,
        by=call.caller.name,
    )
    return BackfillReply(items=_firings(firings), already=already)


async def upcoming(call: Call) -> DuePage:
    query: NextQuery = call.query
    found = await call.service(Schedules).upcoming(
        _id(call), after=_after(query), count=query.count
    )
    return _due_page(found)


async def preview(call: Call) -> DuePage:
    query: PreviewQuery = call.query
    return _due_page(
        call.service(Schedules).preview(
            rule_of_preview(query), after=_after(query), count=query.count
        )
    )


async def history(call: Call) -> FiringPage:
    query: PageQuery = call.query
    after = check_name_cursor(query.cursor)
    found = await call.service(Schedules).history(_id(call), after=after, limit=query.limit + 1)
    page = found[: query.limit]
    return FiringPage(
        items=_firings(page), next_cursor=page[-1].id if len(found) > len(page) else None
    )


async def explain(call: Call) -> ScheduleExplanation:
    schedule, summary, reasons = await call.service(Schedules).explain(_id(call))
    return ScheduleExplanation.of(
        schedule, summary, reasons, call.service(Schedules).next_at(schedule)
    )


def _in_scope(call: Call, task: TaskRequest) -> TaskRequest:
    own = in_scope(call, task)
    if isinstance(own, FieldProblem):
        raise InvalidRequest([msgspec.structs.replace(own, field=f"task.{own.field}")])
    return own


def _workflow_in_scope(call: Call, workflow: ScheduledWorkflow) -> ScheduledWorkflow:
    own = call.project_id
    if own is None or workflow.project_id == own:
        return workflow
    if workflow.project_id is not None:
        problem = FieldProblem(
            field="workflow.project_id",
            message="is not the project that this key is bound to",
            remedy=f"leave it out, or send {own}",
            value=workflow.project_id,
        )
        raise InvalidRequest([problem])
    return msgspec.structs.replace(workflow, project_id=own)


def _after(query: NextQuery) -> float | None:
    return None if query.after is None else seconds_of(query.after)


def _due_page(found: Upcoming) -> DuePage:
    return DuePage(
        time_zone=str(found.zone),
        items=[DueView.of(due, starts, found.zone) for due, starts in found.items],
    )


def _firings(found: Sequence[Firing]) -> list[FiringView]:
    return [FiringView.of(each) for each in found]


def _id(call: Call) -> str:
    return check_id("schedule", call.path["schedule_id"])


def _view(call: Call, schedule: Schedule, running: Sequence[str]) -> ScheduleView:
    return ScheduleView.of(schedule, call.service(Schedules).next_at(schedule), running)


async def _reply(call: Call, schedule: Schedule, *, created: bool = False) -> Reply:
    running = await call.service(Schedules).running(schedule)
    return tagged(
        call,
        _view(call, schedule, running),
        schedule.version,
        volatile=bool(schedule.running),
        status=HTTPStatus.CREATED if created else HTTPStatus.OK,
        headers={"Location": f"/api/v1/schedules/{schedule.id}"} if created else None,
    )


_SCHEDULE: Final = "/api/v1/schedules/{schedule_id}"

ROUTES: Final = (
    Route(
        name="list_schedules",
        method="GET",
        path="/api/v1/schedules",
        roles=READERS,
        scope=Scope.OWN,
        handler=find,
        client='schedules(name="nightly")',
        command="schedules list",
        summary="List schedules, in order of their making",
        details="`running` may name tasks and runs that have ended meanwhile.",
        query=ScheduleQuery,
        response=SchedulePage,
    ),
    Route(
        name="create_schedule",
        method="POST",
        path="/api/v1/schedules",
        roles=OPERATORS,
        scope=Scope.OWN,
        handler=create,
        client='create_schedule("nightly", task, cron="@daily", start_at=since)',
        command="schedules create",
        summary="Have a task submitted, or a workflow run, by the clock",
        details="`name` is yours to choose, and unique within the project. `task` or "
        "`workflow`, one of the two: `task` is what [`POST /api/v1/tasks`](#post-apiv1tasks) "
        "takes, but for `idempotency_key`; `workflow` has the `name` (or id) of one that is "
        "kept, and perhaps `version` (the newest at each due instant when not set), "
        "`parameters` and `project_id`. `cron` or `every_s`, one of the two; `time_zone`, "
        "`start_at`, `end_at`, `jitter_s` belong to them. `coalesce`, `misfire_grace_s`, "
        "`max_instances` and `overlap` (`skip` or `queue`) say what happens when that cannot be "
        "kept. `description` is for people; `paused` makes it without letting it begin. Answers "
        "201 with `Location`, or 200 when the same schedule was there before.",
        body=ScheduleRequest,
        response=ScheduleView,
        statuses=(HTTPStatus.CREATED, HTTPStatus.OK),
        conflicts=True,
        example=Example(request=examples.SCHEDULE_REQUEST),
    ),
    Route(
        name="preview_schedule",
        method="GET",
        path="/api/v1/schedules:preview",
        roles=READERS,
        scope=Scope.OWN,
        handler=preview,
        client='preview_schedule(cron="@daily", after=since)',
        command="schedules next",
        summary="When something would be due",
        details="By `cron` or `every_s`, `time_zone`, `start_at` and `end_at`: the next "
        "`count` (1 to 1000, 10 by default) instants, from now on or from `after` on. Nothing "
        "is made.",
        query=PreviewQuery,
        response=DuePage,
        example=Example(response=examples.DUE_PAGE),
    ),
    Route(
        name="get_schedule",
        method="GET",
        path=_SCHEDULE,
        roles=READERS,
        scope=Scope.PATH,
        handler=get,
        client="schedule(schedule_id)",
        command="schedules show",
        summary="A schedule, and what it did last",
        details='One that runs a workflow has `task` `null` and `workflow` `{"id", "name", '
        '"version", "parameters"}`, where `version` is `null` for the newest; its firings '
        "have `run_id` instead of `task_id`, and `running` names runs.",
        response=ScheduleView,
        etag=True,
        example=Example(response=examples.SCHEDULE),
    ),
    Route(
        name="change_schedule",
        method="PATCH",
        path=_SCHEDULE,
        roles=OPERATORS,
        scope=Scope.PATH,
        handler=change,
        client="change_schedule(schedule_id, every_s=60, if_version=2)",
        command="schedules change",
        summary="Change what is done, or when",
        details="The fields are those of [a new schedule](#post-apiv1schedules). "
        "What is left out stays as it is; `null` takes back what need not be set; and "
        "naming one of `cron` and `every_s`, or of `task` and `workflow`, takes back the other. "
        "Where other instants are due than before, those of the past are not made up for.",
        body=SchedulePatch,
        response=ScheduleView,
        conflicts=True,
        etag=True,
        example=Example(request=examples.SCHEDULE_PATCH),
    ),
    Route(
        name="pause_schedule",
        method="POST",
        path=f"{_SCHEDULE}:pause",
        roles=OPERATORS,
        scope=Scope.PATH,
        handler=_move(ScheduleStatus.PAUSED),
        client="pause_schedule(schedule_id)",
        command="schedules pause",
        summary="Start nothing for a schedule until it is resumed",
        details="What runs goes on.",
        response=ScheduleView,
        conflicts=True,
        etag=True,
    ),
    Route(
        name="resume_schedule",
        method="POST",
        path=f"{_SCHEDULE}:resume",
        roles=OPERATORS,
        scope=Scope.PATH,
        handler=_move(ScheduleStatus.ACTIVE),
        client="resume_schedule(schedule_id)",
        command="schedules resume",
        summary="Let a schedule go on",
        details="What would have been due during the pause is not made up for; `:backfill` does.",
        response=ScheduleView,
        conflicts=True,
        etag=True,
    ),
    Route(
        name="run_schedule",
        method="POST",
        path=f"{_SCHEDULE}:run",
        roles=OPERATORS,
        scope=Scope.PATH,
        handler=run,
        client="run_schedule(schedule_id, force=True)",
        command="schedules run",
        summary="Start at once what a schedule starts",
        details="Beside its rule, also while it is paused; 409 when as many of its tasks or "
        "runs as may be are at work, unless `force` is true.",
        body=RunRequest,
        response=FiringView,
        conflicts=True,
        example=Example(response=examples.RUN),
    ),
    Route(
        name="backfill_schedule",
        method="POST",
        path=f"{_SCHEDULE}:backfill",
        roles=OPERATORS,
        scope=Scope.PATH,
        handler=fill_back,
        client="backfill_schedule(schedule_id, since, until, dry_run=True)",
        command="schedules backfill",
        summary="Make up for due instants of a range that started nothing",
        details="From `since` on and before `until`, which is not in the future: all of them "
        "at once, up to 1,000, whatever `max_instances` says, or none. With `dry_run` only "
        "told. Sent again, it starts nothing twice.",
        body=BackfillRequest,
        response=BackfillReply,
        conflicts=True,
        example=Example(request=examples.BACKFILL_REQUEST, response=examples.BACKFILL_REPLY),
    ),
    Route(
        name="remove_schedule",
        method="POST",
        path=f"{_SCHEDULE}:remove",
        roles=OPERATORS,
        scope=Scope.PATH,
        handler=remove,
        client="remove_schedule(schedule_id)",
        command="schedules remove",
        summary="Take a schedule away",
        details="What it has started goes on; its name is free.",
        response=ScheduleView,
        conflicts=True,
        etag=True,
    ),
    Route(
        name="list_schedule_next",
        method="GET",
        path=f"{_SCHEDULE}/next",
        roles=READERS,
        scope=Scope.PATH,
        handler=upcoming,
        client="schedule_next(schedule_id, count=3)",
        command="schedules next",
        summary="When a schedule is due next",
        details="`count` and `after` as for `:preview`; as if it were not paused.",
        query=NextQuery,
        response=DuePage,
    ),
    Route(
        name="list_schedule_history",
        method="GET",
        path=f"{_SCHEDULE}/history",
        roles=READERS,
        scope=Scope.PATH,
        handler=history,
        client="schedule_history(schedule_id)",
        command="schedules history",
        summary="What became of a schedule's due instants, newest first",
        query=PageQuery,
        response=FiringPage,
        example=Example(response=examples.HISTORY),
    ),
    Route(
        name="explain_schedule",
        method="GET",
        path=f"{_SCHEDULE}:explain",
        roles=READERS,
        scope=Scope.PATH,
        handler=explain,
        client="explain_schedule(schedule_id)",
        command="schedules explain",
        summary="Why a schedule is (not) running",
        details="`code` is a stable word: `paused`, `not_begun`, `over`, `waiting`, `no_room`, "
        "`missed`, `refused` or `skipped`.",
        response=ScheduleExplanation,
        example=Example(response=examples.EXPLANATION),
    ),
)
