"""Runs several worker processes for one crawl; this side keeps the frontier and the sinks.

Each worker process has an engine (`crawl.engine.process_main`), which asks for work and reports
results over a socket. When one dies, its leases go to the others, and a new process takes its
place.
"""

import asyncio
import socket
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

import msgspec

from crawlfleet.crawl.engine.work_queue_socket import (
    Errand,
    LeaseCall,
    Polite,
    WorkRequest,
    WorkResponse,
    receive,
    send,
)
from crawlfleet.crawl.work import WorkQueue
from crawlfleet.errors import CrawlfleetError, LedgerUnavailable, Refused
from crawlfleet.model.crawl.parameters import CrawlParameters
from crawlfleet.ports.ledger import Ledger
from crawlfleet.steady_clock import SteadyClock
from crawlfleet.telemetry import Component, logger

log = logger(Component.MASTER)
MAX_DEATHS: Final = 20
"""Maximum number of worker processes that may die in a row without reporting any results. Beyond
it, the crawl itself must be at fault."""
STOP_S: Final = 20.0


class CrewLost(CrawlfleetError):
    """Raised when the worker processes of a crawl die one after another."""


class Crew:
    """N worker processes, each with a work queue in this process."""

    def __init__(
        self,
        parameters: CrawlParameters,
        *,
        allow_private: bool,
        keep_bodies: bool,
        revisiting: bool,
        desk_of: Callable[[str], WorkQueue],
        gone: Callable[[str], Awaitable[None]],
        clock: SteadyClock,
        ledger: Ledger | None = None,
    ) -> None:
        """`desk_of` makes the work queue of a worker process by its name; `gone` is called when one
        has died."""
        self._ledger = ledger
        self._clock = clock
        self._errand = Errand(
            parameters=parameters,
            allow_private=allow_private,
            keep_bodies=keep_bodies,
            revisiting=revisiting,
        )
        self._size = parameters.workers
        self._desk_of = desk_of
        self._gone = gone
        self._deaths = 0

    async def run(self, until: asyncio.Event) -> None:
        """Work until the event is set and all worker processes have reported their results. Raises
        `CrewLost` when too many die."""
        try:
            async with asyncio.TaskGroup() as group:
                for number in range(self._size):
                    group.create_task(self._keep_one(number, until), name=f"mate {number}")
        except BaseExceptionGroup as errors:
            raise _first(errors) from None

    async def _keep_one(self, number: int, until: asyncio.Event) -> None:
        life = 0
        while not until.is_set():
            name = f"mate-{number}-{life}"
            life += 1
            code = await self._employ(name, until)
            await self._gone(name)
            if until.is_set() or code == 0:
                continue
            self._deaths += 1
            log.warning("a process of the crawl died", name=name, code=code)
            if self._deaths > MAX_DEATHS:
                raise CrewLost(
                    f"{self._deaths} processes of the crawl died without getting anything done; "
                    f"the last one with code {code}: see the log, and try --workers 1"
                )

    async def _employ(self, name: str, until: asyncio.Event) -> int:
        ours, theirs = socket.socketpair()
        with theirs:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",  # nothing is imported from the folder that the crawl was started in
                "-m",
                "crawlfleet.crawl.engine.process_main",
                str(theirs.fileno()),
                pass_fds=(theirs.fileno(),),
                stdin=asyncio.subprocess.DEVNULL,
                start_new_session=True,
            )
        reader, writer = await asyncio.open_connection(sock=ours)
        errand = msgspec.structs.replace(self._errand, set_by_s=self._clock.set_by_s)
        if self._ledger is not None:
            errand = msgspec.structs.replace(errand, engine=name)
        serving = asyncio.create_task(self._serve(errand, self._desk_of(name), reader, writer))
        ended = asyncio.create_task(process.wait())
        stopping = asyncio.create_task(until.wait())
        try:
            await asyncio.wait([serving, ended, stopping], return_when=asyncio.FIRST_COMPLETED)
            if until.is_set():
                with suppress(ConnectionError):
                    await send(writer, WorkResponse(id=0))
                with suppress(TimeoutError):
                    async with asyncio.timeout(STOP_S):
                        await ended
            if serving.done() and not serving.cancelled() and (error := serving.exception()):
                raise error
        finally:
            stopping.cancel()
            serving.cancel()
            writer.close()
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        return process.returncode or 0

    async def _serve(
        self,
        errand: Errand,
        desk: WorkQueue,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        """Answer the requests of a worker process until it closes the socket."""
        await send(writer, errand)
        async with asyncio.TaskGroup() as group:
            while (ask := await receive(reader, WorkRequest)) is not None:
                group.create_task(self._answer(desk, ask, writer))

    async def _answer(
        self, desk: WorkQueue, ask: WorkRequest, writer: asyncio.StreamWriter
    ) -> None:
        what = ask.what
        if isinstance(what, LeaseCall):
            leased = await desk.lease(
                hosts=what.hosts, urls=what.urls, held=what.held, now=what.now
            )
            answer = WorkResponse(id=ask.id, leased=leased)
        elif isinstance(what, Polite):
            answer = await self._politely(ask.id, what)
        else:
            answer = WorkResponse(id=ask.id, refused=[*await desk.hand_in(what)])
            self._deaths = 0
        with suppress(ConnectionError):
            await send(writer, answer)

    async def _politely(self, id: int, what: Polite) -> WorkResponse:
        assert self._ledger is not None, "mates ask where there is one"
        try:
            return WorkResponse(id=id, told=await self._ledger.ask(what.ask))
        except (LedgerUnavailable, Refused) as error:
            passing = isinstance(error, LedgerUnavailable)
            return WorkResponse(id=id, trouble=str(error), is_passing=passing)


def _first(error: BaseException) -> BaseException:
    """Return the first error in a group: one failure of the store or a sink reaches every worker
    process."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
