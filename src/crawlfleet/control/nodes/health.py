"""The health of nodes, judged at each heartbeat by the master that receives it.

A node's measurements come with its heartbeats; the outcomes of its executions are counted here. The
state between heartbeats is in memory: another master gathers it anew within the window.
"""

from collections import deque
from typing import Final

from crawlfleet.control.state.fleet_state import FleetState
from crawlfleet.core.nodes.health import HealthReading, Trend, assessed, judge
from crawlfleet.model.change import Change
from crawlfleet.model.node import CONNECTED, Session
from crawlfleet.model.node_sample import NodeSample
from crawlfleet.model.settings import HealthSettings
from crawlfleet.ports.system import System

SPARE: Final = 1000
"""Watches of so many nodes that are gone are kept before they are dropped."""


class _Watch:
    """State of a node's health between heartbeats, within one session."""

    __slots__ = ("lately", "session_id", "trend")

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.trend = Trend()
        self.lately: deque[NodeSample] = deque()


class NodeHealth:
    """Judges the health of nodes by their measurements and the outcomes of their executions."""

    def __init__(self, *, state: FleetState, settings: HealthSettings, system: System) -> None:
        self._state = state
        self._system = system
        self._settings = settings
        self._watches: dict[str, _Watch] = {}

    def observe(
        self, session: Session, sample: NodeSample | None, *, sent_at: float | None
    ) -> Change | None:
        """Return the change of the node's health after a heartbeat; `None` when there is none.

        `sample` is the sample that the history kept of it, if any; `sent_at` is the node's clock.
        """
        node = self._state.nodes.get(session.node_id)
        if node is None or node.session_id != session.id or node.status not in CONNECTED:
            return None
        now = session.last_heartbeat
        watch = self._watch(session)
        if sample is not None and sample.ended:
            watch.lately.append(sample)
        while watch.lately and watch.lately[0].at < now - self._settings.window_s:
            watch.lately.popleft()
        skew_s = None if sent_at is None else abs(sent_at - self._system.wall())
        reading = self._reading(session, watch, skew_s)
        conditions, watch.trend = judge(
            node.conditions, watch.trend, reading, self._settings, now=now
        )
        changed = assessed(node, conditions, now=now)
        return None if changed is None else Change(nodes=(changed[0],), events=(changed[1],))

    def _watch(self, session: Session) -> _Watch:
        watch = self._watches.get(session.node_id)
        if watch is None or watch.session_id != session.id:
            watch = self._watches[session.node_id] = _Watch(session.id)
            if len(self._watches) > len(self._state.nodes) + SPARE:
                self._watches = {
                    id: each for id, each in self._watches.items() if id in self._state.nodes
                }
        return watch

    def _reading(self, session: Session, watch: _Watch, skew_s: float | None) -> HealthReading:
        usage = session.usage
        ended = sum(each.ended for each in watch.lately)
        error_rate = wait_s = None
        if ended >= self._settings.least_ended:
            error_rate = sum(each.errors for each in watch.lately) / ended
            begun = sum(each.ended for each in watch.lately if each.wait_s is not None)
            waited = sum((each.wait_s or 0.0) * each.ended for each in watch.lately)
            wait_s = waited / begun if begun else None
        return HealthReading(
            cpu=usage.cpu_usage,
            memory=usage.memory_usage,
            disk=usage.disk_usage,
            disk_free_mb=usage.disk_free_mb,
            error_rate=error_rate,
            wait_s=wait_s,
            clock_skew_s=skew_s,
        )
