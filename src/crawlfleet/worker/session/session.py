"""One session of a node: it takes leases, runs executions, reports, and stops in time.

The session is over for this node when its own monotonic clock says that the master may have given
the work away: a timeout after it *sent* the last message that was answered. It then stops every
executor, since another node may be doing the same work already. Ends that were not answered are
kept for the next session; repeated reports do no harm.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Final

from crawlfleet import telemetry
from crawlfleet.errors import MasterUnreachable, Refused
from crawlfleet.event_loop import report_failure
from crawlfleet.model.project import NodeTerms
from crawlfleet.model.resources import Usage
from crawlfleet.model.wire.node_protocol import (
    Heartbeat,
    LeaseRequest,
    Registered,
    ReportKind,
    ReportOutcome,
)
from crawlfleet.ports.execution import ControlLink, ExecutorPool, ReportKeeper
from crawlfleet.ports.system import System
from crawlfleet.telemetry import Component, logger
from crawlfleet.worker.backoff import Pauses, chance_of
from crawlfleet.worker.code.prewarming import Warming
from crawlfleet.worker.session.log_forwarding import LOG_BYTES, LogForwarder
from crawlfleet.worker.session.pace import Pace
from crawlfleet.worker.session.relay import Relay
from crawlfleet.worker.session.reports import Reports
from crawlfleet.worker.session.session_end import SessionEnd
from crawlfleet.worker.session.work import SessionWork, cancelled

log = logger(Component.WORKER)
RETRY_PAUSE_S: Final = 0.2
MAX_PAUSE_S: Final = 1.0
LEAST_PAUSE_S: Final = 0.5
"""Minimum seconds between two heartbeats, however often connections break."""
LAST_REPORTS_S: Final = 3.0
FULL_PAUSE_S: Final = 0.5
"""Seconds until the node looks again whether there is room for finished work."""
SAFETY_SHARE: Final = 0.15
"""Share of the timeout by which the node stops early, besides the time that stopping takes."""

Measure = Callable[[], Awaitable[Usage]]
"""Measures the current use of the node's resources."""


class WorkSession:
    """Runs the node's assignments from registration until the session ends."""

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
        """Set to send the next heartbeat soon, for instance because a connection broke: the master
        may take the node for dead, or another master may follow."""
        self._measure = measure
        self._usage = Usage()
        self._long_poll_s = long_poll_s
        self._stopping = stopping
        self._valid_until = asked_at + self._valid_s
        self._pace = Pace(asked_at)
        self._logs = LogForwarder(
            link=link,
            system=system,
            node_id=registered.node_id,
            session_id=registered.session_id,
            cap_bytes=log_bytes,
        )
        self._relay = Relay(self._logs, link=link, pool=pool)
        self._reports = Reports(
            link=link,
            system=system,
            keeper=keeper,
            node_id=registered.node_id,
            session_id=registered.session_id,
        )
        self._work = SessionWork(
            pool=pool, reports=self._reports, relay=self._relay, pace=self._pace, slots=slots
        )
        if registered.terms is not None:
            self._work_by(registered.terms, asked_at)

    @property
    def _valid_s(self) -> float:
        """The seconds for which the node may act after it sent a message that was answered."""
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
            asyncio.create_task(self._logs.run(), name="notes"),
            asyncio.create_task(self._reports.keep_unanswered(), name="keeping"),
        ]
        for each in aside:
            each.add_done_callback(report_failure)
        try:
            await asyncio.wait(loops, return_when=asyncio.FIRST_COMPLETED)
            end = next(loop.result() for loop in loops if loop.done())
        finally:
            await cancelled(loops)
            await self._work.stop_all()
            await cancelled([*aside, *self._warming.under_way()])
        if end is SessionEnd.STOPPED:
            await self._send_last_reports()
        await self._reports.keep()
        if end is not SessionEnd.LOST:
            await self._logs.finish()
        return end

    async def _beat(self) -> SessionEnd:
        # Nodes that came at once, or lost their master at once, must not go on in step: then it
        # would have all of their heartbeats at once, each time.
        is_in_step = True
        while True:
            is_in_step |= self._beat_soon.is_set()
            self._beat_soon.clear()
            heartbeat = await self._heartbeat()
            listed = tuple(self._work.running)
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
                self._work.obey(reply.stop)
                self._work.drop(listed, frozenset(reply.lost_tasks))
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
            active_tasks=self._work.active_tasks(),
            session_id=self._session_id,
            configuration_version=self._version,
            session_timeout_s=self._timeout_s,
            number=self._beats,
            sent_at=self._system.now(),
        )

    def _work_by(self, terms: NodeTerms, heard_at: float) -> None:
        """Apply the cluster's settings; the next heartbeat confirms them. A shorter timeout holds
        from the answered message on: the master uses it as soon as the node confirms it."""
        if terms.version != self._version:
            log.info("settings of the cluster", version=terms.version, node_id=self._node_id)
        self._version = terms.version
        self._interval_s = terms.heartbeat_interval_s
        self._timeout_s = terms.session_timeout_s
        self._valid_until = heard_at + self._valid_s
        self._new_terms.set()
        telemetry.set_level(terms.log_level)
        self._work.limit(terms.max_slots)

    async def _take(self) -> SessionEnd:
        pauses = self._pauses()
        while True:
            if self._keeper.is_full:
                await asyncio.sleep(FULL_PAUSE_S)
                continue
            request = LeaseRequest(
                session_id=self._session_id,
                held=tuple(self._work.held),
                wait_s=self._long_poll_s,
                backlog=self._pace.backlog(asyncio.get_running_loop().time()),
                keeps_connection=True,
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
            self._work.obey(lease.stop)
            self._relay.pass_on(lease.orders)
            self._warming.obey(lease.warm, self._link, self._registered, self._beat_soon.set)
            for assignment in lease.assignments:
                self._work.begin(assignment)
            self._work.run_next()
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
        return Pauses(self._system, first_s=RETRY_PAUSE_S, longest_s=MAX_PAUSE_S)

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
                self._work.forget(report.execution_id)
            elif report.kind is not ReportKind.STARTED:
                self._work.forget(report.execution_id)

    async def _send_last_reports(self) -> None:
        """Send the last reports, so that other nodes can begin the returned executions at once."""
        with contextlib.suppress(MasterUnreachable, Refused, TimeoutError):
            async with asyncio.timeout(LAST_REPORTS_S):
                while self._reports:
                    await self._send_reports()
