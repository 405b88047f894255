"""What the writer knows of rows without asking: it wrote them, and nobody else does.

Most changes are about rows that were written a moment ago. Those are kept until newer ones have
pushed them out; after anything but a plain commit, all of it is forgotten.
"""

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any, Final

from crawlfleet.backends.present import KINDS, TASKS
from crawlfleet.backends.sql.group import Group, Parted
from crawlfleet.backends.sql.rows import CHANGED, TASK_PARTS, VERSIONED, RowMap
from crawlfleet.model.task import Task

PORTION: Final = 10_000
"""So many rows of a kind are kept at least, and twice as many at most."""
SMALL_BYTES: Final = 1_000
"""Tasks with larger parameters are not kept: there may be few, but each weighs as much as many."""


class Lately:
    """The rows of a kind that were written last, in two portions of which the older goes first."""

    __slots__ = ("_newer", "_older")

    def __init__(self) -> None:
        self._newer: dict[str, Any] = {}
        self._older: dict[str, Any] = {}

    def get(self, id: str) -> Any:
        """The row as it is stored, or `None` when that is not known."""
        return self._newer.get(id) or self._older.get(id)

    def versions(self, ids: set[str]) -> dict[str, int]:
        """The versions of those among `ids` that are known."""
        newer, older = self._newer, self._older
        return {id: row.version for id in ids if (row := newer.get(id) or older.get(id))}

    def forget(self, ids: Iterable[str]) -> None:
        """Nothing is known of these any more."""
        for id in ids:
            self._newer.pop(id, None)
            self._older.pop(id, None)

    def learn(self, rows: Mapping[str, Any]) -> None:
        self._newer.update(rows)
        if len(self._newer) > PORTION:
            self._older, self._newer = self._newer, {}


class Memory:
    """Rows by kind, and which sessions are open."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Know nothing: rows were removed, or nobody knows what became of them."""
        self.rows = tuple(Lately() for _ in KINDS)
        self.open_sessions: set[str] = set()

    def learn(self, group: Group) -> None:
        """What the group has written is stored now."""
        for kind, rows in chain(group.made.items(), group.changed.items()):
            small = _small(rows) if kind == TASKS else rows
            self.rows[kind].learn(small)
            if len(small) < len(rows):
                self.rows[kind].forget(rows.keys() - small.keys())
        for id, is_open in group.present.open_sessions.items():
            if is_open:
                self.open_sessions.add(id)
            else:
                self.open_sessions.discard(id)

    def parted(self, kind: int, rows: Mapping[str, Any]) -> Parted:
        """Rows that are there and change, each with as few columns as are known to be enough."""
        whole = CHANGED.get(VERSIONED[kind], VERSIONED[kind])
        if kind != TASKS:
            return [(whole, rows.values())]
        parted: dict[RowMap[Any], list[Any]] = {}
        get = self.rows[kind].get
        for id, row in rows.items():
            part, before = TASK_PARTS.get(row.status), get(id)
            fits = part and before and part.others(before) == part.others(row)
            parted.setdefault(part.mapping if part and fits else whole, []).append(row)
        return [*parted.items()]


def _small(tasks: Mapping[str, Task]) -> dict[str, Task]:
    """The tasks that are worth their place."""
    return {
        id: task for id, task in tasks.items() if len(memoryview(task.parameters)) <= SMALL_BYTES
    }
