"""Invariants that hold after every commit, whatever fails.

The checker sees each accepted change, keeps its own small account of the world from nothing but
those changes, and raises `Violation` at the first that breaks a promise.
"""

import itertools
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Final

from crawlfleet.control.leases.service import MAX_BACKLOG
from crawlfleet.core.placement.tenancy import Tenancy
from crawlfleet.core.resources import add, fits
from crawlfleet.core.tasks.lifecycle import NODE_TRANSITIONS, TASK_TRANSITIONS
from crawlfleet.model.change import Change
from crawlfleet.model.event import Event
from crawlfleet.model.node import Node, Session
from crawlfleet.model.quota import Allowance
from crawlfleet.model.resources import NOTHING, RESOURCE_NAMES, Resources
from crawlfleet.model.task import (
    LIVE_EXECUTION,
    TERMINAL,
    Execution,
    ExecutionStatus,
    Task,
    TaskStatus,
)
from crawlfleet.testing.simulation.families import FamilyInvariants
from crawlfleet.testing.simulation.measured import QualityInvariants
from crawlfleet.testing.simulation.schedules import ScheduleInvariants
from crawlfleet.testing.simulation.tenants import TenantInvariants
from crawlfleet.testing.simulation.usage import UsageInvariants
from crawlfleet.testing.simulation.workflows import WorkflowInvariants
from crawlfleet.worker.session.reports import REPORTS_AT_ONCE

OWNING: Final = frozenset({ExecutionStatus.ASSIGNED, ExecutionStatus.RUNNING})
_TASK_MOVES: Final = {(source, target) for (source, _), target in TASK_TRANSITIONS.items()}
_NODE_MOVES: Final = {(source, target) for (source, _), target in NODE_TRANSITIONS.items()}
ROUNDING: Final = 1e-6


class Violation(AssertionError):
    """A promise was broken."""


class Invariants:
    """Watches all changes of one world."""

    def __init__(
        self, *, max_losses: int, allowances: Mapping[str, Allowance] | None = None
    ) -> None:
        self._max_losses = max_losses
        self.tasks: dict[str, Task] = {}
        self.executions: dict[str, Execution] = {}
        self.nodes: dict[str, Node] = {}
        self._live: dict[str, dict[str, Execution]] = defaultdict(dict)
        self._owners: dict[str, set[str]] = defaultdict(set)
        self._ends: dict[str, Counter[ExecutionStatus]] = defaultdict(Counter)
        self._requeued: Counter[str] = Counter()
        self._ended_sessions: set[str] = set()
        self._dedup_holders: dict[tuple[str, str], str] = {}
        self.family = FamilyInvariants(self.tasks)
        self.timetable = ScheduleInvariants()
        self.tenants = TenantInvariants(self.tasks, allowances or {})
        self.runs = WorkflowInvariants(self.tasks)
        self.quality = QualityInvariants()
        self.usage = UsageInvariants()
        self.acting: set[str] = set()
        """Executions whose executor is running now, whatever the master believes."""

    def observe(self, change: Change) -> None:
        """Take one accepted change into account."""
        for node in change.nodes:
            self._see_node(node)
        for session in change.sessions:
            _demand(session.id not in self._ended_sessions, f"{session.id} changed after its end")
            if session.ended_at is not None:
                self._ended_sessions.add(session.id)
                self._check_fenced(session)
        for execution in change.executions:
            self._see_execution(execution)
        moves: dict[str, list[Event]] = defaultdict(list)
        for event in change.events:
            if event.to_state:
                moves[event.subject].append(event)
        for task in change.tasks:
            self._see_task(task, moves[task.id])
        for execution in change.executions:
            self._see_lease(execution)
        try:
            for execution in change.executions:
                self.tenants.observe(execution)
            self.family.observe(change)
            self.timetable.observe(change)
            self.runs.observe(change)
            self.quality.observe(change)
            self.usage.observe(change)
        except AssertionError as broken:
            raise Violation(str(broken)) from broken

    def _check_fenced(self, session: Session) -> None:
        """A node stops acting before the master can declare it silent."""
        if session.end_cause.startswith("silent"):
            for execution in self._live[session.node_id].values():
                _demand(
                    execution.session_id != session.id or execution.id not in self.acting,
                    f"{execution.id} still acts when its session ends for silence",
                )

    def reserved(self, node_id: str) -> Resources:
        """Return the resources that the live executions of a node have reserved, by this
        account."""
        total = NOTHING
        for execution in self._live[node_id].values():
            total = add(total, execution.reserved)
        return total

    def check_reservations(self, node_id: str, claimed: Resources) -> None:
        """The master's own bookkeeping must agree with the live leases."""
        actual = self.reserved(node_id)
        for name in RESOURCE_NAMES:
            difference = abs(getattr(actual, name) - getattr(claimed, name))
            _demand(
                difference < ROUNDING,
                f"{node_id}: {name} in use is {getattr(actual, name)}, "
                f"the master thinks {getattr(claimed, name)}",
            )

    def check_tenants(self, tenancy: Tenancy) -> None:
        """Check the master's account of each project."""
        try:
            for project_id in self.tenants.projects():
                self.tenants.check(tenancy.tenant(project_id))
        except AssertionError as broken:
            raise Violation(str(broken)) from broken

    def _see_node(self, node: Node) -> None:
        before = self.nodes.get(node.id)
        if before is not None and before.status is not node.status:
            _demand(
                (before.status, node.status) in _NODE_MOVES,
                f"{node.id} went from {before.status} to {node.status}",
            )
        self.nodes[node.id] = node

    def _see_execution(self, execution: Execution) -> None:
        before = self.executions.get(execution.id)
        self.executions[execution.id] = execution
        live = self._live[execution.node_id]
        owners = self._owners[execution.task_id]
        if before is None:
            _demand(
                execution.session_id not in self._ended_sessions,
                f"{execution.id} was assigned under an ended session",
            )
        else:
            _demand(before.status in LIVE_EXECUTION, f"{execution.id} changed after its end")
        if execution.status in LIVE_EXECUTION:
            live[execution.id] = execution
        else:
            live.pop(execution.id, None)
            if execution.id in owners:
                # One that was being stopped had lost its task before: it is nobody's attempt.
                self._ends[execution.task_id][execution.status] += 1
        if execution.status in OWNING:
            owners.add(execution.id)
        else:
            owners.discard(execution.id)
        _demand(
            len(owners) <= 1,
            f"{execution.task_id} has {len(owners)} live leases at once: {sorted(owners)}",
        )
        node = self.nodes[execution.node_id]
        # What lies ready beyond the slots is bounded too, and holds its other resources; while
        # ends are being recorded, as many more may.
        room = add(node.resources, Resources(slots=MAX_BACKLOG + REPORTS_AT_ONCE))
        given = self.reserved(node.id)
        _demand(
            fits(given, room), f"{node.id} was given {given}, more than it has: {node.resources}"
        )

    def _see_task(self, task: Task, moves: list[Event]) -> None:
        """Check a task; `moves` are the events of this change about the task's states."""
        before = self.tasks.get(task.id)
        self.tasks[task.id] = task
        self._check_dedup(task)
        if before is None:
            _demand(len(moves) == 1, f"{task.id} was made without its event")
            return
        _demand(task.token >= before.token, f"the token of {task.id} went back")
        _demand(before.status is not TaskStatus.COMPLETED, f"{task.id} changed after it completed")
        if task.status is before.status and not moves:
            return
        path = [str(before.status), *(str(event.to_state) for event in moves)]
        _demand(path[-1] == task.status, f"the events of {task.id} tell {path}, not {task.status}")
        for source, target in itertools.pairwise(path):
            allowed = (TaskStatus(source), TaskStatus(target)) in _TASK_MOVES
            _demand(allowed, f"{task.id} went from {source} to {target}")
        if before.status in TERMINAL:
            _demand(moves[0].cause.startswith("retried by"), f"{task.id} left its end by itself")
            self._requeued[task.id] += 1
        self._check_attempts(task)

    def _check_dedup(self, task: Task) -> None:
        if task.dedup_key is None:
            return
        key = (task.project_id, task.dedup_key)
        holder = self._dedup_holders.get(key)
        if task.status in TERMINAL:
            if holder == task.id:
                del self._dedup_holders[key]
            return
        _demand(holder in {None, task.id}, f"{task.id} and {holder} live with one dedup_key")
        self._dedup_holders[key] = task.id

    def _check_attempts(self, task: Task) -> None:
        lives = self._requeued[task.id] + 1
        ends = self._ends[task.id]
        failures = ends[ExecutionStatus.FAILED] + ends[ExecutionStatus.TIMEOUT]
        _demand(
            failures <= (task.max_retries + 1) * lives,
            f"{task.id} was tried {failures} times with max_retries {task.max_retries}",
        )
        _demand(
            ends[ExecutionStatus.LOST] <= (self._max_losses + 1) * lives,
            f"{task.id} was lost {ends[ExecutionStatus.LOST]} times",
        )
        _demand(
            ends[ExecutionStatus.COMPLETED] <= 1,
            f"{task.id} has {ends[ExecutionStatus.COMPLETED]} recorded results",
        )

    def _see_lease(self, execution: Execution) -> None:
        """Check that an execution changes its task only under the task's present token."""
        task = self.tasks[execution.task_id]
        if execution.status in OWNING:
            _demand(
                task.execution_id == execution.id and task.token == execution.token,
                f"{execution.id} is live, but {task.id} belongs to {task.execution_id}",
            )
        if execution.status is ExecutionStatus.COMPLETED:
            _demand(
                task.status is TaskStatus.COMPLETED
                and task.execution_id == execution.id
                and task.token == execution.token
                and task.result is not None,
                f"{execution.id} completed, but {task.id} is {task.status} "
                f"under token {task.token}",
            )


def _demand(holds: bool, complaint: str) -> None:
    if not holds:
        raise Violation(complaint)
