"""Backlogs: how many executions may be queued on a node in addition to its slots. In memory only.

A node that finishes thousands of short executions a second asks for a backlog. While results of the
node are being committed, as many more executions may be queued: so planning and disk overlap. On a
node without a backlog, an execution keeps its slot until its end is committed.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from crawlfleet.core.placement.fleet import Fleet
from crawlfleet.model.change import Change
from crawlfleet.model.task import LIVE_EXECUTION


class Backlogs:
    """The backlogs of the fleet's nodes, passed on to the fleet for its plans."""

    def __init__(self, fleet: Fleet, *, wake_dispatch: Callable[[], None]) -> None:
        self._fleet = fleet
        self._wake_dispatch = wake_dispatch
        self._allowed: dict[str, int] = {}
        self._ending: dict[str, int] = {}
        """Number of executions of a node whose ends are being committed, by node."""

    def allow(self, node_id: str, executions: int) -> None:
        """Let so many executions be queued on a node beyond its slots."""
        if self._allowed.get(node_id, 0) != executions:
            self._allowed[node_id] = executions
            self.renew(node_id)
            self._wake_dispatch()

    def renew(self, node_id: str) -> None:
        """Pass a node's backlog on to the fleet, which may have just learned of the node."""
        if node_id not in self._fleet:
            return
        allowed = self._allowed.get(node_id, 0) if self._fleet.capacity(node_id).slots else 0
        more = self._ending.get(node_id, 0) if allowed else 0
        self._fleet.allow_ahead(node_id, allowed + more)

    @contextmanager
    def ending(self, node_id: str, changes: Sequence[Change]) -> Iterator[None]:
        """Enlarge the node's backlog by the executions that these changes end."""
        ends = 0
        if self._allowed.get(node_id):
            executions = (each for change in changes for each in change.executions)
            ends = sum(each.status not in LIVE_EXECUTION for each in executions)
        if not ends:
            yield
            return
        self._add(node_id, ends)
        self._wake_dispatch()
        try:
            yield
        finally:
            self._add(node_id, -ends)

    def _add(self, node_id: str, executions: int) -> None:
        self._ending[node_id] = self._ending.get(node_id, 0) + executions
        if not self._ending[node_id]:
            del self._ending[node_id]
        self.renew(node_id)
