"""Tasks that nobody works on: ready for a node, waiting for their time, or held back."""

from collections.abc import Callable, Sequence

from crawlfleet.control.state.delays import DelayedTasks
from crawlfleet.control.state.gate import RetryGate
from crawlfleet.control.state.remembered import ReadyCache
from crawlfleet.core.placement.plan import requirement_of
from crawlfleet.core.placement.project_queues import ProjectQueues
from crawlfleet.model.change import NEVER
from crawlfleet.model.task import Task, TaskStatus


class PendingTasks:
    """Each task that is pending stands in one of them."""

    def __init__(
        self, gate: RetryGate, *, wake_dispatch: Callable[[], None], wake_timers: Callable[[], None]
    ) -> None:
        self.queue = ProjectQueues()
        self.delays = DelayedTasks(wake=wake_timers)
        self._ready = ReadyCache()
        self._gate = gate
        self._wake = wake_dispatch
        gate.begin(wake_timers)

    def put(self, task: Task, now: float) -> None:
        """A task as it is now; one that is not pending stands nowhere."""
        if task.target is not None:
            self._gate.breakers.note(task, now)
        if task.status is not TaskStatus.PENDING:
            self.forget(task.id)
        elif task.not_before > now:
            self._put_delayed(task)
        elif (task.target is not None or task.retry_count) and self._has_to_wait(task, now):
            self._put_held(task)
        else:
            self._put_ready(task)

    def forget(self, task_id: str) -> None:
        """The task stands nowhere any more. May be called twice."""
        if task_id in self.queue:
            self._ready.forget(task_id)
            self.queue.discard(task_id)
        elif task_id in self.delays:
            self._gate.forget(task_id)
            self.delays.forget(task_id)

    def remembered(self, ids: Sequence[str]) -> dict[str, Task]:
        """Those of the ready tasks that are in memory."""
        found = ((id, self._ready.get(id)) for id in ids)
        return {id: task for id, task in found if task is not None}

    def hold_back(self, task: Task, now: float) -> bool:
        """Take a ready task from the queue if it has to wait by now; whether it has."""
        if not self._gate.breakers.is_open(task) or not self._gate.holds_back(task, now):
            return False
        self._put_held(task)
        return True

    def _has_to_wait(self, task: Task, now: float) -> bool:
        # What is in the queue was asked about; if that is different now, dispatch finds out.
        return task.id not in self.queue and self._gate.holds_back(task, now)

    def _put_delayed(self, task: Task) -> None:
        self._gate.forget(task.id)
        self._ready.forget(task.id)
        self.queue.discard(task.id)
        self.delays.put(task)

    def _put_held(self, task: Task) -> None:
        self._ready.forget(task.id)
        self.queue.discard(task.id)
        self.delays.put(task, NEVER)

    def _put_ready(self, task: Task) -> None:
        self._gate.forget(task.id)
        self.delays.forget(task.id)
        self._ready.put(task)
        self.queue.add(
            task.id,
            requirement_of(task),
            priority=task.priority,
            created_at=task.created_at,
            category=task.categories[0] if task.categories else "",
            project_id=task.project_id,
            deadline=task.deadline,
        )
        self._wake()
