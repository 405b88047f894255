"""`crawlfleet crawl` on a fleet: submits the crawl, watches it, and downloads its output.

The crawl belongs to the fleet: the command may be stopped and run again. It finds its crawl by an
idempotency key made of the request, which is saved with the command's other state.
"""

import asyncio
import contextlib
import hashlib
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from crawlfleet.cli.crawl.display import REMEDIES, Display, print_explanation
from crawlfleet.cli.crawl.download import PATIENCE_S, PAUSE_S, Download
from crawlfleet.cli.crawl.outputs import OPTION, OutputFile
from crawlfleet.cli.crawl.progress import Sight, sight_from_afar, slowest_in
from crawlfleet.cli.crawl.state import CrawlState, SubmittedCrawl
from crawlfleet.cli.shell.access import Access
from crawlfleet.cli.shell.command import reach
from crawlfleet.cli.shell.errors import FAILED, say
from crawlfleet.cli.shell.loop import run
from crawlfleet.cli.shell.output import span
from crawlfleet.client import Client
from crawlfleet.crawl.engine.build import checked
from crawlfleet.crawl.engine.crawl import Summary, UrlAnswer
from crawlfleet.crawl.output.sinks import open_sink
from crawlfleet.errors import (
    ConfigError,
    Conflict,
    FieldProblem,
    InvalidRequest,
    MasterUnreachable,
    NotFound,
)
from crawlfleet.features.crawls.views import CrawlView
from crawlfleet.model.crawl.extraction import EmptyFields
from crawlfleet.model.crawl.figures import CrawlFigures
from crawlfleet.model.crawl.parameters import CrawlParameters, Outcome, SinkSpec
from crawlfleet.stop_signals import on_stop_signal

TASK_TYPE: Final = "web_crawl"
INTERRUPTED: Final = 130
ENDED_EARLY: Final = 3
NOTHING_FETCHED: Final = 4
ENDED: Final = frozenset({"completed", "failed", "timeout", "cancelled"})
MOMENT_S: Final = 0.5
"""Seconds by which a master may record the start of an execution too late."""
LAST_FIGURES_S: Final = 5.0
"""Seconds to wait for the last figures of a crawl, which arrive separately from its end."""
EXPLAIN_EVERY: Final = 5
"""A crawl that does not run yet is explained again after this many polls."""
BARREN: Final = "no page could be fetched"
SLOWEST: Final = 10


class CrawlOrder(msgspec.Struct, frozen=True, kw_only=True):
    """The crawl that the command is to run on a fleet."""

    parameters: CrawlParameters
    outputs: tuple[OutputFile, ...]
    fresh: bool = False
    cancels: bool = False
    """An interrupt cancels the crawl; otherwise the command only stops watching it."""
    project: str | None = None


def check(order: CrawlOrder) -> None:
    """Raise `InvalidRequest` that names the problem, before anything is sent."""
    _, plan = checked(order.parameters)
    for output in order.outputs:
        if output.path is None:
            raise InvalidRequest(
                [
                    FieldProblem(
                        field=OPTION,
                        message="is a table, and what a fleet has found comes as files",
                        remedy="name a file, or leave out --fleet and --master",
                        value=output.name,
                    )
                ]
            )
        open_sink(output.spec, plan)


def request_of(order: CrawlOrder) -> dict[str, Any]:
    """The task for the fleet, without its key: the parameters that differ from the defaults."""
    archives = any(output.spec.format == "warc" for output in order.outputs)
    sinks = (SinkSpec(url="fleet:pages"),) if archives else ()
    asked = msgspec.structs.replace(order.parameters, sinks=sinks)
    usual = msgspec.to_builtins(CrawlParameters())
    request: dict[str, Any] = {"parameters": _differing(msgspec.to_builtins(asked), usual)}
    return request | ({"project_id": order.project} if order.project else {})


def key_of(request: Mapping[str, Any]) -> str:
    """Return the idempotency key of a crawl: alike for the same command, so that it finds its crawl
    again."""
    asked = msgspec.json.encode(request, order="sorted")
    return f"crawl-{hashlib.sha256(asked).hexdigest()[:32]}"


class FleetCrawl:
    """One crawl on a fleet, as the command sees it."""

    def __init__(
        self, order: CrawlOrder, state: CrawlState, display: Display, fleet: Client
    ) -> None:
        self._order = order
        self._state = state
        self._display = display
        self._fleet = fleet
        self._sight = Sight()
        self._seen = asyncio.Event()
        self._id = ""
        self._has_ended = False
        self._has_warned = False

    async def run(self) -> tuple[int, Summary | None]:
        """Run until the crawl has ended and its files are written, or a stop signal arrives. Return
        the exit code and the summary; `None` in its place unless the crawl completed."""
        stop = asyncio.Event()
        with on_stop_signal(stop.set):
            return await self._run_until(stop)

    async def _run_until(self, stop: asyncio.Event) -> tuple[int, Summary | None]:
        whole = asyncio.create_task(self._whole(), name="crawl")
        stopped = asyncio.create_task(stop.wait(), name="stop")
        try:
            async with self._display.shown(self._look, stop):
                await asyncio.wait([whole, stopped], return_when=asyncio.FIRST_COMPLETED)
            if not whole.done():
                await self._leave(whole)
                return INTERRUPTED, None
            summary = whole.result()
            if summary is None:
                return await complain(self._fleet, self._id), None
            return self._told(summary)
        finally:
            for task in (whole, stopped):
                task.cancel()
            await asyncio.wait([whole, stopped])

    async def _look(self) -> Sight:
        # What it had done before anybody looked is no speed.
        await self._seen.wait()
        return self._sight

    async def _whole(self) -> Summary | None:
        """Run the crawl, write its files and return its summary; `None` when it did not
        complete."""
        await self._hand_over()
        crawl = await self._followed()
        self._has_ended = True
        if crawl.state != "completed":
            return None
        crawl = await self._with_last_figures(crawl)
        download = Download(self._fleet, crawl, self._state, tell=self._tell_download)
        sizes = await download.put_all(self._order.outputs)
        files: dict[str, Mapping[str, Any]] = {
            str(path): {"path": str(path), "items": crawl.output.items, "bytes": size}
            for path, size in sizes.items()
            if crawl.output is not None
        }
        return summary_of(crawl, self._order.parameters, files)

    # Handing it over.

    async def _hand_over(self) -> None:
        """Find the crawl that an earlier run submitted, or submit one."""
        request = request_of(self._order)
        key = key_of(request)
        sent = self._state.sent
        if sent is not None and sent.task_id:
            crawl = await self._known(sent.task_id)
            if crawl is not None:
                self._id = sent.task_id
                if not sent.key.startswith(key):
                    self._display.say("it goes on with the options that it was begun with")
                await self._take_up(crawl)
                return
            sent = None  # its task was removed, and its key is used up
            key = _another(key)
        elif sent is None and self._order.fresh:
            key = _another(key)
        sent = sent or SubmittedCrawl(key=key)
        self._state.send(sent)
        try:
            receipt = await self._fleet.submit(TASK_TYPE, idempotency_key=sent.key, **request)
        except Conflict:
            # The task of this key was removed, or something that a new key does not help.
            sent = SubmittedCrawl(key=_another(key))
            self._state.send(sent)
            receipt = await self._fleet.submit(TASK_TYPE, idempotency_key=sent.key, **request)
        self._id = receipt.id
        self._state.send(msgspec.structs.replace(sent, task_id=receipt.id))
        self._display.say(f"on the fleet it is {receipt.id}")
        await self._take_up(await self._fleet.crawl(receipt.id))

    async def _known(self, task_id: str) -> CrawlView | None:
        try:
            return await self._fleet.crawl(task_id)
        except NotFound:
            return None

    async def _take_up(self, crawl: CrawlView) -> None:
        """Continue a crawl that was submitted before; retry it when it did not complete."""
        if crawl.state == "completed" and crawl.finished_at is not None:
            ago = span((datetime.now(UTC) - crawl.finished_at).total_seconds())
            self._display.say(f"{crawl.task_id} has done this crawl {ago} ago; --fresh crawls anew")
        elif crawl.state in ENDED:
            await self._fleet.act(crawl.task_id, "retry")
            self._display.say(f"{crawl.task_id} was {crawl.state}, and is tried again")

    # Watching it.

    async def _followed(self) -> CrawlView:
        """Wait until the crawl has ended and return it. The master may be unreachable for up to
        `PATIENCE_S`, as during a restart."""
        loop = asyncio.get_running_loop()
        heard_at, looks, remark = loop.time(), 0, ""
        while True:
            try:
                crawl = await self._fleet.crawl(self._id)
                if crawl.state in ENDED:
                    return crawl
                if looks % EXPLAIN_EVERY == 0 or crawl.state == "processing":
                    remark = await self._remark(crawl)
                heard_at, looks = loop.time(), looks + 1
                self._sight = sight_from_afar(crawl.figures, remark=remark)
                self._warn(crawl.figures)
                self._seen.set()
            except MasterUnreachable as error:
                if loop.time() - heard_at > PATIENCE_S:
                    raise
                self._sight = msgspec.structs.replace(
                    self._sight, remark=f"waiting for the master: {error}"
                )
            await asyncio.sleep(PAUSE_S)

    def _warn(self, figures: CrawlFigures | None) -> None:
        """Say once that selectors catch nothing."""
        if figures is not None and figures.empty_fields and not self._has_warned:
            self._has_warned = True
            self._display.warn(EmptyFields(figures.empty_fields, figures.pages))

    async def _remark(self, crawl: CrawlView) -> str:
        """Return the reason why a crawl does not run; empty while it runs."""
        if crawl.state == "paused":
            return f"paused; `crawlfleet crawls resume {self._id}` lets it go on"
        if crawl.state == "processing":
            return ""
        return (await self._fleet.explain(self._id)).summary

    async def _with_last_figures(self, crawl: CrawlView) -> CrawlView:
        """Return the crawl with its final figures, which may arrive shortly after its end; after
        `LAST_FIGURES_S` with the last known ones."""
        deadline = asyncio.get_running_loop().time() + LAST_FIGURES_S
        while crawl.figures is None or not crawl.figures.is_final:
            if asyncio.get_running_loop().time() > deadline:
                break
            await asyncio.sleep(PAUSE_S / 4)
            try:
                crawl = await self._fleet.crawl(self._id)
            except MasterUnreachable:
                continue
        return crawl

    def _tell_download(self, size: int) -> None:
        remark = f"fetching what it found: {size / 1e6:,.1f} MB"
        self._sight = msgspec.structs.replace(self._sight, remark=remark)

    # The end.

    async def _leave(self, whole: "asyncio.Task[Any]") -> None:
        """Stop after an interrupt: cancel the crawl if the order says so, and say whether it
        continues."""
        whole.cancel()
        await asyncio.wait([whole])
        if not self._id:
            self._display.say("stopped before the fleet had answered; the same command asks again")
        elif self._has_ended:
            self._display.say(
                f"{self._id} has ended, and its output is not here yet; the same command goes on "
                "fetching it"
            )
        elif self._order.cancels:
            await self._fleet.act(self._id, "cancel")
            self._display.say(f"{self._id} is cancelled; the same command lets it go on")
        else:
            self._display.say(
                f"detached: {self._id} goes on without you; the same command watches it again and "
                f"fetches what it finds, `crawlfleet crawls show {self._id}` looks at it, and "
                f"`crawlfleet tasks cancel {self._id}` ends it"
            )

    def _told(self, summary: Summary) -> tuple[int, Summary]:
        """Say how it ended."""
        if summary.finished:
            summary = self._state.end(summary)
        self._display.end(
            summary,
            self._state.name,
            next="on a fleet a crawl that has ended does not go on; --fresh crawls anew",
        )
        return 0 if summary.finished else ENDED_EARLY, summary


async def complain(fleet: Client, task_id: str) -> int:
    """Say why a crawl has not completed; the exit code."""
    task = await fleet.task(task_id)
    why = task.error.message if task.error else ""
    if BARREN in why:
        crawl = await fleet.crawl(task_id)
        outcomes = crawl.figures.outcomes if crawl.figures else {}
        say(why, "; ".join(_remedies(outcomes)))
        return NOTHING_FETCHED
    say(
        f"{task_id} {task.status}{f': {why}' if why else ''}",
        f"the same command tries again; `crawlfleet tasks show {task_id}` tells its story, and "
        f"`crawlfleet crawls download {task_id}` has what it found",
    )
    return FAILED


def summary_of(
    crawl: CrawlView, parameters: CrawlParameters, files: dict[str, Mapping[str, Any]]
) -> Summary:
    """Return the summary of a completed crawl on a fleet, in the form of one that ran on this
    machine."""
    figures = crawl.figures or CrawlFigures()
    most, most_s = parameters.limits.max_pages, parameters.limits.max_seconds
    waiting = figures.waiting + figures.in_flight
    finished = not waiting or (most is not None and figures.pages >= most)
    begun = crawl.started_at or crawl.created_at
    elapsed_s = (crawl.finished_at - begun).total_seconds() if crawl.finished_at else 0.0
    why = "finished" if finished else "ended early, as ordered"
    if not finished and most_s is not None and elapsed_s >= most_s - MOMENT_S:
        why = f"limits.max_seconds ({most_s:g}) are over"
    return Summary(
        finished=finished,
        why=why,
        pages=figures.pages,
        urls=figures.known,
        waiting=waiting,
        outcomes=dict(figures.outcomes),
        empty_fields=dict(figures.empty_fields),
        depths=dict(enumerate(figures.depths)),
        items=crawl.output.items if crawl.output else figures.items,
        requests=figures.requests,
        bytes=figures.bytes,
        retries=figures.retries,
        rejected={"links": figures.rejected} if figures.rejected else {},
        slowest=dict(slowest_in(figures, SLOWEST)),
        elapsed_s=elapsed_s,
        requests_per_s=figures.requests / elapsed_s if elapsed_s > 0 else 0.0,
        failed=figures.failed,
        output=files,
        task_id=crawl.task_id,
    )


def _remedies(outcomes: Mapping[str, int]) -> list[str]:
    found = [REMEDIES[outcome] for outcome in outcomes if outcome in REMEDIES]
    if outcomes.get(Outcome.REFUSED):
        found.append("the nodes must allow it as well (`worker.allow_private`)")
    return found


def _differing(asked: Any, usual: Any) -> dict[str, Any]:
    """Return the values of a struct that differ from the defaults, section by section."""
    return {
        name: _differing(value, usual[name])
        if isinstance(value, dict) and isinstance(usual[name], dict) and usual[name]
        else value
        for name, value in asked.items()
        if value != usual[name]
    }


def _another(key: str) -> str:
    """A key for the same crawl, done once more."""
    return f"{key}-{secrets.token_hex(4)}"


def crawl_on_fleet(
    order: CrawlOrder, access: Access, state: CrawlState, *, quiet: bool
) -> tuple[int, Summary | None]:
    """Crawl, or go on watching: the exit code, and how it ended if it did and completed."""
    check(order)
    display = Display(quiet=quiet)
    with state.held():
        fleet = reach(access)
        if order.fresh:
            _forget(state, display)
        elif (ended := state.finished()) is not None:
            display.already_done(ended, state.name, on_fleet=True)
            return 0, ended
        state.begin(replacing=order.fresh)
        display.begin(order.parameters, resumed=state.resumed, again=False)
        return run(_crawl(order, fleet, state, display))


def explain_on_fleet(access: Access, state: CrawlState, url: str) -> None:
    """Print the record of a URL in the crawl that the same command submitted."""
    sent = state.sent
    if sent is None or not sent.task_id:
        raise ConfigError(
            f"no crawl of a fleet into {state.name} is known here; repeat its whole command, with "
            "--why, or ask with `crawlfleet crawls why`"
        )
    told = run(_explanation(access, sent.task_id, url))
    print_explanation(told)


def _forget(state: CrawlState, display: Display) -> None:
    """Forget the saved crawl, and name an earlier one that may still run."""
    earlier = None
    with contextlib.suppress(ConfigError):  # what cannot be read need not be known
        earlier = state.sent
    state.forget()
    if earlier is not None and earlier.task_id:
        display.say(
            f"{earlier.task_id} is left as it is; if it still runs, `crawlfleet tasks cancel "
            f"{earlier.task_id}` ends it"
        )


async def _crawl(
    order: CrawlOrder, fleet: Client, state: CrawlState, display: Display
) -> tuple[int, Summary | None]:
    async with fleet:
        return await FleetCrawl(order, state, display, fleet).run()


async def _explanation(access: Access, task_id: str, url: str) -> UrlAnswer:
    async with reach(access) as fleet:
        told = await fleet.explain_url(task_id, url)
    return UrlAnswer(url=told.url, record=told.record, refused_by=told.refused_by, why=told.why)
