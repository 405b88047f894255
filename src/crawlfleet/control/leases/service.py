"""The lease protocol on the master: deliver work, record reports, end sessions.

Delivery is by difference: work of the session that the node does not list is sent (again), so a
lost reply costs nothing, and work that does not fit into one reply comes with the next. Reports are
recorded once, under their token.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec

from crawlfleet.control.leases.execution_orders import ExecutionOrders
from crawlfleet.control.leases.prewarming import Prewarming
from crawlfleet.control.quality import MAX_WAIT_S, SHORT_WAIT_S, Measurement
from crawlfleet.control.state.fleet_state import FleetState
from crawlfleet.core.quality.recording import QualityRecord
from crawlfleet.core.tasks import attempts
from crawlfleet.core.tasks.assignments import portion, stop_order
from crawlfleet.core.tasks.lease import Lease
from crawlfleet.core.tasks.lifecycle import NodeTrigger, move_node
from crawlfleet.errors import StoreUnavailable
from crawlfleet.model.change import Change
from crawlfleet.model.event import Event
from crawlfleet.model.node import Health, NodeStatus, Session
from crawlfleet.model.settings import RecoverySettings
from crawlfleet.model.task import LIVE_EXECUTION, ErrorClass, ExecutionStatus, TaskError
from crawlfleet.model.wire.node_protocol import (
    LeaseReply,
    LeaseRequest,
    Report,
    ReportBatch,
    ReportKind,
    ReportOutcome,
    ReportReply,
)
from crawlfleet.ports.store import Refusal, RefusalKind
from crawlfleet.ports.system import System
from crawlfleet.telemetry import Component, logger

log = logger(Component.RECOVER)
UNMEASURED: Final[dict[str, Any]] = {
    "health": Health.UNKNOWN,
    "health_reason": "",
    "conditions": (),
    "drain_until": None,
}
"""Fields of a node at the beginning and after the end of a session: its health is unknown."""
MAX_RESULT_BYTES: Final = 1_000_000
MAX_MESSAGE: Final = 2_000
MAX_DETAILS: Final = 10_000
MAX_BACKLOG: Final = 4096
MAX_POLL_S: Final = 60.0
"""Maximum wait of a poll: proxies on the way to the node cut connections that idle longer."""


class Leases:
    """Delivers assignments to nodes, records their reports, and ends their sessions."""

    def __init__(
        self,
        *,
        state: FleetState,
        system: System,
        settings: RecoverySettings,
        execution_orders: ExecutionOrders | None = None,
        measuring: Measurement | None = None,
    ) -> None:
        """Create the service; unless `measuring` is set, expectations are not checked."""
        self._measuring = measuring
        self._state = state
        self._execution_orders = execution_orders or ExecutionOrders(state=state)
        self.warming = Prewarming(
            state=state, system=system, is_connected_here=self._execution_orders.is_connected_here
        )
        """Environments that nodes are asked to make; a node gets these requests with its leases."""
        self._system = system
        self._settings = settings

    async def lease(self, node_id: str, request: LeaseRequest) -> LeaseReply:
        """Return the session's work that the node does not hold; waits up to `wait_s` for it."""
        wait_s = min(request.wait_s, MAX_POLL_S)
        deadline = asyncio.get_running_loop().time() + wait_s
        await self.know_session(node_id, request.session_id)
        if self._session(node_id, request.session_id) is not None:
            # Once: while it waits, the node may find that this is too much.
            self._state.backlogs.allow(node_id, min(max(request.backlog, 0), MAX_BACKLOG))
        while True:
            session = self._session(node_id, request.session_id)
            if session is None:
                return LeaseReply(session_lost=True)
            news = self._state.signals.session(session.id)
            news.clear()
            self._execution_orders.note_poll(session.id)
            reply = self._news(session, frozenset(request.held))
            if reply.draining and not any(self._state.session_executions(session.id)):
                await self.end_session(session.id, cause="drained", trigger=NodeTrigger.EMPTIED)
                if self._session(node_id, request.session_id) is not None:
                    continue  # resumed meanwhile
                return msgspec.structs.replace(reply, session_lost=True)
            if reply.assignments or reply.stop or reply.orders or reply.warm:
                return reply
            try:
                async with asyncio.timeout_at(deadline):
                    await news.wait()
            except TimeoutError:
                return reply

    async def report(self, node_id: str, batch: ReportBatch) -> ReportReply:
        """Record the reports of a node about its executions; repeating a batch changes nothing.

        Reports whose items take long to measure do not delay the others: they are answered `LATER`,
        and the node repeats them. For a node that does not know `LATER`, raises `StoreUnavailable`
        once the others are recorded.
        """
        await self.know_session(node_id, batch.session_id)
        await self._know_leases(batch)
        self._heed_give_back(node_id, batch)
        outcomes = [ReportOutcome.STALE] * len(batch.reports)
        later = await self._record(node_id, batch, range(len(outcomes)), outcomes, SHORT_WAIT_S)
        if later and not batch.knows_later:
            later = await self._record(node_id, batch, later, outcomes, MAX_WAIT_S)
            if later:
                raise StoreUnavailable("the items of a task are still being measured; ask again")
        return ReportReply(outcomes=tuple(outcomes))

    async def _record(
        self,
        node_id: str,
        batch: ReportBatch,
        places: Sequence[int],
        outcomes: list[ReportOutcome],
        wait_s: float,
    ) -> list[int]:
        """Record these reports of a batch; return the indexes of those to be repeated."""
        undecided = [*places]
        plan = _Decided([], [], {})
        judged: Mapping[str, QualityRecord] = {}
        if self._measuring is not None and self._session(node_id, batch.session_id) is not None:
            reports = [batch.reports[place] for place in places]
            judged = await self._measuring.reported(node_id, reports, wait_s=wait_s)

        async def decide() -> Sequence[Change]:
            nonlocal plan
            plan = _Decided([], [], {})
            if self._session(node_id, batch.session_id) is not None:
                plan = self._decide(node_id, batch, undecided, judged)
                for place in undecided:
                    outcomes[place] = plan.told.get(place, ReportOutcome.STALE)
            return plan.changes

        def is_settled(_: Sequence[Change], refusals: Sequence[Refusal | None]) -> bool:
            undecided.clear()
            for group, refusal in zip(plan.places, refusals, strict=True):
                if refusal is None:
                    continue
                for place in group:
                    outcomes[place] = ReportOutcome.STALE
                if refusal.kind is RefusalKind.VERSION:
                    # Somebody was faster, an operator for example: decide on the new state.
                    undecided.extend(group)
            undecided.sort()
            return not undecided

        commit = partial(self._state.commit, room_at=node_id)
        if not await self._state.decide_batch(decide, is_settled=is_settled, commit=commit):
            raise self._state.reload(f"reports of {node_id} do not fit what is known of its work")
        if judged and self._measuring is not None:
            self._measuring.forget(judged)
        return [place for place in places if outcomes[place] is ReportOutcome.LATER]

    async def know_session(self, node_id: str, session_id: str) -> None:
        """Look up a session that is not known here: another master may just have opened it."""
        if self._session(node_id, session_id) is None:
            await self._state.refresh.nodes([node_id])

    def _heed_give_back(self, node_id: str, batch: ReportBatch) -> None:
        """Set the node's backlog to zero when it releases work, until its next poll: else the same
        work would come back to it.
        """
        if self._session(node_id, batch.session_id) is not None and any(
            report.kind is ReportKind.RELEASED for report in batch.reports
        ):
            self._state.backlogs.allow(node_id, 0)

    async def _know_leases(self, batch: ReportBatch) -> None:
        """Load the leases that reports name and that are not in memory (any more)."""
        leases = self._state.leases
        unknown = [each for each in batch.reports if each.execution_id not in leases]
        if unknown:
            await self._state.refresh.tasks(
                [each.task_id for each in unknown], [each.execution_id for each in unknown]
            )

    async def end_session(
        self,
        session_id: str,
        *,
        cause: str,
        trigger: NodeTrigger = NodeTrigger.SILENT,
        as_leader: bool = False,
    ) -> None:
        """End a session, then give back its work; timers do the rest after a crash in between.

        With `as_leader`, only while this master leads; else raises `LeadershipLost`.

        Unless the node leaves for good, a change in between stops this: a heartbeat keeps a session
        that seemed silent, and a resumed node is not drained any more.
        """
        is_saved = False

        async def decide() -> tuple[bool, Change | None]:
            session = self._state.sessions.get(session_id)
            if session is None or is_saved:
                return not is_saved, None
            change = self._ended(session, cause, trigger)
            return change is not None, change

        def on_refusal(_: Refusal) -> None:
            nonlocal is_saved
            is_saved = trigger is not NodeTrigger.LEFT

        if await self._state.decide(session_id, decide, on_refusal=on_refusal, as_leader=as_leader):
            await self.give_back(session_id, cause=cause)

    async def give_back(self, session_id: str, *, cause: str) -> None:
        """Return the work of a session that has ended to the queue."""

        async def decide() -> Sequence[Change]:
            return [*self._losses(session_id, cause)]

        await self._state.decide_batch(decide, is_settled=lambda changes, _: not changes)
        if [*self._losses(session_id, cause)]:
            raise self._state.reload(f"the work of the ended {session_id} cannot be given back")

    async def give_back_orphans(self) -> None:
        """Return to the queue the work of sessions that ended before that was done."""
        for session_id in self._state.orphaned_sessions():
            await self.give_back(session_id, cause="its session has ended")

    def _losses(self, session_id: str, cause: str) -> Iterable[Change]:
        error = TaskError(error_class=ErrorClass.LOST, message=f"its node is gone: {cause}")
        now = self._system.now()
        for lease in self._state.session_executions(session_id):
            change = attempts.fail(lease, error, {}, self._settings, now=now, chance=self._chance())
            if change is not None:
                yield change

    def _ended(self, session: Session, cause: str, trigger: NodeTrigger) -> Change | None:
        """The end of a session together with what becomes of its node; `None` if not allowed."""
        now = self._system.now()
        ended = msgspec.structs.replace(
            session, ended_at=now, end_cause=cause, version=session.version + 1
        )
        node = self._state.nodes[session.node_id]
        if node.session_id != session.id:
            event = Event(
                kind="node.session_ended", subject=node.id, at=now, cause=cause, details={}
            )
            return Change(sessions=(ended,), events=(event,))
        moved = move_node(node, trigger, now=now, cause=cause, session_id=None, **UNMEASURED)
        if moved is None:
            return None
        log.info("session ended", node_id=node.id, cause=cause, status=str(moved[0].status))
        return Change(sessions=(ended,), nodes=(moved[0],), events=(moved[1],))

    def _session(self, node_id: str, session_id: str) -> Session | None:
        session = self._state.sessions.get(session_id)
        return session if session is not None and session.node_id == node_id else None

    def _news(self, session: Session, held: frozenset[str]) -> LeaseReply:
        new, stop = [], []
        for lease in self._state.session_executions(session.id):
            execution = lease.execution
            if execution.status is ExecutionStatus.STOPPING:
                stop.append(stop_order(execution))
            elif execution.id not in held:
                new.append(lease)
        node = self._state.nodes[session.node_id]
        return LeaseReply(
            assignments=tuple(portion(new)),
            stop=tuple(stop),
            orders=self._execution_orders.due(session.id),
            draining=node.status is NodeStatus.DRAINING,
            warm=self.warming.due(node.id),
        )

    def _decide(
        self,
        node_id: str,
        batch: ReportBatch,
        places: list[int],
        judged: Mapping[str, QualityRecord],
    ) -> "_Decided":
        changes: dict[str, Change] = {}
        groups: dict[str, list[int]] = {}
        told: dict[int, ReportOutcome] = {}
        now = self._system.now()
        for place in places:
            report = batch.reports[place]
            earlier = changes.get(report.execution_id)
            lease = self._current(report, earlier)
            if lease is None or lease.execution.node_id != node_id:
                continue
            found = judged.get(report.execution_id)
            if not self._is_measured(lease, report):
                change = self._change(lease, report, now, batch.session_id)
            elif found is not None:
                change = self._succeeded(lease, report, now, batch.session_id, found)
            else:
                told[place] = ReportOutcome.LATER
                change = attempts.finish(lease, now=now, under=batch.session_id)
            if change is not None:
                changes[report.execution_id] = _merged(earlier, change) if earlier else change
                groups.setdefault(report.execution_id, []).append(place)
            if change is not None or lease.execution.status in LIVE_EXECUTION:
                told.setdefault(place, ReportOutcome.RECORDED)
        return _Decided([*changes.values()], [*groups.values()], told)

    def _is_measured(self, lease: Lease, report: Report) -> bool:
        """Return whether the report ends a task that must not end before its items are measured."""
        if lease.task.expectations is None or self._measuring is None:
            return False
        return report.kind is ReportKind.SUCCEEDED and lease.owns

    def _current(self, report: Report, pending: Change | None) -> Lease | None:
        """The lease as it will be when the reports before this one have been recorded."""
        lease = self._state.leases.get(report.execution_id)
        if lease is None or lease.execution.token != report.token:
            return None
        if pending is None:
            return lease
        return Lease(pending.tasks[0] if pending.tasks else lease.task, pending.executions[0])

    def _change(self, lease: Lease, report: Report, now: float, under: str) -> Change | None:
        if lease.execution.status is ExecutionStatus.STOPPING:
            if report.kind is ReportKind.STARTED:
                return None
            return attempts.confirm_stop(lease, now=now, under=under)
        return _DECISIONS[report.kind](self, lease, report, now, under)

    def _started(self, lease: Lease, report: Report, now: float, under: str) -> Change | None:
        return attempts.start(lease, now=now, under=under)

    def _succeeded(
        self,
        lease: Lease,
        report: Report,
        now: float,
        under: str,
        judged: QualityRecord | None = None,
    ) -> Change | None:
        size = len(memoryview(report.data))
        if size > MAX_RESULT_BYTES:
            message = f"the result has {size} bytes; at most {MAX_RESULT_BYTES} are kept"
            error = TaskError(error_class=ErrorClass.ERROR, message=message)
            return self._failure(lease, error, report, now, under)
        begun_at = attempts.begun_at(lease, report.ran_s, now=lease.execution.end_time or now)
        return attempts.succeed(
            lease,
            report.data,
            report.metrics,
            now=now,
            begun_at=begun_at,
            under=under,
            judged=judged,
        )

    def _failed(self, lease: Lease, report: Report, now: float, under: str) -> Change | None:
        said = report.error or TaskError(
            error_class=ErrorClass.ERROR, message="the node did not say why"
        )
        error = msgspec.structs.replace(
            said, message=said.message[:MAX_MESSAGE], details=said.details[-MAX_DETAILS:]
        )
        return self._failure(lease, error, report, now, under)

    def _failure(
        self, lease: Lease, error: TaskError, report: Report, now: float, under: str
    ) -> Change | None:
        lease = attempts.begun(lease, attempts.begun_at(lease, report.ran_s, now=now))
        return attempts.fail(
            lease,
            error,
            report.metrics,
            self._settings,
            now=now,
            chance=self._chance(),
            under=under,
        )

    def _released(self, lease: Lease, report: Report, now: float, under: str) -> Change | None:
        lease = attempts.begun(lease, attempts.begun_at(lease, report.ran_s, now=now))
        return attempts.release(lease, now=now, cause="given back by its node", under=under)

    def _chance(self) -> float:
        return int.from_bytes(self._system.entropy(4), "big") / 2**32


class _Decided(NamedTuple):
    """The changes that a batch of reports leads to, and the outcome of each report."""

    changes: list[Change]
    """One change for each execution about which a report says something new."""
    places: list[list[int]]
    """Indexes of the reports that each change records, in the order of `changes`."""
    told: dict[int, ReportOutcome]
    """Outcome by index of report, if its change commits; also of repeated reports on a live lease.
    Reports without one are stale.
    """


_Decision = Callable[[Leases, Lease, Report, float, str], Change | None]
_DECISIONS: dict[ReportKind, _Decision] = {
    ReportKind.STARTED: Leases._started,
    ReportKind.SUCCEEDED: Leases._succeeded,
    ReportKind.FAILED: Leases._failed,
    ReportKind.STOPPED: Leases._released,
    ReportKind.RELEASED: Leases._released,
}


def _merged(first: Change, second: Change) -> Change:
    """Two successive changes of one lease as one: each row is written once, no event is lost."""
    return Change(
        tasks=tuple(
            msgspec.structs.replace(task, version=first.tasks[0].version) for task in second.tasks
        )
        or first.tasks,
        executions=tuple(
            msgspec.structs.replace(each, version=first.executions[0].version)
            for each in second.executions
        ),
        events=first.events + second.events,
        claims=first.claims + second.claims,
        rows=second.rows,
        under=second.under,
    )
