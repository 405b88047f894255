"""Read-only queries: lists, counts, histories, and why a task is where it is."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from crawlfleet.control.leases.prewarming import Prewarming
from crawlfleet.control.state.counters import Counters, Happening
from crawlfleet.control.state.fleet_state import FleetState
from crawlfleet.control.tasks.service import Tasks
from crawlfleet.core.placement.explanation import explain
from crawlfleet.core.placement.plan import requirement_of
from crawlfleet.core.placement.rules import PlacementRules
from crawlfleet.core.quality.acceptance import in_words as in_words_of
from crawlfleet.core.tasks.parents import waits_for
from crawlfleet.model.node import Node, Session
from crawlfleet.model.statistics import Statistics, Throughput
from crawlfleet.model.task import TERMINAL, Execution, Shard, Task, TaskStatus
from crawlfleet.ports.kernel_tables import measured_runs_of
from crawlfleet.ports.store import Store, TaskFilter
from crawlfleet.ports.system import System
from crawlfleet.views.quotas import QuotaHold
from crawlfleet.views.status import Totals
from crawlfleet.views.tasks import TaskExplanation

HOUR_S: Final = 3600.0
MAX_NAMED: Final = 3
WINDOWS_S: Final = {"minute": 60.0, "five_minutes": 300.0, "hour": HOUR_S}


class NodeState(msgspec.Struct, frozen=True, kw_only=True):
    """A node with its newest measurements and its active tasks."""

    node: Node
    session: Session | None
    active_tasks: tuple[str, ...]


class TaskQueries:
    """Answers queries from the state and the store; changes nothing."""

    def __init__(
        self,
        *,
        store: Store,
        state: FleetState,
        system: System,
        tasks: Tasks,
        rules: PlacementRules,
        warming: Prewarming,
    ) -> None:
        self._store = store
        self._state = state
        self._system = system
        self._tasks = tasks
        self._rules = rules
        self._quotas = tasks.quotas
        self._warming = warming

    async def find_tasks(
        self, filter: TaskFilter, *, after: str | None, limit: int, with_results: bool = True
    ) -> tuple[list[Task], str | None]:
        """Return a page of tasks, newest first, and where the next page begins."""
        found = await self._store.find_tasks(
            filter, after=after, limit=limit + 1, with_results=with_results
        )
        page = found[:limit]
        return page, page[-1].id if len(found) > limit else None

    async def executions(self, task_id: str) -> list[Execution]:
        """Return the attempts of a task, oldest first; `NotFound` for an unknown task."""
        await self._tasks.get(task_id)
        return await self._store.executions(task_id)

    async def shards(self, parent_id: str) -> list[Shard]:
        """Return the states of a task's shards, in their order."""
        return await self._store.shards(parent_id)

    def nodes(self) -> list[NodeState]:
        """Return all nodes, in order of their registration."""
        tasks: dict[str, list[str]] = {}
        # Once for all nodes: a large fleet has thousands of both.
        for lease in self._state.leases.values():
            tasks.setdefault(lease.execution.node_id, []).append(lease.task.id)
        return [
            self._with_tasks(node, tasks.get(node.id, ()))
            for _, node in sorted(self._state.nodes.items())
        ]

    def node(self, node: Node) -> NodeState:
        """Return a node with its session and tasks; for many nodes, `nodes` is quicker."""
        leases = self._state.leases.values()
        return self._with_tasks(
            node, (lease.task.id for lease in leases if lease.execution.node_id == node.id)
        )

    def _with_tasks(self, node: Node, task_ids: Iterable[str]) -> NodeState:
        return NodeState(
            node=node,
            session=self._state.sessions.get(node.session_id or ""),
            active_tasks=tuple(sorted(task_ids)),
        )

    async def totals(self, project_id: str | None = None) -> Totals:
        """Return counts of the whole fleet, or of a project's tasks alone."""
        if project_id is not None:
            return await self._project_totals(project_id)
        nodes = Counter(str(node.status) for node in self._state.nodes.values())
        counted = await self._store.count_tasks()
        return Totals(
            tasks={str(status): count for status, count in counted.items()},
            nodes=dict(nodes),
            ready=len(self._state.queue),
            delayed=len(self._state.delays.until),
            running=len(self._state.leases),
        )

    async def _project_totals(self, project_id: str) -> Totals:
        counted = await self._store.count_tasks(project_id)
        delayed = self._state.delays.count(project_id)
        leases = self._state.leases.values()
        return Totals(
            tasks={str(status): count for status, count in counted.items()},
            nodes={},
            ready=max(counted.get(TaskStatus.PENDING, 0) - delayed, 0),
            delayed=delayed,
            running=sum(lease.task.project_id == project_id for lease in leases),
        )

    def oldest_ready_s(self) -> float | None:
        """Return the age of the longest ready task; `None` without one."""
        made_at = self._state.queue.longest_ready()
        return None if made_at is None else round(max(self._system.now() - made_at, 0.0), 3)

    async def statistics(self, project_id: str | None = None) -> Statistics:
        """Return present counts, throughput and failures of the fleet, or of one project."""
        totals = await self.totals(project_id)
        now, tally, whole = self._system.now(), self._state.counters, project_id is None
        failures = tally.within(HOUR_S, now=now, project_id=project_id)[1]
        nodes = self._state.nodes.values() if whole else ()
        return Statistics(
            at=datetime.fromtimestamp(now, UTC),
            since=datetime.fromtimestamp(tally.since, UTC),
            tasks=totals.tasks,
            ready=totals.ready,
            delayed=totals.delayed,
            running=totals.running,
            oldest_ready_s=self.oldest_ready_s() if whole else None,
            throughput={
                name: _throughput(tally, seconds, now, project_id)
                for name, seconds in WINDOWS_S.items()
            },
            failures={str(kind): count for kind, count in failures.items()},
            nodes=totals.nodes,
            health=dict(Counter(str(node.health) for node in nodes)),
        )

    def _waits_for_environment(self, task: Task) -> str:
        """Return the environment that a task waits for, and its nodes; "" if none."""
        if task.bundle is None or task.id not in self._state.queue:
            return ""
        asked = requirement_of(task)
        nodes = self._warming.waits(asked, task.project_id, self._rules)
        if not nodes:
            return ""
        ready = {*self._state.fleet.ready(task.bundle.digest)}
        how = "is busy" if any(node.id in ready for node in nodes) else "is being made"
        return f"waits for the environment of {task.bundle} on {_named(nodes)}, which {how}"

    async def explain(
        self, task_id: str, *, hidden: Collection[str] | None = None
    ) -> TaskExplanation:
        """Explain why the task is (not) running; `NotFound` for an unknown task.

        With `hidden`, for a reader of the task's project alone: the explanation names no nodes of
        these clusters, and no other projects.
        """
        task = await self._tasks.get(task_id)
        if task.is_parent and task.status is TaskStatus.WAITING:
            found = await self.shards(task.id)
            return TaskExplanation(
                task_id=task.id,
                status=str(task.status),
                summary=waits_for(found),
                shards=dict(Counter(str(each.status) for each in found)),
            )
        if task.status is not TaskStatus.PENDING:
            settled = _settled(task)
            if task.expectations is not None and task.status in TERMINAL:
                settled["summary"] += await self._measured(task.id)
            return TaskExplanation(task_id=task.id, status=str(task.status), **settled)
        placement = explain(
            requirement_of(task),
            self._state.fleet,
            self._rules,
            project_id=task.project_id,
            hidden=hidden,
        )
        now = self._system.now()
        if (held_back := self._state.gate.why(task, now)) is not None:
            summary, again_at = held_back
            return TaskExplanation(
                task_id=task.id,
                status=str(task.status),
                summary=summary,
                placement=placement,
                ready_at=again_at,
                target=task.target,
            )
        ready_at = self._state.delays.until.get(task.id)
        if ready_at is not None and ready_at > self._system.now():
            wait = ready_at - self._system.now()
            summary = (
                f"waits {wait:.1f} s before retry {task.retry_count} of {task.max_retries} "
                f"after: {task.error.message if task.error else 'an earlier attempt'}"
            )
            return TaskExplanation(
                task_id=task.id,
                status=str(task.status),
                summary=summary,
                placement=placement,
                ready_at=ready_at,
            )
        held = self._quotas.holds(task)
        summary = self._waits_for_environment(task) or placement.summary
        return TaskExplanation(
            task_id=task.id,
            status=str(task.status),
            summary=self._quotas.in_words(task.project_id, held) if held else summary,
            placement=placement,
            ready_tasks=len(self._state.queue) if hidden is None else None,
            quotas=tuple(
                QuotaHold(
                    quota=str(each.quota),
                    use=each.use,
                    needs=each.needs,
                    limit=each.limit,
                    until=self._quotas.until(each),
                )
                for each in held
            ),
        )

    async def _measured(self, task_id: str) -> str:
        """Return the verdict on the task's items, and any awaited decision, to end a sentence."""
        found = await self._store.find(measured_runs_of([task_id]))
        return f"; {in_words_of(found[-1])}" if found else ""


def _named(nodes: Sequence[Node]) -> str:
    names = [node.name for node in nodes[:MAX_NAMED]]
    others = len(nodes) - len(names)
    return ", ".join(names) + (f" and {others} more" if others else "")


def _throughput(tally: Counters, seconds: float, now: float, project_id: str | None) -> Throughput:
    happened, _ = tally.within(seconds, now=now, project_id=project_id)
    covered = max(min(seconds, now - tally.since), 0.001)
    return Throughput(
        seconds=round(covered, 3),
        **{str(each): happened[each] for each in Happening if each is not Happening.PAGE},
        completed_per_s=round(happened[Happening.COMPLETED] / covered, 3),
    )


def _settled(task: Task) -> dict[str, Any]:
    if task.status in TERMINAL:
        ended = f"ended as {task.status}"
        reason = f": {task.dead_reason}" if task.dead_reason else ""
        error = f" ({task.error.message})" if task.error else ""
        return {"summary": f"{ended}{reason}{error}"}
    if task.status is TaskStatus.PAUSED:
        return {"summary": "paused; `resume` puts it back into the queue"}
    if task.status is TaskStatus.WAITING:
        return {"summary": "waits for the tasks that it depends on"}
    return {"summary": f"{task.status} on {task.assigned_node}, attempt {task.token}"}
