"""/api/v1/quality, and the quality of single tasks."""

import re
from typing import Final

import msgspec

from crawlfleet.api.examples import quality as examples
from crawlfleet.api.http.parameters import NAME, PageSize, check_id, invalid
from crawlfleet.api.http.routing import OPERATORS, READERS, Call, Example, Handler, Route, Scope
from crawlfleet.control.quality import Quality
from crawlfleet.control.tasks.service import Tasks
from crawlfleet.model.ids import ALPHABET, BODY_LENGTH, MEASURED
from crawlfleet.model.project import DEFAULT_PROJECT
from crawlfleet.model.quality import Decision
from crawlfleet.views.quality import (
    DecisionRequest,
    MeasuredRunPage,
    MeasuredRunView,
    SeriesPage,
    SeriesView,
)

_NAME: Final = r"(?:-|[A-Za-z0-9][A-Za-z0-9._-]{0,99})\Z"
SERIES: Final = re.compile(_NAME)
WHOLE: Final = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,63}}/{_NAME}")
CURSOR: Final = re.compile(rf"{MEASURED}-[{ALPHABET}]{{{BODY_LENGTH}}}\Z")


class QualitySeriesQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    project_id: str | None = None
    """List only series of this project."""
    cursor: str | None = None
    """The `next_cursor` of the previous page."""
    limit: PageSize = 100
    """Maximum number of series in the page."""


class MeasuredRunsQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    project_id: str | None = None
    """Project of the series; when not set, the project of the key, or `default`."""
    cursor: str | None = None
    """The `next_cursor` of the previous page."""
    limit: PageSize = 50
    """Maximum number of runs in the page."""


async def find(call: Call) -> SeriesPage:
    query: QualitySeriesQuery = call.query
    own, wanted = call.project_id, query.project_id
    after = _cursor(query.cursor, WHOLE)
    if (own is not None and wanted not in (None, own)) or not _is_project(wanted):
        return SeriesPage(items=[], next_cursor=None)
    found = await call.service(Quality).series(
        project_id=wanted if own is None else own, after=after, limit=query.limit + 1
    )
    page = found[: query.limit]
    return SeriesPage(
        items=[SeriesView.of(each) for each in page],
        next_cursor=page[-1].series if len(found) > len(page) else None,
    )


async def runs(call: Call) -> MeasuredRunPage:
    query: MeasuredRunsQuery = call.query
    series, own = check_id("series", call.path["series_id"]), call.project_id
    after = _cursor(query.cursor, CURSOR)
    project_id = query.project_id or own or DEFAULT_PROJECT
    if not SERIES.match(series) or not _is_project(project_id) or own not in (None, project_id):
        return MeasuredRunPage(items=[], next_cursor=None)
    found = await call.service(Quality).runs(project_id, series, after=after, limit=query.limit + 1)
    page = found[: query.limit]
    return MeasuredRunPage(
        items=[MeasuredRunView.of(each) for each in page],
        next_cursor=page[-1].id if len(found) > len(page) else None,
    )


async def of_task(call: Call) -> MeasuredRunPage:
    task = await call.service(Tasks).get(_id(call))
    found = await call.service(Quality).of_task(task.id)
    return MeasuredRunPage(items=[MeasuredRunView.of(each) for each in found], next_cursor=None)


def _decide(decision: Decision) -> Handler:
    async def handle(call: Call) -> MeasuredRunView:
        request: DecisionRequest = call.body
        task = await call.service(Tasks).get(_id(call))
        run = await call.service(Quality).decide(
            task.id, decision, by=call.caller.name, reason=request.reason
        )
        return MeasuredRunView.of(run)

    return handle


def _is_project(text: str | None) -> bool:
    return text is None or NAME.match(text) is not None


def _cursor(text: str | None, pattern: re.Pattern[str]) -> str | None:
    if text is not None and not pattern.match(text):
        raise invalid(
            "cursor",
            "is not a cursor",
            "send the next_cursor of the page before, or none for the first page",
            text[:100],
        )
    return text


def _id(call: Call) -> str:
    return check_id("task", call.path["task_id"])


_TASK: Final = "/api/v1/tasks/{task_id}"

ROUTES: Final = (
    Route(
        name="list_series",
        method="GET",
        path="/api/v1/quality",
        roles=READERS,
        scope=Scope.OWN,
        handler=find,
        client='quality(project_id="shop")',
        command="quality list",
        summary="List series of measured tasks, each with its newest run",
        details="In order of project and name. `project_id` restricts; pages: `limit` (1 to "
        "1000, 100 by default), `cursor`. `verdict` is `ok`, `drifted`, `failed` or "
        "`unmeasured`; `decision` is `none`, `held`, `accepted` or `rejected`.",
        query=QualitySeriesQuery,
        response=SeriesPage,
        example=Example(response=examples.SERIES_PAGE),
    ),
    Route(
        name="list_measured_runs",
        method="GET",
        path="/api/v1/quality/{series_id}",
        roles=READERS,
        scope=Scope.OWN,
        handler=runs,
        client="measured_runs(series_id)",
        command="quality show",
        summary="The measured runs of a series, newest first",
        details="`series_id` is its name, and `project_id` says whose series it is; that of "
        "the key, or `default`, when not set. `fields` has for each field how many items have "
        "it (`present`), have a value in it (`filled`), and what the values are; of an unknown "
        "series there is nothing.",
        query=MeasuredRunsQuery,
        response=MeasuredRunPage,
        example=Example(response=examples.RUN_PAGE),
    ),
    Route(
        name="list_task_quality",
        section="quality",
        method="GET",
        path=f"{_TASK}/quality",
        roles=READERS,
        scope=Scope.PATH,
        handler=of_task,
        client="task_quality(task_id)",
        command="quality task",
        summary="What was measured of a task, and what people said about it, newest first",
        details="A page of measured runs. Nothing while the task has not ended, and for tasks "
        "without `expectations`; several runs for a task that was sent back to work.",
        response=MeasuredRunPage,
        example=Example(response=examples.RUN_PAGE),
    ),
    Route(
        name="accept_task",
        section="quality",
        method="POST",
        path=f"{_TASK}:accept",
        roles=OPERATORS,
        scope=Scope.PATH,
        handler=_decide(Decision.ACCEPTED),
        client='accept(task_id, reason="a sale")',
        command="quality accept",
        summary="Accept items that are not as expected",
        details="Steps that wait for it go on, and later runs of the series are compared with "
        "this one: it is what is usual from now on. `reason` (up to 500 characters) is for "
        "whoever looks later. Answers with the measured run; 409 when it was as expected, or "
        "rejected before.",
        body=DecisionRequest,
        response=MeasuredRunView,
        conflicts=True,
        example=Example(request=examples.DECISION),
    ),
    Route(
        name="reject_task",
        section="quality",
        method="POST",
        path=f"{_TASK}:reject",
        roles=OPERATORS,
        scope=Scope.PATH,
        handler=_decide(Decision.REJECTED),
        client="reject(task_id)",
        command="quality reject",
        summary="Reject items that are not as expected",
        details="A step that waits for it fails. The task itself stays as it is.",
        body=DecisionRequest,
        response=MeasuredRunView,
        conflicts=True,
        example=Example(request=examples.DECISION),
    ),
)
