"""Delivers the finished work that earlier sessions of a node left.

Reports are sent in batches. When the master fails over a batch again and again, its executions are
sent one by one, so that one bad report does not hold up the others. Only an execution over which
the master fails again and again when it is sent alone is given up.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final

import msgspec

from crawlfleet.errors import MasterFailed, Refused
from crawlfleet.model.wire.node_protocol import Report, ReportBatch, ReportOutcome
from crawlfleet.ports.execution import ControlLink, IdentityKeeper, ReportKeeper
from crawlfleet.telemetry import Component, logger
from crawlfleet.worker.session.reports import ENDS, portion

log = logger(Component.WORKER)
MAX_DEFECTS: Final = 5
"""Number of times that a batch is sent to a master that fails over it."""


class Redelivery:
    """Reports that earlier sessions left to be delivered, and the master's answers so far."""

    def __init__(
        self, *, link: ControlLink, identity: IdentityKeeper, keeper: ReportKeeper
    ) -> None:
        self._link = link
        self._identity = identity
        self._keeper = keeper
        self._defects = Counter[frozenset[str]]()
        """Number of times that the master failed over a batch, by the batch's executions."""
        self._alone: set[str] = set()
        """Executions whose reports are sent one by one."""

    async def deliver(self) -> None:
        """Send all reports that are left. Those of executions that another node has by now are
        refused, and dropped.

        Raises `MasterUnreachable` when some still wait; call this again later.
        """
        known = self._identity.load()
        trouble: MasterFailed | None = None
        for node_id, left in self._keeper.waiting():
            if known is None or known.node_id != node_id:
                await self._give_up(left.reports, "it is of a node that this one is no longer")
                continue
            reports = [*left.reports]
            while reports:
                batch = msgspec.structs.replace(left, reports=self._next(reports))
                try:
                    await self._send(node_id, batch)
                except MasterFailed as error:
                    if len(_executions(batch.reports)) > 1:
                        if not self._narrow(batch.reports):
                            raise
                        continue
                    trouble = await self._note_defect(batch.reports, error) or trouble
                sent = {id(each) for each in batch.reports}
                reports = [each for each in reports if id(each) not in sent]
        if trouble is not None:
            raise trouble

    def _next(self, reports: Sequence[Report]) -> tuple[Report, ...]:
        """Return the reports to send now: of several executions together, or all of one that is
        sent alone."""
        first = reports[0].execution_id
        if first in self._alone:
            return tuple(each for each in reports if each.execution_id == first)
        return portion([each for each in reports if each.execution_id not in self._alone])

    async def _send(self, node_id: str, batch: ReportBatch) -> None:
        try:
            reply = await self._link.report(node_id, batch)
        except Refused as error:
            await self._give_up(batch.reports, str(error))
        else:
            self._settle(batch.reports)
            await self._keeper.forget(_ended(batch.reports))
            _tell_outcomes(batch.reports, reply.outcomes)

    def _narrow(self, reports: Sequence[Report]) -> bool:
        """The master failed over several; whether to send them one by one from now on."""
        executions = _executions(reports)
        self._defects[executions] += 1
        if self._defects[executions] < MAX_DEFECTS:
            return False
        del self._defects[executions]
        self._alone |= executions
        return True

    async def _note_defect(
        self, reports: Sequence[Report], error: MasterFailed
    ) -> MasterFailed | None:
        """The master failed over one; the error if it is to be sent again."""
        execution = _executions(reports)
        self._defects[execution] += 1
        if self._defects[execution] < MAX_DEFECTS:
            return error
        await self._give_up(reports, str(error))
        return None

    def _settle(self, reports: Sequence[Report]) -> None:
        executions = _executions(reports)
        self._alone -= executions
        del self._defects[executions]

    async def _give_up(self, reports: Sequence[Report], cause: str) -> None:
        self._settle(reports)
        log.warning("finished work is not taken", reports=len(reports), cause=cause)
        await self._keeper.forget(_ended(reports))


def _executions(reports: Sequence[Report]) -> frozenset[str]:
    return frozenset(each.execution_id for each in reports)


def _ended(reports: Sequence[Report]) -> set[str]:
    return {each.execution_id for each in reports if each.kind in ENDS}


def _tell_outcomes(reports: Sequence[Report], outcomes: Sequence[ReportOutcome]) -> None:
    recorded = 0
    for report, outcome in zip(reports, outcomes, strict=True):
        if report.kind not in ENDS:
            continue
        if outcome is ReportOutcome.RECORDED:
            recorded += 1
        else:
            log.warning(
                "finished work is not taken: its lease is over",
                execution_id=report.execution_id,
                task_id=report.task_id,
            )
    if recorded:
        log.info("finished work was handed in", executions=recorded)
