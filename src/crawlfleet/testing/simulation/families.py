"""Invariants of split tasks, checked after every commit.

A parent is made with all of its shards; it ends once, never before them, as what they came to and
with what they have; and whoever brings a shard back to life brings its parent back with it.
"""

from collections.abc import Iterable, Mapping

import msgspec

from crawlfleet.core.quality.recording import failed_by_items
from crawlfleet.model.change import Change
from crawlfleet.model.task import TERMINAL, Task, TaskStatus

FAILED = frozenset({TaskStatus.FAILED, TaskStatus.TIMEOUT})


class FamilyInvariants:
    """Watches parents and shards in the account of all tasks; raises `AssertionError`."""

    def __init__(self, tasks: Mapping[str, Task]) -> None:
        self._tasks = tasks
        self._shards: dict[str, dict[int, str]] = {}

    def shards_of(self, parents: Iterable[str]) -> list[str]:
        """The ids of all shards of these tasks."""
        return [id for parent in parents for id in self._shards.get(parent, {}).values()]

    def observe(self, change: Change) -> None:
        """Check an accepted change, after the account was updated with it."""
        for task in change.tasks:
            if task.parent_id is not None and task.version == 1:
                shards = self._shards.setdefault(task.parent_id, {})
                _demand(task.shard not in shards, f"{task.id} is a second shard {task.shard}")
                shards[task.shard or 0] = task.id
        for task in change.tasks:
            if task.is_parent:
                self._see_parent(task)
            elif task.parent_id is not None:
                self._see_shard(task)

    def _see_shard(self, task: Task) -> None:
        parent = self._tasks.get(task.parent_id or "")
        _demand(parent is not None, f"{task.id} is a shard of nobody")
        if parent is not None and parent.status in TERMINAL:
            _demand(task.status in TERMINAL, f"{task.id} lives, and its parent has ended")

    def _see_parent(self, parent: Task) -> None:
        shards = self._shards.get(parent.id, {})
        _demand(
            sorted(shards) == [*range(parent.shards)],
            f"{parent.id} was made with the shards {sorted(shards)} of {parent.shards}",
        )
        _demand(parent.execution_id is None, f"{parent.id} was placed, and not its shards")
        if parent.status not in TERMINAL:
            return
        children = [self._tasks[shards[number]] for number in range(parent.shards)]
        for child in children:
            _demand(child.status in TERMINAL, f"{parent.id} ended before its shard {child.id}")
        if parent.result is not None:
            self._check_end(parent, children)

    def _check_end(self, parent: Task, children: list[Task]) -> None:
        """The end of a parent that was gathered, and not cancelled."""
        states = {child.status for child in children}
        wanted = TaskStatus.COMPLETED
        if states & FAILED or failed_by_items(parent):
            wanted = TaskStatus.FAILED
        elif TaskStatus.CANCELLED in states:
            wanted = TaskStatus.CANCELLED
        _demand(
            parent.status is wanted,
            f"{parent.id} is {parent.status}, and its shards are {sorted(map(str, states))}",
        )
        merged = msgspec.json.decode(parent.result or b"null").get("data")
        data = [_data(child) for child in children]
        wanted_data = data if TaskStatus.COMPLETED in states else None
        _demand(merged == wanted_data, f"{parent.id} has {merged}, its shards have {data}")


def _data(child: Task) -> object:
    if child.status is not TaskStatus.COMPLETED or child.result is None:
        return None
    return msgspec.json.decode(child.result)["data"]


def _demand(holds: bool, complaint: str) -> None:
    if not holds:
        raise AssertionError(complaint)
