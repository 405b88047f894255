"""Timers: silent nodes, time limits, retries that come due, clearing up.

The loop sleeps until the next instant at which something is due, and is woken when a nearer one
appears. If it wakes much later than planned the whole process was stopped, and heartbeats may wait
unread: then it gives every node a full timeout before it ends silent sessions or overdue work. A
node that was cut off has enforced the time limits itself, and may still report finished work.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Final

from crawlfleet.control.breakers import BreakerEvents
from crawlfleet.control.leases.recalls import Recalls
from crawlfleet.control.leases.service import Leases
from crawlfleet.control.nodes.history import NodeHistory
from crawlfleet.control.nodes.orders import removal
from crawlfleet.control.state.fleet_state import FleetState
from crawlfleet.control.state.node_terms import ClusterTerms
from crawlfleet.control.store_pause import StorePause
from crawlfleet.core.tasks import attempts
from crawlfleet.core.tasks.lease import Lease
from crawlfleet.model.change import Change
from crawlfleet.model.node import NodeStatus
from crawlfleet.model.settings import RecoverySettings, RetentionSettings, SessionSettings
from crawlfleet.ports.kernel_tables import old_measured_runs, old_usage, surplus_measured_runs
from crawlfleet.ports.store import Store
from crawlfleet.ports.system import System
from crawlfleet.ports.tables import Expiring
from crawlfleet.telemetry import Component, logger

log = logger(Component.RECOVER)
DAY_S: Final = 86_400.0
CLEAR_UP_EVERY_S: Final = 3_600.0
GONE: Final = frozenset({NodeStatus.OFFLINE, NodeStatus.UNRESPONSIVE})
NODES_BATCH: Final = 50
"""Number of nodes whose history is thinned in one go: due work must not wait long for it."""
CLOCK_SET_S: Final = 1.0
ORPHANS_AFTER_S: Final = 1.0
"""Work of an ended session that is still there after this is given back here: the master that ended
the session does so at once, unless it died.
"""


class Timers:
    """Watches the clock for the fleet, for as long as it runs."""

    def __init__(
        self,
        *,
        store: Store,
        state: FleetState,
        leases: Leases,
        system: System,
        session: SessionSettings,
        recovery: RecoverySettings,
        retention: RetentionSettings,
        expiring: Sequence[Expiring],
        history: NodeHistory,
        terms: ClusterTerms,
        recalls: Recalls,
    ) -> None:
        self._store = store
        self._state = state
        self._leases = leases
        self._system = system
        self._session = session
        self._recovery = recovery
        self._retention = retention
        self._expiring = expiring
        self._history = history
        self._terms = terms
        self._clock_gap_ended_at = 0.0
        self._set_by_s = system.wall() - system.now()
        self._recalls = recalls
        self._grace_until = 0.0
        self._unheard: list[Lease] = []
        """Leases over their time limit whose nodes have had no chance to report yet."""
        self._next_clear_up = 0.0
        self._orphaned: frozenset[str] = frozenset()
        self._news = BreakerEvents(store=store, state=state, system=system)

    async def run(self) -> None:
        """Do everything that is due, then sleep until the next instant; runs until cancelled."""
        self.allow_for_silence()
        self._news.begin()
        wake = self._state.signals.timers
        while True:
            wake.clear()
            due = self.next_due()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(due - self._system.now(), 0.0)):
                    await wake.wait()
            if self._system.now() - due > self._session.heartbeat_interval_s:
                self.allow_for_silence()
            self._note_clock()
            async with StorePause(log, "timers wait for the store"):
                await self.do_due()

    def _note_clock(self) -> None:
        set_by_s = self._system.wall() - self._system.now()
        if abs(set_by_s - self._set_by_s) > CLOCK_SET_S:
            log.warning(
                "the clock of this machine was set",
                by_s=round(set_by_s - self._set_by_s, 1),
                means="what lasts goes on evenly, schedules follow; restart the master at a quiet "
                "time, so that its stamps follow, too",
            )
            self._set_by_s = set_by_s

    def allow_for_silence(self) -> None:
        """Give every node a full timeout to report, after a time without reception."""
        self._clock_gap_ended_at = self._system.now()
        self._grace_until = self._clock_gap_ended_at + self._terms.longest_timeout_s()

    def next_due(self) -> float:
        """Return the next instant at which something may have to be done."""
        instants = [self._next_clear_up]
        if self._state.orphaned_sessions():
            instants.append(self._system.now() + ORPHANS_AFTER_S)
        if self._unheard:
            instants.append(self._grace_until)
        if self._state.sessions:
            silence = min(session.deadline for session in self._state.sessions.values())
            instants.append(max(silence, self._grace_until))
        if (delayed := self._state.delays.next()) is not None:
            instants.append(delayed)
        if (limit := self._state.time_limits.next()) is not None:
            instants.append(limit + self._recovery.timeout_grace_s)
        if (recall := self._recalls.next()) is not None:
            instants.append(recall)
        if (held := self._state.gate.next()) is not None:
            instants.append(held)
        if self._news.is_due:
            instants.append(0.0)
        return min(instants)

    async def do_due(self) -> None:
        """Do everything that is due now."""
        now = self._system.now()
        await self._state.release_delayed(now)
        await self._state.release_held(now)
        await self._news.tell()
        await self._give_back_orphans()
        await self._end_silent_sessions(now)
        await self._stop_overruns(now)
        await self._recalls.do_due(now)
        if now >= self._next_clear_up:
            more = await self._clear_up(now)
            self._next_clear_up = now + (1.0 if more else CLEAR_UP_EVERY_S)

    async def _give_back_orphans(self) -> None:
        """Give back the work of sessions that had ended at the last look already."""
        orphaned = self._state.orphaned_sessions()
        for session_id in [id for id in orphaned if id in self._orphaned]:
            await self._leases.give_back(session_id, cause="its session has ended")
        self._orphaned = frozenset(orphaned)

    async def _end_silent_sessions(self, now: float) -> None:
        if now < self._grace_until:
            return
        silent = [each for each in self._state.sessions.values() if each.deadline <= now]
        # Another master may have heard of them.
        await self._state.refresh.sessions([session.id for session in silent])
        for session in silent:
            # A heartbeat may have come in while the one before was being ended.
            if self._is_silent(session.id, now):
                await self._leases.end_session(
                    session.id,
                    cause=f"silent for {now - session.last_heartbeat:.1f} s",
                    as_leader=True,
                )

    def _is_silent(self, session_id: str, now: float) -> bool:
        session = self._state.sessions.get(session_id)
        return session is not None and session.deadline <= now

    def _overruns(self, now: float) -> list[Lease]:
        """Return leases over a time limit that their nodes do not enforce."""
        over = self._state.time_limits.over(now - self._recovery.timeout_grace_s)
        if now >= self._grace_until:
            waited, self._unheard = self._unheard, []
            present = (self._state.leases.get(lease.execution.id) for lease in waited)
            return over + [lease for lease in present if lease is not None]
        heard: list[Lease] = []
        for lease in over:
            (heard if self._was_heard(lease.execution.session_id) else self._unheard).append(lease)
        return heard

    def _was_heard(self, session_id: str) -> bool:
        session = self._state.sessions.get(session_id)
        return session is None or session.last_heartbeat >= self._clock_gap_ended_at

    async def _stop_overruns(self, now: float) -> None:
        over: list[tuple[Lease, Change]] = []
        for lease in self._overruns(now):
            chance = int.from_bytes(self._system.entropy(4), "big") / 2**32
            change = attempts.overrun(lease, self._recovery, now=now, chance=chance)
            if change is not None:
                over.append((lease, change))
        refusals = await self._state.commit_as_leader([change for _, change in over])
        for (lease, _), refusal in zip(over, refusals, strict=True):
            if refusal is not None:
                # The node has just said something, but not always that it is done.
                await self._state.refresh.tasks([lease.task.id], [lease.execution.id])
                self._state.time_limits.watch(lease)

    async def _clear_up(self, now: float) -> bool:
        """Remove one portion of rows past their retention; returns whether there may be more."""
        step = self._retention.step
        removed = 0
        if self._retention.tasks_days:
            before = now - self._retention.tasks_days * DAY_S
            removed = max(removed, await self._store.remove_finished(before=before, limit=step))
            # Attempts name their session, so both are kept as long.
            removed = max(removed, await self._store.remove_sessions(before=before, limit=step))
        if self._retention.events_days:
            before = now - self._retention.events_days * DAY_S
            removed = max(removed, await self._store.remove_events(before=before, limit=step))
        if self._retention.audit_days:
            before = now - self._retention.audit_days * DAY_S
            removed = max(removed, await self._store.remove_audit(before=before, limit=step))
        for days, old in self._expiring:
            if days:
                rows = old(before=now - days * DAY_S, limit=step)
                removed = max(removed, await self._store.remove(rows))
        if self._retention.usage_days:
            before = now - self._retention.usage_days * DAY_S
            removed = max(removed, await self._store.remove(old_usage(before=before, limit=step)))
        removed = max(removed, await self._remove_measured(now, step))
        if self._retention.nodes_days:
            before = now - self._retention.nodes_days * DAY_S
            removed = max(removed, await self._archive_gone(before, step))
            removed = max(removed, await self._store.remove_nodes(before=before, limit=step))
        keep_s = self._retention.history_days * DAY_S or None
        more = await self._history.thin(nodes=NODES_BATCH, keep_s=keep_s)
        return more or removed >= step

    async def _remove_measured(self, now: float, limit: int) -> int:
        days, keep = self._retention.quality_days, self._retention.quality_runs
        before = now - days * DAY_S if days else 0.0
        old = await self._store.remove(old_measured_runs(before=before, limit=limit))
        return old + await self._store.remove(surplus_measured_runs(keep=keep, limit=limit))

    async def _archive_gone(self, before: float, limit: int) -> int:
        """Archive nodes that have been gone since then; returns how many."""
        gone = [
            node
            for node in self._state.nodes.values()
            if node.status in GONE and node.updated_at < before
        ][:limit]
        now = self._system.now()
        changes = [
            removal(node, now=now, cause="gone for as long as such nodes are kept") for node in gone
        ]
        await self._state.commit_as_leader(changes)
        return len(changes)
