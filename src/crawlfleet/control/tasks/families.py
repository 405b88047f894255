"""Tasks that orders are about, with their shards and parents, while changes are decided on.

What a batch of orders does to one family is one change: the second shard of a parent that is
retried finds the parent as the first has left it, and neither is made without the other. Apart
from each other, the second could be made on a state that the first was refused.
"""

from collections.abc import Callable, Iterable

from crawlfleet.core.tasks import parents as shards
from crawlfleet.core.tasks.lease import Lease
from crawlfleet.core.tasks.orders import TaskOrder, follow
from crawlfleet.model.change import Change
from crawlfleet.model.task import LEASED, Task


class TaskFamilies:
    """Tasks as the store has them, and as they are after the changes that were decided on."""

    def __init__(self, tasks: Iterable[Task], lease_of: Callable[[Task], Lease | None]) -> None:
        self._lease_of = lease_of
        self._stored = {task.id: task for task in tasks}
        self._changed: dict[str, Task] = {}
        self._shards: dict[str, list[str]] = {}
        self._places: dict[str, int] = {}
        """Where in the batch the change of each family is."""
        self.others: list[str] = []
        """Those that no order names."""

    @property
    def parents(self) -> list[str]:
        """The tasks among them that were split."""
        return [task.id for task in self._stored.values() if task.is_parent]

    def missing_parents(self, order: TaskOrder) -> list[str]:
        """Whom the order concerns because shards of theirs are brought back to life."""
        if order.verb not in shards.WAKING:
            return []
        named = (task.parent_id for task in self._stored.values())
        return [*dict.fromkeys(id for id in named if id and id not in self._stored)]

    def add(self, tasks: Iterable[Task]) -> None:
        """Shards and parents of those that are here; what was read later is newer."""
        for task in tasks:
            if task.id not in self._stored:
                self.others.append(task.id)
            self._stored[task.id] = task
            if task.parent_id is not None:
                self._shards.setdefault(task.parent_id, []).append(task.id)

    def get(self, id: str) -> Task | None:
        """The task as it will be by then; `None` when there is none."""
        return self._changed.get(id) or self._stored.get(id)

    def is_stored(self, task: Task) -> bool:
        """Whether the store has it like this, and not only a change that may be refused."""
        return task.id not in self._changed

    def lags(self, task: Task) -> bool:
        """Whether memory does not know of an assignment that the store tells of."""
        concerned = [task, *self._shards_of(task)]
        return any(each.status in LEASED and self._lease_of(each) is None for each in concerned)

    def follow(self, order: TaskOrder, task: Task, changes: list[Change], *, now: float) -> bool:
        """Add what the order changes to the batch; whether it fits the task."""
        change = self._followed(order, task, now)
        if change is None:
            return False
        if not task.shards:
            changes.append(change)
            return True
        place = self._places.setdefault(task.parent_id or task.id, len(changes))
        if place == len(changes):
            changes.append(change)
        else:
            changes[place] = change = shards.joined(changes[place], change)
        self._changed.update((each.id, each) for each in change.tasks)
        return True

    def _followed(self, order: TaskOrder, task: Task, now: float) -> Change | None:
        """What the order changes, of the task and of those that belong to it."""
        if task.is_parent:
            children = self._shards_of(task)
            leases = [(child.id, self._lease_of(child)) for child in children]
            executions = {id: lease.execution for id, lease in leases if lease is not None}
            return shards.follow_parent(order, task, children, executions, now=now)
        lease = self._lease_of(task)
        change = follow(order, task, lease.execution if lease else None, now=now)
        parent = self.get(task.parent_id) if task.parent_id else None
        if change is None or parent is None:
            return change
        return shards.with_parent(order, change, task, parent, now=now)

    def _shards_of(self, task: Task) -> list[Task]:
        found = (self.get(id) for id in self._shards.get(task.id, ()))
        return [child for child in found if child is not None]
