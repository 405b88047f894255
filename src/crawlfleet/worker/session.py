"""One session of a node: take leases, run them, report, and stop in time.

The session is over for this node when its own monotonic clock says that the master may have given
the work away: a timeout after it *sent* the last message that was answered. It then stops every
executor, since somebody else may be doing the same work already. What ended and was not answered
is kept for the next session to hand in; those that say the same again do no harm.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import msgspec

from crawlfleet import telemetry
from crawlfleet.errors import MasterUnreachable, Refused
from crawlfleet.model.cluster import NodeTerms
from crawlfleet.model.messages import (
    Assignment,
    Heartbeat,
    LeaseRequest,
    Registered,
    ReportKind,
    ReportOutcome,
    StopOrder,
)
from crawlfleet.model.resources import Usage
from crawlfleet.model.task import ErrorClass, TaskError
from crawlfleet.ports.execution import Attempt, ControlLink, ExecutorPool, NotBegun, ReportKeeper
from crawlfleet.ports.system import System
from crawlfleet.telemetry import Component, logger
from crawlfleet.worker.conversation import Conversation
from crawlfleet.worker.notes import LOG_BYTES, Notes
from crawlfleet.worker.pace import Pace
from crawlfleet.worker.pauses import Pauses, chance_of
from crawlfleet.worker.reports import Reports
from crawlfleet.worker.session_end import SessionEnd
from crawlfleet.worker.warming import Warming

log = logger(Component.WORKER)
RETRY_PAUSE_S: Final = 0.2
LONGEST_PAUSE_S: Final = 1.0
LEAST_PAUSE_S: Final = 0.5
"""Between two heartbeats, however often connections break."""
LAST_REPORTS_S: Final = 3.0
REMEMBERED: Final = 10_000
"""Far more than can be under way at once; forgetting one costs a refused report at worst."""
READY_AT_MOST_S: Final = 1.0
"""What lies ready for longer is given back: another node may have room for it."""
FULL_PAUSE_S: Final = 0.5
"""How soon to look again whether there is room for finished work."""
SAFETY_SHARE: Final = 0.15
"""Stop acting this share of the timeout early, besides the time that stopping takes."""

Measure = Callable[[], Awaitable[Usage]]
"""What the node measures of itself now."""


class WorkSession:
    """Runs what is assigned to the node from registration until the session ends."""

    def __init__(
        self,
        *,
        link: ControlLink,
        pool: ExecutorPool,
        system: System,
        registered: Registered,
        asked_at: float,
        measure: Measure,
        slots: int,
        stop_grace_s: float,
        long_poll_s: float,
        stopping: asyncio.Event,
        keeper: ReportKeeper,
        log_bytes: int = LOG_BYTES,
        warming: Warming | None = None,
    ) -> None:
        self._link = link
        self._warming = warming or Warming(None)
        self._keeper = keeper
        self._pool = pool
        self._system = system
        self._registered = registered
        self._node_id = registered.node_id
        self._session_id = registered.session_id
        self._interval_s = registered.heartbeat_interval_s
        self._stop_grace_s = stop_grace_s
        self._timeout_s = registered.session_timeout_s
        self._version: int | None = None
        self._beats = 0
        self._new_terms = asyncio.Event()
        self._beat_soon = asyncio.Event()
        """A connection broke: the master may take the node for dead, or another one is next."""
        self._measure = measure
        self._usage = Usage()
        self._offered_slots = self._slots = slots
        self._long_poll_s = long_poll_s
        self._stopping = stopping
        self._valid_until = asked_at + self._valid_s
        self._held: dict[str, Assignment] = {}
        """Executions that are running here, or whose end the master has not confirmed."""
        self._ready: dict[str, Assignment] = {}
        """Held, in order, until a slot is free."""
        self._running: dict[str, asyncio.Task[None]] = {}
        """Those that the pool has; more than there are slots when it can be sent some ahead."""
        self._is_next_due = False
        self._one_waits = False
        """For a slot: nothing overtakes it by being sent ahead."""
        self._pace = Pace(asked_at)
        self._notes = Notes(
            link=link,
            system=system,
            node_id=registered.node_id,
            session_id=registered.session_id,
            cap_bytes=log_bytes,
        )
        self._talk = Conversation(self._notes, link=link, pool=pool)
        self._seen: dict[str, None] = {}
        self._reports = Reports(
            link=link,
            system=system,
            keeper=keeper,
            node_id=registered.node_id,
            session_id=registered.session_id,
        )
        self._giving_back: asyncio.TimerHandle | None = None
        if registered.terms is not None:
            self._work_by(registered.terms, asked_at)

    @property
    def _valid_s(self) -> float:
        """For how long the node may act after it sent a message that was answered."""
        return self._timeout_s * (1.0 - SAFETY_SHARE) - self._stop_grace_s

    async def run(self) -> SessionEnd:
        """Work until the session ends; when it returns, no executor of it is running."""
        loops = [
            asyncio.create_task(self._beat(), name="heartbeats"),
            asyncio.create_task(self._take(), name="leases"),
            asyncio.create_task(self._report(), name="reports"),
            asyncio.create_task(self._expire(), name="expiry"),
            asyncio.create_task(self._await_stop(), name="stop"),
        ]
        # Not among the loops: nothing about logs or disks may end a session.
        aside = [
            asyncio.create_task(self._notes.run(), name="notes"),
            asyncio.create_task(self._reports.keep_unanswered(), name="keeping"),
        ]
        try:
            await asyncio.wait(loops, return_when=asyncio.FIRST_COMPLETED)
            end = next(loop.result() for loop in loops if loop.done())
        finally:
            await _cancel(loops)
            await self._stop_executors()
            await _cancel([*aside, *self._warming.under_way()])
        if end is SessionEnd.STOPPED:
            await self._send_last_reports()
        await self._reports.keep()
        if end is not SessionEnd.LOST:
            await self._notes.finish()
        return end

    async def _beat(self) -> SessionEnd:
        # Nodes that came at once, or lost their master at once, must not go on in step: then it
        # would have all of their heartbeats at once, each time.
        is_in_step = True
        while True:
            is_in_step |= self._beat_soon.is_set()
            self._beat_soon.clear()
            heartbeat = await self._heartbeat()
            listed = tuple(self._running)
            sent = asyncio.get_running_loop().time()
            pause = self._interval_s
            try:
                # A connection that died without a word must not cost the session.
                async with asyncio.timeout(max(self._interval_s, self._valid_s / 3)):
                    reply = await self._link.heartbeat(self._node_id, heartbeat)
            except (MasterUnreachable, TimeoutError) as error:
                log.warning("heartbeat not answered", error=str(error) or "no answer in time")
                pause = min(self._interval_s, RETRY_PAUSE_S * 5)
                is_in_step = True
            except Refused as error:
                log.warning("heartbeat refused", error=str(error))
                return SessionEnd.LOST
            else:
                if reply.session_lost:
                    return SessionEnd.LOST
                self._warming.said(heartbeat.environments)
                self._valid_until = max(self._valid_until, sent + self._valid_s)
                if reply.terms is not None:
                    self._work_by(reply.terms, sent)
                    pause = min(pause, self._interval_s)
                self._obey(reply.stop)
                self._drop(listed, frozenset(reply.lost_tasks))
                if is_in_step:
                    pause = max(pause * chance_of(self._system), min(pause, LEAST_PAUSE_S))
                    is_in_step = False
            await asyncio.sleep(min(pause, LEAST_PAUSE_S))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(pause - LEAST_PAUSE_S, 0.0)):
                    await self._beat_soon.wait()

    async def _heartbeat(self) -> Heartbeat:
        self._beats += 1
        try:
            self._usage = await self._measure()
        except Exception as error:
            log.warning("cannot measure this node", error=repr(error))
        return Heartbeat(
            environments=await self._warming.news(),  # first: what runs is listed without a pause
            resources=self._usage,
            load=max(self._usage.cpu_usage, self._usage.memory_usage),
            active_tasks=tuple(self._held[id].task_id for id in self._running),
            session_id=self._session_id,
            configuration_version=self._version,
            session_timeout_s=self._timeout_s,
            number=self._beats,
            sent_at=self._system.now(),
        )

    def _work_by(self, terms: NodeTerms, heard_at: float) -> None:
        """Apply what the cluster's settings say; the next heartbeat confirms it.

        A shorter time-out holds from the message that was answered with it: the master counts
        by it as soon as the node says that it does, too.
        """
        if terms.version != self._version:
            log.info("settings of the cluster", version=terms.version, node_id=self._node_id)
        self._version = terms.version
        self._interval_s = terms.heartbeat_interval_s
        self._timeout_s = terms.session_timeout_s
        self._valid_until = heard_at + self._valid_s
        self._new_terms.set()
        limit = self._offered_slots if terms.max_slots is None else terms.max_slots
        self._slots = min(self._offered_slots, limit)
        telemetry.set_level(terms.log_level)
        self._run_next()

    async def _take(self) -> SessionEnd:
        pauses = self._pauses()
        while True:
            if self._keeper.is_full:
                await asyncio.sleep(FULL_PAUSE_S)
                continue
            request = LeaseRequest(
                session_id=self._session_id,
                held=tuple(self._held),
                wait_s=self._long_poll_s,
                backlog=self._pace.backlog(asyncio.get_running_loop().time()),
            )
            try:
                lease = await self._link.lease(self._node_id, request)
            except MasterUnreachable as error:
                self._beat_soon.set()
                await asyncio.sleep(pauses.next(error))
                continue
            except Refused as error:
                log.warning("lease refused", error=str(error))
                return SessionEnd.LOST
            pauses.reset()
            if lease.session_lost:
                return SessionEnd.DRAINED if lease.draining else SessionEnd.LOST
            self._obey(lease.stop)
            self._talk.pass_on(lease.orders)
            self._warming.obey(lease.warm, self._link, self._registered, self._beat_soon.set)
            for assignment in lease.assignments:
                self._begin(assignment)
            self._run_next()
            if lease.stop:
                # The order stands until the stop is confirmed: do not ask in a tight circle.
                await asyncio.sleep(RETRY_PAUSE_S)

    async def _report(self) -> SessionEnd:
        pauses = self._pauses()
        while True:
            await self._reports.news()
            while self._reports:
                try:
                    await self._send_reports()
                    pauses.reset()
                except MasterUnreachable as error:
                    await asyncio.sleep(pauses.next(error))
                except Refused as error:
                    log.warning("report refused", error=str(error))
                    return SessionEnd.LOST

    def _pauses(self) -> Pauses:
        return Pauses(self._system, first_s=RETRY_PAUSE_S, longest_s=LONGEST_PAUSE_S)

    async def _expire(self) -> SessionEnd:
        loop = asyncio.get_running_loop()
        while self._valid_until > loop.time():
            self._new_terms.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(self._valid_until):
                    await self._new_terms.wait()
        log.warning("no heartbeat was answered in time: stopping all work", node_id=self._node_id)
        return SessionEnd.LOST

    async def _await_stop(self) -> SessionEnd:
        await self._stopping.wait()
        return SessionEnd.STOPPED

    async def _send_reports(self) -> None:
        for report, outcome in await self._reports.send():
            if outcome is ReportOutcome.STALE:
                log.info("report was stale", execution_id=report.execution_id)
                self._forget(report.execution_id)
            elif report.kind is not ReportKind.STARTED:
                self._forget(report.execution_id)

    def _begin(self, assignment: Assignment) -> None:
        id = assignment.execution_id
        if id in self._seen:
            return
        self._remember(id)
        self._held[id] = assignment
        self._ready[id] = assignment

    def _run(self, assignment: Assignment, *, ahead: bool) -> None:
        id = assignment.execution_id
        self._running[id] = asyncio.create_task(self._execute(assignment, ahead), name=id)

    def _run_soon(self) -> None:
        """Once for all that ends at the same time."""
        if not self._is_next_due:
            self._is_next_due = True
            asyncio.get_running_loop().call_soon(self._run_next)

    def _run_next(self) -> None:
        self._is_next_due = False
        while self._ready and len(self._running) < self._slots:
            self._one_waits = False
            self._run(self._ready.pop(next(iter(self._ready))), ahead=False)
        if self._ready and self._may_send_ahead():
            most = self._slots + self._pool.ahead
            while self._ready and len(self._running) < most:
                self._run(self._ready.pop(next(iter(self._ready))), ahead=True)
        if self._ready:
            self._give_back_later()

    def _may_send_ahead(self) -> bool:
        """Not when the cluster's settings allow this node fewer slots than the pool has."""
        return not self._one_waits and self._slots == self._offered_slots

    def _give_back_later(self) -> None:
        """Look again soon: what is not begun by then should go where it can be."""
        if self._giving_back is None:
            loop = asyncio.get_running_loop()
            newest = next(reversed(self._ready))
            self._giving_back = loop.call_later(READY_AT_MOST_S, self._give_back, newest)

    def _give_back(self, newest: str) -> None:
        self._giving_back = None
        if newest in self._ready:
            self._pace.hold_back()
            for assignment in self._ready.values():
                self._reports.say(assignment, ReportKind.RELEASED)
            self._ready.clear()
        elif self._ready:
            self._give_back_later()

    def _remember(self, execution_id: str) -> None:
        """Known from now on: a late copy of its assignment must not start it again."""
        self._seen[execution_id] = None
        if len(self._seen) > REMEMBERED:
            del self._seen[next(iter(self._seen))]

    async def _execute(self, assignment: Assignment, ahead: bool) -> None:
        heard = self._talk.listen(assignment, lambda: self._reports.say_started(assignment))
        try:
            attempt = await self._pool.run(assignment, heard, ahead=ahead)
        except NotBegun:
            self._ready = {assignment.execution_id: assignment} | self._ready
            self._one_waits = True
        except asyncio.CancelledError:
            self._reports.say(assignment, ReportKind.STOPPED)
            raise
        except Exception as error:
            log.exception("the pool failed", execution_id=assignment.execution_id)
            failure = TaskError(
                error_class=ErrorClass.CRASH, message=f"the node could not run it: {error!r}"
            )
            self._reports.say(assignment, ReportKind.FAILED, Attempt(error=failure))
        else:
            kind = ReportKind.FAILED if attempt.error else ReportKind.SUCCEEDED
            if measured := heard.metrics():
                attempt = msgspec.structs.replace(attempt, metrics=attempt.metrics | measured)
            self._reports.say(assignment, kind, attempt)
            self._pace.count_end()
        finally:
            self._running.pop(assignment.execution_id, None)
            self._talk.end(assignment.execution_id)
            self._run_soon()

    def _obey(self, orders: tuple[StopOrder, ...]) -> None:
        for order in orders:
            if order.execution_id in self._running:
                self._stop_one(order.execution_id)
            elif self._ready.pop(order.execution_id, None):
                self._reports.say(order, ReportKind.STOPPED)
            elif order.execution_id not in self._held:
                # Ordered to stop before it was ever delivered: it must not begin later.
                self._remember(order.execution_id)
                if not self._reports.mentions(order.execution_id):
                    self._reports.say(order, ReportKind.STOPPED)

    def _drop(self, listed: tuple[str, ...], lost_tasks: frozenset[str]) -> None:
        """Stop those executions of a heartbeat that the master says are no longer ours."""
        for id in listed:
            if id in self._running and self._held[id].task_id in lost_tasks:
                log.warning("no longer ours", execution_id=id)
                self._stop_one(id)

    def _forget(self, execution_id: str) -> None:
        self._held.pop(execution_id, None)
        self._ready.pop(execution_id, None)
        if execution_id in self._running:
            self._stop_one(execution_id)

    def _stop_one(self, execution_id: str) -> None:
        """Order it to stop once: a second order would cut short the time it has to clean up."""
        running = self._running[execution_id]
        if not running.cancelling():
            running.cancel()

    async def _stop_executors(self) -> None:
        if self._giving_back is not None:
            self._giving_back.cancel()
        self._slots = 0  # whatever comes back from the pool stays here
        await _cancel([*self._running.values()])
        for assignment in self._ready.values():
            self._reports.say(assignment, ReportKind.RELEASED)
        self._ready.clear()

    async def _send_last_reports(self) -> None:
        """Tell what was given back, so that others can begin with it at once."""
        with contextlib.suppress(MasterUnreachable, Refused, TimeoutError):
            async with asyncio.timeout(LAST_REPORTS_S):
                while self._reports:
                    await self._send_reports()


async def _cancel(tasks: Sequence[asyncio.Task[SessionEnd] | asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)
