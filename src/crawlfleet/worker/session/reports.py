"""Reports of a session about its executions, kept until the master has answered them.

A report is sent at once, many in one message, and again until there is an answer. While the master
does not answer, the ends of executions are written to the node's disk, so that neither its absence
nor the end of this process costs finished work. As long as it answers, nothing is written.
"""

import asyncio
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import msgspec

from crawlfleet.errors import MasterUnreachable
from crawlfleet.model.task import JSON_NULL
from crawlfleet.model.wire.node_protocol import (
    Assignment,
    Report,
    ReportBatch,
    ReportKind,
    ReportOutcome,
    StopOrder,
)
from crawlfleet.ports.execution import Attempt, ControlLink, ReportKeeper
from crawlfleet.ports.system import System

REPORTS_AT_ONCE: Final = 2_000
BYTES_AT_ONCE: Final = 2_000_000
"""Maximum size of results, errors and large figures in one message. With the small parts of every
report, this is well below the smallest limit of a master."""
USUAL_METRICS: Final = 8
"""Number of figures up to which those of an execution count as small, and are not measured."""
START_TOLD_WITHIN_S: Final = 0.1
"""Seconds for which a start may wait, so that a fleet's short tasks cost the master one message
instead of two."""
MOMENT_S: Final = 1.0
"""Seconds after which a master that has not answered may be away. Ends within this time are written
to disk together."""
ASK_AGAIN_S: Final = 1.0
"""Seconds after which a report that the master could not decide on yet is sent again."""
_encode: Final = msgspec.json.Encoder().encode
ENDS: Final = frozenset({ReportKind.SUCCEEDED, ReportKind.FAILED})
"""Kinds of reports that must not be lost, since the work would be repeated. All others follow from
the end of the session, too."""


class _Start(NamedTuple):
    """An execution that has begun."""

    about: Assignment
    at: float
    begun_at: float
    """Time of the start by the event loop's clock."""

    def report(self) -> Report:
        return Report(
            execution_id=self.about.execution_id,
            task_id=self.about.task_id,
            token=self.about.token,
            kind=ReportKind.STARTED,
            at=self.at,
        )


class Reports:
    """The reports of one session, in order."""

    def __init__(
        self,
        *,
        link: ControlLink,
        system: System,
        keeper: ReportKeeper,
        node_id: str,
        session_id: str,
    ) -> None:
        self._link = link
        self._system = system
        self._keeper = keeper
        self._node_id = node_id
        self._session_id = session_id
        self._unsent: list[Report] = []
        """Reports that are not sent, or not answered."""
        self._later: list[Report] = []
        """Reports that the master wants again later; no other report waits for them."""
        self._begun: dict[str, _Start] = {}
        """Starts that were not sent yet; the end of a short execution is sent together with its
        start."""
        self._loop = asyncio.get_running_loop()
        self._something = asyncio.Event()
        self._unanswered = asyncio.Event()
        self._kept: set[str] = set()
        """Executions whose end is on disk."""

    def __bool__(self) -> bool:
        return bool(self._unsent or self._begun)

    def mentions(self, execution_id: str) -> bool:
        """Return whether a report about the execution has not been answered."""
        waiting = (*self._unsent, *self._later)
        return any(each.execution_id == execution_id for each in waiting)

    def say(
        self, about: Assignment | StopOrder, kind: ReportKind, attempt: Attempt | None = None
    ) -> None:
        """Queue a report on an execution, and send it soon."""
        attempt = attempt or Attempt()
        start = self._begun.pop(about.execution_id, None)
        ran_s = None if start is None else self._loop.time() - start.begun_at
        self._unsent.append(
            Report(
                execution_id=about.execution_id,
                task_id=about.task_id,
                token=about.token,
                kind=kind,
                at=self._system.now(),
                data=attempt.data if attempt.data is not None else JSON_NULL,
                error=attempt.error,
                metrics=attempt.metrics,
                ran_s=ran_s,
            )
        )
        self._something.set()

    def say_started(self, about: Assignment) -> None:
        """Queue the report of a start, to be sent soon: an execution that ends by then needs one
        report instead of two."""
        if not self._begun:
            self._loop.call_later(START_TOLD_WITHIN_S, self._something.set)
        start = _Start(about, self._system.now(), self._loop.time())
        self._begun[about.execution_id] = start

    async def news(self) -> None:
        """Wait until there is something new to send."""
        await self._something.wait()
        self._something.clear()

    async def send(self) -> list[tuple[Report, ReportOutcome]]:
        """Send the reports that fit into one message, and return those with final outcomes. Reports
        that the master wants again later are left out.

        Raises `MasterUnreachable` or `Refused`; then all reports keep waiting.
        """
        self._unsent += [start.report() for start in self._begun.values()]
        self._begun.clear()
        sent = portion(self._unsent)
        batch = ReportBatch(session_id=self._session_id, reports=sent, knows_later=True)
        alarm = self._loop.call_later(MOMENT_S, self._unanswered.set)
        try:
            reply = await self._link.report(self._node_id, batch)
        except MasterUnreachable:
            self._unanswered.set()
            raise
        finally:
            alarm.cancel()
        self._unanswered.clear()
        del self._unsent[: len(sent)]
        told = [*zip(sent, reply.outcomes, strict=True)]
        answered = [each for each in told if each[1] is not ReportOutcome.LATER]
        if len(answered) < len(told):
            self._later += [report for report, outcome in told if outcome is ReportOutcome.LATER]
            self._loop.call_later(ASK_AGAIN_S, self._say_again)
            # That may take long, and the end of this process must not cost what is done.
            await self.keep()
        if self._kept:
            await self._forget(report for report, _ in answered)
        return answered

    def _say_again(self) -> None:
        self._unsent += self._later
        self._later.clear()
        self._something.set()

    async def keep_unanswered(self) -> None:
        """Write the ends of executions to disk whenever the master does not answer. Runs
        forever."""
        while True:
            await self._unanswered.wait()
            await self.keep()
            await asyncio.sleep(MOMENT_S)

    async def keep(self) -> None:
        """Write all unanswered ends of executions to disk."""
        waiting = (*self._unsent, *self._later)
        over = {each.execution_id for each in waiting if each.kind in ENDS} - self._kept
        if over or self._kept:
            # With their starts, which say for how long they ran. Without any, what an earlier
            # attempt could not write is tried again.
            reports = tuple(
                each
                for each in waiting
                if each.execution_id in over and each.kind in ENDS | {ReportKind.STARTED}
            )
            self._kept |= over
            batch = ReportBatch(session_id=self._session_id, reports=reports)
            await self._keeper.keep(self._node_id, batch)

    async def _forget(self, answered: Iterable[Report]) -> None:
        ended = {each.execution_id for each in answered if each.kind in ENDS}
        known = ended & self._kept
        if known:
            self._kept -= known
            await self._keeper.forget(known)


def portion(reports: list[Report]) -> tuple[Report, ...]:
    """Return as many reports as fit into one message, at least one."""
    return tuple(_fitting(reports[:REPORTS_AT_ONCE]))


def _fitting(reports: list[Report]) -> Iterator[Report]:
    size = 0
    for number, report in enumerate(reports):
        size += len(memoryview(report.data))
        if report.error is not None:
            size += len(_encode(report.error))
        if len(report.metrics) > USUAL_METRICS:
            size += len(_encode(report.metrics))
        if number and size > BYTES_AT_ONCE:
            return
        yield report
