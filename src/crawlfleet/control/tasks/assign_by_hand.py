"""Assigns a task to a node that a person names, instead of the one that placement would choose.

The same filters apply: a node that must not have the task does not get it.
"""

from crawlfleet.control.leases.dispatch import FreeCapacity
from crawlfleet.control.nodes.sessions import Nodes
from crawlfleet.control.state.fleet_state import FleetState
from crawlfleet.control.state.if_version import has_changed
from crawlfleet.control.tasks.service import Tasks
from crawlfleet.core.placement.explanation import reasons_against
from crawlfleet.core.placement.plan import requirement_of
from crawlfleet.core.placement.rules import PlacementRules
from crawlfleet.core.resources import demand_of
from crawlfleet.core.tasks import attempts
from crawlfleet.errors import Conflict, LeadershipLost
from crawlfleet.model.ids import EXECUTION, make_id
from crawlfleet.model.task import LEASED, Task
from crawlfleet.ports.system import System


class AssignByHand:
    """Assigns single tasks by order."""

    def __init__(
        self,
        *,
        state: FleetState,
        system: System,
        rules: PlacementRules,
        tasks: Tasks,
        nodes: Nodes,
    ) -> None:
        self._state = state
        self._system = system
        self._rules = rules
        self._tasks = tasks
        self._nodes = nodes
        self._quotas = tasks.quotas

    async def assign(
        self, task_id: str, node_id: str, *, by: str, names_projects: bool = True
    ) -> Task:
        """Assign a task to a node and return the task; raises `NotFound`, or `Conflict` with the
        reasons. These name other projects only with `names_projects`.
        """
        async with self._state.assigning:
            return await self._assign(task_id, node_id, by, names_projects)

    async def _assign(self, task_id: str, node_id: str, by: str, names_projects: bool) -> Task:
        task, node = await self._tasks.get(task_id), await self._nodes.find(node_id)
        if task.status in LEASED and task.assigned_node == node_id:
            return task
        demand = demand_of(task)
        fleet, requirement = self._state.fleet, requirement_of(task)
        against = [
            *reasons_against(
                node,
                requirement,
                fleet,
                self._rules,
                project_id=task.project_id,
                names_projects=names_projects,
            )
        ]
        if against or node.session_id is None:
            why = "; ".join(reason.message for reason in against) or "it has no session"
            raise Conflict(f"{node_id} cannot take {task_id}: {why}")
        if held := self._quotas.holds(task):
            raise Conflict(f"{task_id} is {self._quotas.in_words(task.project_id, held)}")
        change = attempts.assign(
            task,
            node_id=node_id,
            session_id=node.session_id,
            execution_id=make_id(EXECUTION, self._system.now(), self._system.entropy),
            reserved=demand,
            allocation=FreeCapacity(self._state.fleet).allocate(node_id, demand, task.capabilities),
            now=self._system.now(),
            cause=f"assigned by {by}",
        )
        if change is None:
            raise Conflict(f"{task_id} is {task.status}: only a pending task can be assigned")
        try:
            (refusal,) = await self._state.commit_as_leader([change])
        except LeadershipLost:
            # What the leader gives out at this moment is not known here: a node may be full.
            raise Conflict(
                f"another master leads, and it alone gives {task_id} to a node; `crawlfleet "
                "status` names it: ask that one"
            ) from None
        if refusal is not None:
            raise has_changed(task_id)
        return change.tasks[0]
