"""The fence: a node acts for an execution only while it holds the lease, under its token."""

from typing import Protocol

from crawlfleet.control.state.fleet_state import FleetState
from crawlfleet.core.tasks.lease import Lease
from crawlfleet.ports.store import Store


class FencedCall(Protocol):
    """A call for an execution: it names the session, execution and token of the lease."""

    @property
    def session_id(self) -> str: ...
    @property
    def execution_id(self) -> str: ...
    @property
    def token(self) -> int: ...


class Fence:
    """Checks the lease of each call that executions make to the master."""

    def __init__(self, *, store: Store, state: FleetState) -> None:
        self._store = store
        self._state = state

    async def lease(self, node_id: str, call: FencedCall) -> Lease | None:
        """Return the live lease that the call names; `None` if this node does not hold it."""
        session_id, execution_id = call.session_id, call.execution_id
        if session_id not in self._state.sessions:
            await self._state.refresh.nodes([node_id])
        if execution_id not in self._state.leases:
            # Another master may have assigned it a moment ago.
            found = await self._store.execution(execution_id)
            if found is None:
                return None
            await self._state.refresh.tasks([found.task_id], [found.id])
        lease = self._state.leases.get(execution_id)
        if lease is None or session_id not in self._state.sessions:
            return None
        execution = lease.execution
        mine = execution.node_id == node_id and execution.session_id == session_id
        return lease if mine and execution.token == call.token else None
