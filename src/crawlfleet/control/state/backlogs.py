"""How much may lie ready at nodes beyond their slots. Nothing of this is stored.

A node that finishes thousands of short executions a second says how many it wants to have ready.
While the ends of some are being recorded, as many more may lie there: the next work is planned
while the disk is busy with those ends, and is recorded right behind them. Where nothing may lie
ready, an execution keeps its place until its end is recorded.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from crawlfleet.core.placement.fleet import Fleet
from crawlfleet.model.change import Change
from crawlfleet.model.task import LIVE_EXECUTION


class Backlogs:
    """What the nodes of a fleet may have ready, which the fleet is told."""

    def __init__(self, fleet: Fleet, *, wake_dispatch: Callable[[], None]) -> None:
        self._fleet = fleet
        self._wake_dispatch = wake_dispatch
        self._allowed: dict[str, int] = {}
        self._ending: dict[str, int] = {}
        """How many executions of a node are being recorded as ended."""

    def allow(self, node_id: str, executions: int) -> None:
        """Let so many executions lie ready at a node."""
        if self._allowed.get(node_id, 0) != executions:
            self._allowed[node_id] = executions
            self.renew(node_id)
            self._wake_dispatch()

    def renew(self, node_id: str) -> None:
        """Tell the fleet, which may have got to know the node, or its slots, just now."""
        if node_id not in self._fleet:
            return
        allowed = self._allowed.get(node_id, 0) if self._fleet.capacity(node_id).slots else 0
        more = self._ending.get(node_id, 0) if allowed else 0
        self._fleet.allow_ahead(node_id, allowed + more)

    @contextmanager
    def ending(self, node_id: str, changes: Sequence[Change]) -> Iterator[None]:
        """While they are recorded: what ends at the node with these changes makes room already."""
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
