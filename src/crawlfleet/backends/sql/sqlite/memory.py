"""What the writer knows of rows without asking: it wrote them, and nobody else does.

Most changes are about rows that were written a moment ago. Their versions are kept until newer
ones have pushed them out; after anything but a plain commit, all of it is forgotten.
"""

from collections.abc import Mapping
from typing import Final

from crawlfleet.backends.present import KINDS, Present

PORTION: Final = 10_000
"""So many versions of a kind are kept at least, and twice as many at most."""


class Versions:
    """The newest versions that were learnt, in two portions of which the older goes first."""

    __slots__ = ("_newer", "_older")

    def __init__(self) -> None:
        self._newer: dict[str, int] = {}
        self._older: dict[str, int] = {}

    def recall(self, ids: set[str]) -> dict[str, int]:
        """The versions of those among `ids` that are known."""
        newer, older = self._newer, self._older
        return {id: found for id in ids if (found := newer.get(id) or older.get(id))}

    def learn(self, versions: Mapping[str, int]) -> None:
        self._newer.update(versions)
        if len(self._newer) > PORTION:
            self._older, self._newer = self._newer, {}


class Memory:
    """Versions of rows by kind, and which sessions are open."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Know nothing: rows were removed, or nobody knows what became of them."""
        self.versions = tuple(Versions() for _ in KINDS)
        self.open_sessions: set[str] = set()

    def learn(self, present: Present) -> None:
        """Everything in `present` is stored now."""
        for known, versions in zip(self.versions, present.versions, strict=True):
            if versions:
                known.learn(versions)
        for id, is_open in present.open_sessions.items():
            if is_open:
                self.open_sessions.add(id)
            else:
                self.open_sessions.discard(id)
