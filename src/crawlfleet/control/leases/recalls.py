"""Takes work back from nodes whose drain deadline is over, or that are unhealthy for too long.

The task goes back to the queue at once and costs none of its retries; the node is ordered to stop
the attempt, and late reports of it are stale by their old token.
"""

from collections.abc import Iterator

from crawlfleet.control.state.fleet_state import FleetState
from crawlfleet.core.nodes.health import release_at
from crawlfleet.core.tasks import attempts
from crawlfleet.model.change import Change
from crawlfleet.model.node import Node
from crawlfleet.model.settings import HealthSettings
from crawlfleet.ports.system import System
from crawlfleet.telemetry import Component, logger

log = logger(Component.RECOVER)


class Recalls:
    """Knows when work has to be taken back, and does it. For the leader alone."""

    def __init__(self, *, state: FleetState, system: System, settings: HealthSettings) -> None:
        self._state = state
        self._system = system
        self._settings = settings

    def next(self) -> float | None:
        """The next instant at which some has to be; `None` when none has."""
        instants = (
            at
            for node in self._state.nodes_due.nodes.values()
            if (at := self._due(node)) is not None and self._works(node)
        )
        return min(instants, default=None)

    async def do_due(self, now: float) -> None:
        """Take back all that is due; raises `LeadershipLost` when another master leads."""
        changes: list[Change] = []
        for node in [*self._state.nodes_due.nodes.values()]:
            at = self._due(node)
            if at is not None and at <= now:
                changes += self._recall(node, now)
        await self._state.commit_as_leader(changes)

    def _due(self, node: Node) -> float | None:
        instants = (node.drain_until, release_at(node, self._settings))
        return min((at for at in instants if at is not None), default=None)

    def _works(self, node: Node) -> bool:
        return any(lease.owns for lease in self._state.session_executions(node.session_id or ""))

    def _recall(self, node: Node, now: float) -> Iterator[Change]:
        is_drained = node.drain_until is not None and node.drain_until <= now
        cause = (
            f"the time to drain {node.id} is up"
            if is_drained
            else f"{node.id} is {node.health}: {node.health_reason}"
        )
        for lease in self._state.session_executions(node.session_id or ""):
            change = attempts.recall(lease, now=now, cause=cause)
            if change is not None:
                log.info("taken back", task_id=lease.task.id, node_id=node.id, cause=cause)
                yield change
