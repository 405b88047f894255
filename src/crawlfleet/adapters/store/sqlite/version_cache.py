"""The writer's cache of row versions: it wrote these rows, and no other process does.

Most changes are about rows that were written a moment ago. Their versions are kept until newer ones
have pushed them out; after anything but a plain commit, all of them are dropped. Versions of tasks
and executions are not kept: a group is trusted in these.
"""

from collections import defaultdict
from collections.abc import Mapping
from itertools import chain
from typing import Any, Final

from crawlfleet.adapters.store.sql.commit_group import TRUSTED, Group

PORTION: Final = 10_000
"""The versions of so many rows of a kind are kept at least, and of twice as many at most."""


class Lately:
    """The rows of a kind that were written last, in two portions of which the older goes first."""

    __slots__ = ("_newer", "_older")

    def __init__(self) -> None:
        self._newer: dict[str, int] = {}
        self._older: dict[str, int] = {}

    def versions(self, ids: set[str]) -> dict[str, int]:
        """The versions of those among `ids` that are known."""
        newer, older = self._newer, self._older
        return {id: version for id in ids if (version := newer.get(id) or older.get(id))}

    def learn(self, rows: Mapping[str, Any]) -> None:
        self._newer.update((id, row.version) for id, row in rows.items())
        if len(self._newer) > PORTION:
            self._older, self._newer = self._newer, {}


class Memory:
    """Versions of rows by kind, and which sessions are open."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Drop all versions: rows were removed, or their state is unknown."""
        self.rows = defaultdict[type[Any], Lately](Lately)
        self.open_sessions: set[str] = set()

    def learn(self, group: Group) -> None:
        """Keep the versions that the group has written."""
        for kind, rows in chain(group.made.items(), group.changed.items()):
            if kind not in TRUSTED:
                self.rows[kind].learn(rows)
        for id, is_open in group.present.open_sessions.items():
            if is_open:
                self.open_sessions.add(id)
            else:
                self.open_sessions.discard(id)
