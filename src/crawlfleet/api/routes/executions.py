"""/api/v1/executions, and the logs of executions page by page or live."""

from collections.abc import AsyncGenerator
from contextlib import ExitStack, aclosing
from datetime import datetime
from typing import Annotated, Final

import msgspec
from starlette.responses import Response

from crawlfleet.api.examples import tasks
from crawlfleet.api.http.bodies import JSON
from crawlfleet.api.http.parameters import EventNumber, PageSize, check_id, seconds_of
from crawlfleet.api.http.routing import READERS, Call, Example, Route, Scope
from crawlfleet.api.http.streaming import STREAM, Stream, resumed, while_live
from crawlfleet.control.logs.executions import LogNews, Logs
from crawlfleet.control.tasks.service import Tasks
from crawlfleet.core.logs.search import make_filter
from crawlfleet.errors import StoreUnavailable
from crawlfleet.model.log import LogLevel
from crawlfleet.views.executions import ExecutionView, LogLineView, LogPage


class LogQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    after: EventNumber = 0
    """List only lines with a higher number."""
    limit: PageSize = 100
    """Maximum number of lines in a page; a stream has no limit."""
    level: LogLevel = LogLevel.DEBUG
    """List only lines of this level and of higher levels."""
    q: Annotated[str, msgspec.Meta(max_length=500)] = ""
    """List only lines with this text in their message or fields (as `name=value`), ignoring
    case."""
    regex: bool = False
    """Treat `q` as a regular expression in the syntax of RE2; begin it with `(?i)` to ignore
    case."""
    since: datetime | None = None
    """List only lines from this instant on."""
    until: datetime | None = None
    """List only lines before this instant."""
    follow: bool = False
    """Continue with new lines until the execution has ended, as server-sent events."""


async def get(call: Call) -> ExecutionView:
    execution = await call.service(Logs).execution(_id(call))
    return ExecutionView.of(execution, call.service(Logs).progress(execution.id))


async def logs(call: Call) -> LogPage | Response:
    execution = await call.service(Logs).execution(_id(call))
    return await _logs(call, execution.id)


async def task_logs(call: Call) -> LogPage | Response:
    task = await call.service(Tasks).get(check_id("task", call.path["task_id"]))
    newest = await call.service(Logs).newest_execution(task.id)
    if newest is None:
        return LogPage(execution_id=None, items=[], next_cursor=None)
    return await _logs(call, newest.id)


async def _logs(call: Call, execution_id: str) -> LogPage | Response:
    query: LogQuery = call.query
    wanted = make_filter(
        query.q,
        is_regex=query.regex,
        least=query.level,
        since=_seconds(query.since),
        until=_seconds(query.until),
    )
    if query.follow or STREAM in call.headers.get("accept", ""):
        place = ExitStack()
        after = resumed(call.headers, query.after) or 0
        name = call.caller.key_id or ""
        following = call.service(Logs).follow(execution_id, after=after, wanted=wanted, name=name)
        news = while_live(place.enter_context(following), call)
        return Stream(_written(news), place)
    found, cursor = await call.service(Logs).find(
        execution_id, after=query.after, limit=query.limit, wanted=wanted
    )
    return LogPage(
        execution_id=execution_id,
        items=[LogLineView.of(line) for line in found],
        next_cursor=cursor,
    )


async def _written(following: AsyncGenerator[LogNews, None]) -> AsyncGenerator[bytes, None]:
    """The news in the format of server-sent events."""
    try:
        async with aclosing(following):
            async for news in following:
                if news.is_end:
                    yield b"id: %d\nevent: end\ndata: {}\n\n" % news.position
                elif not news.lines:
                    yield b": nothing new\nid: %d\n\n" % news.position
                else:
                    yield b"".join(
                        b"id: %d\nevent: line\ndata: %s\n\n"
                        % (line.seq, msgspec.json.encode(LogLineView.of(line)))
                        for line in news.lines
                    )
    except StoreUnavailable:
        return  # the reader comes back, and goes on where it was


def _seconds(at: datetime | None) -> float | None:
    return None if at is None else seconds_of(at)


def _id(call: Call) -> str:
    return check_id("execution", call.path["execution_id"])


_EXECUTION: Final = "/api/v1/executions/{execution_id}"

ROUTES: Final = (
    Route(
        name="get_execution",
        method="GET",
        path=_EXECUTION,
        roles=READERS,
        scope=Scope.PATH,
        handler=get,
        client="execution(execution_id)",
        command="tasks executions",
        summary="One attempt",
        details="`progress` is there while it runs; afterwards `metrics` has the last of it as "
        "`progress_done` and `progress_total`.",
        response=ExecutionView,
        example=Example(response=tasks.EXECUTION),
    ),
    Route(
        name="list_execution_logs",
        method="GET",
        path=f"{_EXECUTION}/logs",
        roles=READERS,
        scope=Scope.PATH,
        handler=logs,
        client="logs(execution_id)",
        command="logs",
        summary="What an attempt said, in order, or as it says it",
        details="Search: `q` finds a text in the message or in the fields of a line, as "
        "`name=value`, in any case; with `regex=true` it is a regular expression in the syntax "
        "of [RE2](https://github.com/google/re2/wiki/Syntax): no look-around, no "
        "back-references; `(?i)` at its beginning for any case. `since` and `until` go by the "
        "node's clock. A search takes half a second at most for each page: then a page has "
        "fewer lines than were asked for, perhaps none, and `next_cursor` is the `after` to go "
        "on with. All of it holds for a stream, too.\n\n"
        "With `follow=true`, or with `Accept: text/event-stream`, the lines come live as "
        "[server-sent events](../guides/api.md#streams), with all that was said before: `id` is "
        "the line's number, `event` is `line`, `data` its JSON. After the last line of an "
        "attempt that has ended comes an `event: end`. A stream that breaks, or ends without "
        "that after 15 minutes, goes on after the number in `Last-Event-ID` or `after`. Up to "
        "100 may follow at once, 50 with one key.\n\n"
        "A line may have 2,000 characters and 4,000 bytes of fields. Of a log that is larger "
        "than `worker.execution_log_mb` (1 MB) the node keeps the first and the last lines; in "
        "their midst a line says how many were left out. A line that was answered survives the "
        "death of its node. Lines are kept for `retention.logs_days` (7), and of all logs "
        "together `retention.logs_mb` (2,000) at most ([guide](../guides/logs.md)).",
        query=LogQuery,
        response=LogPage,
        media_types=(JSON, STREAM),
        example=Example(response=tasks.LOGS),
    ),
    Route(
        name="list_task_logs",
        method="GET",
        path="/api/v1/tasks/{task_id}/logs",
        roles=READERS,
        scope=Scope.PATH,
        handler=task_logs,
        client="task_logs(task_id)",
        command="logs",
        summary="What the newest attempt at a task said",
        details="All parameters are as for [the attempt "
        "itself](#get-apiv1executionsexecution_idlogs). A task that was not attempted yet has "
        "no lines (`execution_id` is `null`), and cannot be followed.",
        query=LogQuery,
        response=LogPage,
        media_types=(JSON, STREAM),
    ),
)
