"""/api/v1/crawls"""

import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Final, Literal, NamedTuple
from urllib.parse import urlsplit

import msgspec
from starlette.responses import Response

from crawlfleet.api.examples import crawls as examples
from crawlfleet.api.http.parameters import (
    PageSize,
    check_cursor,
    check_id,
    invalid,
    parse_states,
    restricted,
)
from crawlfleet.api.http.routing import OPERATORS, READERS, Call, Example, Handler, Route, Scope
from crawlfleet.api.routes.crawl_downloads import (
    CSV,
    WARC,
    download,
    formats_of,
    rows_of,
    shortened,
    with_used_columns,
)
from crawlfleet.control.tasks.orders import TaskOrders
from crawlfleet.control.tasks.queries import TaskQueries
from crawlfleet.control.tasks.service import Tasks
from crawlfleet.core.crawls.kept_output import CRAWL
from crawlfleet.core.crawls.shared_crawl import crawl_of
from crawlfleet.core.tasks.orders import TaskOrder, Verb
from crawlfleet.errors import Conflict, InvalidRequest, NotFound, OutputUnavailable
from crawlfleet.features.crawls.frontiers import Frontiers
from crawlfleet.features.crawls.service import Crawls, CrawlVerb
from crawlfleet.features.crawls.views import (
    CrawlItem,
    CrawlItemPage,
    CrawlPage,
    CrawlView,
    OutputView,
    UrlExplanation,
)
from crawlfleet.features.crawls.work import CrawlWorkers
from crawlfleet.features.crawls.work_views import CrawlWork
from crawlfleet.model.crawl.figures import CrawlFigures
from crawlfleet.model.crawl.parameters import CrawlParameters
from crawlfleet.model.task import TERMINAL, Task, TaskStatus
from crawlfleet.model.wire.output import OutputSummary, Stream
from crawlfleet.ports.output import OutputStore
from crawlfleet.ports.store import TaskFilter
from crawlfleet.views.fields import instant, moment

MAX_SCANNED_ITEMS: Final = 50_000
"""Maximum number of items that are read for one page of a kind."""
_NUMBER: Final = re.compile(r"[0-9]{1,15}\Z")


class CrawlQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Filters, and which page."""

    status: str = ""
    """List only crawls whose task is in one of these states, separated by commas."""
    project_id: str | None = None
    """List only crawls of this project."""
    node_id: str | None = None
    """List only crawls that run, or ran last, on this node."""
    cursor: str | None = None
    """The `next_cursor` of the previous page."""
    limit: PageSize = 100
    """Maximum number of crawls in the page."""


class ItemQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    kind: str | None = None
    """List only items of this kind."""
    cursor: str | None = None
    """The `next_cursor` of the previous page."""
    limit: PageSize = 100
    """Maximum number of items in the page."""


class OutputQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    format: Literal["jsonl", "csv", "warc"] = "jsonl"
    """`jsonl`: one item per line as JSON; `csv`: one item per row, safe to open in a spreadsheet;
    `warc`: the pages themselves, if the crawl stores them."""
    offset: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)] = 0
    """Number of bytes to skip, to continue an interrupted download; only for a crawl that has
    ended."""


class UrlQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    url: Annotated[str, msgspec.Meta(min_length=1, max_length=5000)]
    """URL to look up, as written on a page or by a person; percent-encoded, it has to fit into a
    request."""


async def find(call: Call) -> CrawlPage:
    query: CrawlQuery = call.query
    filter = restricted(
        TaskFilter(
            status=parse_states(query.status),
            project_id=query.project_id,
            task_type=CRAWL,
            assigned_node=query.node_id,
        ),
        call.project_id,
    )
    if filter is None:
        return CrawlPage(items=[], next_cursor=None)
    tasks, cursor = await call.service(TaskQueries).find_tasks(
        filter, after=check_cursor(query.cursor), limit=query.limit, with_results=False
    )
    crawls = call.service(Crawls)
    views = [
        _brief(
            task,
            await crawls.figures(task),
            is_running=crawls.is_running(task),
            is_held=crawls.is_held(task),
        )
        for task in tasks
        if task.parent_id is None  # a shard is a part of a crawl, and none by itself
    ]
    return CrawlPage(items=views, next_cursor=cursor)


async def get(call: Call) -> CrawlView:
    return await _view(call, await _task(call))


async def items(call: Call) -> CrawlItemPage:
    query: ItemQuery = call.query
    task = await _task(call)
    number = first = _position(query.cursor)
    kept, completed = call.service(Crawls).output, task.status is TaskStatus.COMPLETED
    summary = await kept.summary(crawl_of(task), "items", completed=completed)
    if summary is None:
        if (why := await call.service(Crawls).why_missing(task)) is not None:
            raise Conflict(why)
        return CrawlItemPage(items=[], next_cursor=None)
    found: list[CrawlItem] = []
    pieces = kept.read(crawl_of(task), "items", completed=completed, skip=first)
    async with aclosing(pieces):
        async for lines in pieces:
            for kind, fields in rows_of(lines):
                if len(found) == query.limit or number - first >= MAX_SCANNED_ITEMS:
                    return _page(found, number, summary.columns)
                number += 1
                if query.kind in (None, kind):
                    found.append(CrawlItem(number=number, kind=kind, fields=shortened(fields)))
    return _page(found, None, summary.columns)


async def output(call: Call) -> Response:
    format, offset = call.query.format, call.query.offset
    task = await _task(call)
    if offset and task.status not in TERMINAL:
        raise Conflict(
            f"{task.id} is {task.status}, and only the output of a crawl that has ended stays as "
            "it is; ask for all of it"
        )
    kept = call.service(Crawls).output
    stream: Stream = "pages" if format == WARC else "items"
    items, pages = await _summaries(kept, task)
    summary = pages if format == WARC else items
    formats = formats_of(items, pages)
    if not formats:
        if (why := await call.service(Crawls).why_missing(task)) is not None:
            raise Conflict(why)
        raise Conflict(
            f"nothing of {task.id} is kept here: it has not begun, or its output goes to the "
            "`sinks` that it names"
        )
    if summary is None or format not in formats:
        lacking = "keeps no pages" if format == WARC else "has no fields that could be columns"
        told = " or ".join(f"format={each}" for each in formats)
        raise Conflict(f"{task.id} {lacking}; ask for {told}")

    def read() -> AsyncGenerator[bytes, None]:
        completed = task.status is TaskStatus.COMPLETED
        return kept.read(crawl_of(task), stream, completed=completed)

    if format == CSV and task.status in TERMINAL:
        summary = await with_used_columns(summary, read())
    return download(read(), summary, format, f"crawl-{task.id}", offset)


async def explain_url(call: Call) -> UrlExplanation:
    task = await _task(call)
    if task.status is TaskStatus.PROCESSING and task.parent_id is None:
        return await call.service(Crawls).explain(task, call.query.url)
    from crawlfleet.crawl.engine.crawl import (
        explained,  # a master that nobody asks need not know how
    )

    try:
        async with call.service(Frontiers).reading(task) as frontier:
            parameters = msgspec.json.decode(task.parameters, type=CrawlParameters)
            told = await explained(parameters, frontier, call.query.url)
    except NotFound:
        raise Conflict(
            f"{task.id} is {task.status}, and its books were on its node: only while it runs "
            "can it tell"
        ) from None
    return msgspec.convert(msgspec.to_builtins(told), UrlExplanation)


async def work(call: Call) -> CrawlWork:
    task = await call.service(Crawls).get(check_id("task", call.path["task_id"]))
    return await call.service(CrawlWorkers).of(task, project_id=call.project_id)


def _ordering(verb: CrawlVerb) -> Handler:
    async def handle(call: Call) -> CrawlView:
        task = await _task(call)
        crawls = call.service(Crawls)
        if verb is CrawlVerb.RESUME and task.is_parent and await _resume_shards(call, task):
            if crawls.is_running(task):
                await crawls.order(task, verb, by=call.caller.name)
            return await _view(call, await call.service(Tasks).get(task.id))
        by_itself = _BEFORE_IT_RUNS.get((verb, task.status))
        if by_itself is not None and not call.service(Crawls).is_running(task):
            order = TaskOrder(verb=by_itself, by=call.caller.name, project_id=call.project_id)
            task = await call.service(TaskOrders).carry_out_one(order, task.id)
        else:
            await call.service(Crawls).order(task, verb, by=call.caller.name)
        return await _view(call, await call.service(Tasks).get(task.id))

    return handle


async def _resume_shards(call: Call, task: Task) -> int:
    """Put the shards of a crawl that are paused, and run nowhere, back into the queue."""
    if task.status is not TaskStatus.WAITING:
        return 0
    paused = await _paused_shards(call, task)
    order = TaskOrder(verb=Verb.RESUME, by=call.caller.name, project_id=call.project_id)
    return len(paused and await call.service(TaskOrders).carry_out(order, paused))


async def _paused_shards(call: Call, task: Task) -> list[str]:
    shards = await call.service(TaskQueries).shards(task.id)
    return [each.id for each in shards if each.status is TaskStatus.PAUSED]


_BEFORE_IT_RUNS: Final = {
    (CrawlVerb.PAUSE, TaskStatus.PENDING): Verb.PAUSE,
    (CrawlVerb.PAUSE, TaskStatus.WAITING): Verb.PAUSE,
    (CrawlVerb.PAUSE, TaskStatus.PAUSED): Verb.PAUSE,
    (CrawlVerb.RESUME, TaskStatus.PAUSED): Verb.RESUME,
    (CrawlVerb.RESUME, TaskStatus.PENDING): Verb.RESUME,
}
"""Orders for a crawl that has not begun are carried out as for any other task."""


async def _task(call: Call) -> Task:
    return await call.service(Crawls).get(check_id("task", call.path["task_id"]))


async def _summaries(
    kept: OutputStore, task: Task
) -> tuple[OutputSummary | None, OutputSummary | None]:
    """Return the summaries of items and of pages; `None` where there is no such output."""
    completed = task.status is TaskStatus.COMPLETED
    return (
        await kept.summary(crawl_of(task), "items", completed=completed),
        await kept.summary(crawl_of(task), "pages", completed=completed),
    )


async def _view(call: Call, task: Task) -> CrawlView:
    crawls = call.service(Crawls)
    is_running, is_held = crawls.is_running(task), crawls.is_held(task)
    brief = _brief(task, None, is_running=is_running, is_held=is_held)
    figures = await crawls.figures(task)
    state = _state(task, figures, is_running=is_running, is_held=is_held)
    is_split = task.is_parent and task.status is TaskStatus.WAITING
    if is_split and not is_running and await _paused_shards(call, task):
        state = str(TaskStatus.PAUSED)  # they lost their nodes since, and wait for nothing else
    kept = crawls.output
    shown, missing = None, ""
    try:
        summary, pages = await _summaries(kept, task)
    except OutputUnavailable as error:  # all else about the crawl can be shown
        summary, pages, missing = None, None, str(error)
    if summary is None and pages is None and not missing:
        missing = await call.service(Crawls).why_missing(task) or ""
    if summary is not None:
        shown = OutputView(
            items=summary.items,
            bytes=summary.bytes + (pages.bytes if pages else 0),
            columns=summary.columns,
            formats=formats_of(summary, pages),
        )
    return msgspec.structs.replace(
        brief,
        figures=figures,
        state=state,
        output=shown,
        output_missing=missing,
    )


def _brief(
    task: Task, figures: CrawlFigures | None, *, is_running: bool, is_held: bool
) -> CrawlView:
    """Return the view of a crawl in a list."""
    url = _address(task)
    if figures is not None:
        figures = msgspec.structs.replace(figures, hosts=(), rates=())
    return CrawlView(
        task_id=task.id,
        state=_state(task, figures, is_running=is_running, is_held=is_held),
        project=task.project_id,
        name=_name(url),
        url=url,
        created_at=moment(task.created_at),
        node_id=task.assigned_node,
        started_at=instant(task.started_at),
        finished_at=instant(task.completed_at) if task.status in TERMINAL else None,
        figures=figures,
    )


def _state(task: Task, figures: CrawlFigures | None, *, is_running: bool, is_held: bool) -> str:
    """Return the state of the task; a parent that waits for running shards counts as processing."""
    if is_held or (is_running and figures is not None and figures.is_paused):
        return str(TaskStatus.PAUSED)
    is_waiting = task.is_parent and task.status is TaskStatus.WAITING
    return str(TaskStatus.PROCESSING if is_running and is_waiting else task.status)


class _Addresses(msgspec.Struct):
    url: str | None = None
    urls: list[str] = []


def _address(task: Task) -> str:
    try:
        addresses = msgspec.json.decode(task.parameters, type=_Addresses)
    except msgspec.DecodeError:
        return ""
    return addresses.url or next(iter(addresses.urls), "")


def _name(url: str) -> str:
    try:
        return urlsplit(url).hostname or url
    except ValueError:
        return url


def _position(cursor: str | None) -> int:
    if cursor is None:
        return 0
    if not _NUMBER.match(cursor):
        raise _bad_cursor(cursor)
    return int(cursor)


def _bad_cursor(cursor: str) -> InvalidRequest:
    return invalid(
        "cursor",
        "is not a cursor",
        "send the next_cursor of the page before, or none for the first page",
        cursor[:40],
    )


def _page(found: list[CrawlItem], next: int | None, columns: tuple[str, ...]) -> CrawlItemPage:
    cursor = None if next is None else str(next)
    return CrawlItemPage(items=found, next_cursor=cursor, columns=columns)


_CRAWL: Final = "/api/v1/crawls/{task_id}"
_ASKED: Final = (
    "Answers with the crawl when its node has obeyed; 503 when the node did not answer within ten "
    "seconds: ask again."
)


class _Words(NamedTuple):
    summary: str
    details: str = ""


_ORDERS: Final = {
    CrawlVerb.PAUSE: _Words(
        "Hold a crawl",
        details="It finishes the requests that are under way, and begins no more until it is "
        "resumed. Its place on the node stays taken, and its task's `timeout` goes on. One that "
        "has not begun is held as a task. ",
    ),
    CrawlVerb.RESUME: _Words("Let a crawl go on"),
    CrawlVerb.STOP: _Words(
        "End a crawl with what it has",
        details="It completes: its output is finished, and its result says what was found so "
        "far. To throw a crawl away, cancel its task. ",
    ),
}


def _order_route(verb: CrawlVerb) -> Route:
    words = _ORDERS[verb]
    return Route(
        name=f"{verb}_crawl",
        method="POST",
        path=f"{_CRAWL}:{verb}",
        roles=OPERATORS,
        scope=Scope.PATH,
        handler=_ordering(verb),
        client=f'steer(task_id, "{verb}")',
        command=f"crawls {verb}",
        summary=words.summary,
        details=words.details + _ASKED,
        response=CrawlView,
        conflicts=True,
    )


ROUTES: Final[tuple[Route, ...]] = (
    Route(
        name="list_crawls",
        method="GET",
        path="/api/v1/crawls",
        roles=READERS,
        scope=Scope.OWN,
        handler=find,
        client='crawls(status="processing")',
        command="crawls list",
        summary="List crawls, newest first",
        details="`figures` are without `hosts` and `rates` here.",
        query=CrawlQuery,
        response=CrawlPage,
        example=Example(response=examples.CRAWLS),
    ),
    Route(
        name="get_crawl",
        method="GET",
        path=_CRAWL,
        roles=READERS,
        scope=Scope.PATH,
        handler=get,
        client="crawl(task_id)",
        command="crawls show",
        summary="One crawl, with its live figures",
        details="`state` is that of the task, and `paused` while the crawl is held. `figures` "
        "are [what was committed](../guides/crawling.md#what-the-figures-count) over all "
        "attempts, a second old at most; the last ones stay when the crawl is over. `hosts` are "
        "the most blocked and the slowest, 50 at most; `depths` counts the known URLs by their "
        "distance from a seed; `rates` says how many pages each of the last stretches of ten "
        "seconds brought. `output` is what can be read now; it is not there where the crawl has "
        "sinks of its own. `output_missing` says why output that ought to be here cannot be "
        "read: most often the store was [restored](../guides/backup.md#what-is-not-in-it) "
        "without it. `items` and `output` answer 409 then.",
        response=CrawlView,
        example=Example(response=examples.CRAWL),
    ),
    Route(
        name="list_crawl_items",
        method="GET",
        path=f"{_CRAWL}/items",
        roles=READERS,
        scope=Scope.PATH,
        handler=items,
        client='crawl_items(task_id, kind="products")',
        command="crawls items",
        summary="What a crawl has found so far, page by page",
        details="With `kind`, a page may be short, or empty, and still have a `next_cursor`. "
        "Only what is committed is shown: an item that was there stays, unless its node dies "
        "and the crawl begins anew elsewhere. Texts of more than 2,000 characters are cut; the "
        "output has them whole. What stands in an item comes from a site: show it as text and "
        "nothing else.",
        query=ItemQuery,
        response=CrawlItemPage,
        example=Example(response=examples.CRAWL_ITEMS),
    ),
    Route(
        name="get_crawl_output",
        method="GET",
        path=f"{_CRAWL}/output",
        roles=READERS,
        scope=Scope.PATH,
        handler=output,
        client='download_crawl(task_id, format="csv")',
        command="crawls download",
        summary="Download what a crawl has found",
        details="`format` is `jsonl` (one item a line, as `application/x-ndjson`), `csv`, or "
        "`warc` for crawls with `fleet:pages` among their `sinks`. Where a crawl has items of "
        "several kinds, each has its `kind`. In CSV, a text that a spreadsheet would calculate "
        "has an apostrophe before it. Of a crawl that runs you get what is committed so far. Of "
        "one that has ended, `offset` leaves out so many bytes at the beginning, to go on with "
        "a download that broke off. 409 when nothing is kept here.",
        query=OutputQuery,
        response=str,
        media_types=("application/x-ndjson", "text/csv", "application/warc"),
        conflicts=True,
    ),
    Route(
        name="explain_crawl_url",
        method="GET",
        path=f"{_CRAWL}/urls",
        roles=READERS,
        scope=Scope.PATH,
        handler=explain_url,
        client='explain_url(task_id, "https://shop.example/")',
        command="crawls why",
        summary="What became of a URL in a crawl",
        details="Whether the URL was found, where and when, how its visit ended, or which rule "
        "keeps it out. Asked of the node while the crawl runs, and of its frontier afterwards; "
        "the frontier of a crawl with `frontier: node`, or with `sinks` of its own, is gone "
        "when the crawl is over (409).",
        query=UrlQuery,
        response=UrlExplanation,
        conflicts=True,
        example=Example(response=examples.URL_EXPLANATION),
    ),
    Route(
        name="get_crawl_work",
        method="GET",
        path=f"{_CRAWL}/work",
        roles=READERS,
        scope=Scope.PATH,
        handler=work,
        client="crawl_work(task_id)",
        command="crawls work",
        summary="Who does what in a crawl",
        details="`shards` with their nodes (the crawl itself where it was not split); the "
        "`partitions` of its frontier with those who hold hosts of them, and the `hosts` with "
        "the longest queues, while somebody works with the frontier and the master that is "
        "asked has it; `keys`: the hosts, registered domains and addresses that the crawl "
        "visits as the fleet's ledger sees them, with delays, grants, pauses, and the crawls "
        "and lists that visit them (those of projects that the key may not see are only "
        "counted). Lists are bounded (256 partitions with 16 holders each, 50 hosts, 100 keys), "
        "and totals say of how many they are the first. Where `frontier` or `ledger` has a "
        "word, nothing is told of it: `closed` (nobody works with it now, or it is on the "
        "node), `elsewhere` (ask the master that leads), `away` (there is no ledger, or it does "
        "not answer).",
        response=CrawlWork,
        example=Example(response=examples.CRAWL_WORK),
    ),
    *(_order_route(verb) for verb in CrawlVerb),
)
