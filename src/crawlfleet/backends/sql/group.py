"""A group of commits that share a transaction: what it asks of the store, and what it writes.

A group is decided in Python, in order, against the versions and claims that it names; then each
row that changed is written once.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from crawlfleet.backends.present import Present, rows_by_kind
from crawlfleet.backends.sql.rows import AUDIT, CHANGED, CLAIM, EVENT, VERSIONED, RowMap
from crawlfleet.errors import FieldProblem, InvalidRequest
from crawlfleet.model.change import Signed
from crawlfleet.model.event import Event
from crawlfleet.ports.store import Change, Claim, Committed

Changes = Sequence[Change]


class Named:
    """The rows, claims and sessions that some batches name."""

    __slots__ = ("claims", "ids", "sessions")

    def __init__(self, batches: Iterable[Changes]) -> None:
        self.ids: tuple[set[str], ...] = tuple(set() for _ in VERSIONED)
        """By kind, in the order of `VERSIONED`."""
        self.claims: set[tuple[str, str]] = set()
        """Scope and key."""
        self.sessions: set[str] = set()
        """Those that must be open."""
        for change in chain.from_iterable(batches):
            for wanted, rows in zip(self.ids, rows_by_kind(change), strict=True):
                if rows:
                    wanted.update(row.id for row in rows)
            if change.claims:
                self.claims.update((claim.scope, claim.key) for claim in change.claims)
            if change.under is not None:
                self.sessions.add(change.under)


class Group:
    """What is to be written for the changes of a group that fit."""

    __slots__ = ("_audit", "_claims", "_events", "_made", "_present", "_rows", "last_seq")

    def __init__(self, present: Present, last_seq: int) -> None:
        self.last_seq = last_seq
        self._present = present
        self._rows: tuple[dict[str, Any], ...] = tuple({} for _ in VERSIONED)
        self._made: set[str] = set()
        """Rows that were not there before."""
        self._claims: dict[tuple[str, str], Claim] = {}
        self._events: list[list[Any]] = []
        self._audit = Signed()

    def take(self, changes: Changes) -> Committed:
        refusals = []
        for change in changes:
            refusal = self._present.accept(change)
            refusals.append(refusal)
            if refusal is None:
                for newest, rows in zip(self._rows, rows_by_kind(change), strict=True):
                    for row in rows:
                        newest[row.id] = row
                        if row.version == 1:
                            self._made.add(row.id)
                for claim in change.claims:
                    self._claims[claim.scope, claim.key] = claim
                for event in change.events:
                    self._number(event)
                self._audit.take(change)
        return Committed(refusals=tuple(refusals), last_seq=self.last_seq)

    def encoded(self) -> Iterator[tuple[RowMap[Any], list[list[Any]]]]:
        """The rows to write, table by table; tables without a row are left out."""
        for mapping, newest in zip(VERSIONED, self._rows, strict=True):
            if not newest:
                continue
            changed = CHANGED.get(mapping)
            if changed is None:
                yield mapping, [mapping.encode(row) for row in newest.values()]
                continue
            made = [mapping.encode(row) for id, row in newest.items() if id in self._made]
            if made:
                yield mapping, made
            if len(made) < len(newest):
                others = (row for id, row in newest.items() if id not in self._made)
                yield changed, [changed.encode(row) for row in others]
        if self._claims:
            yield CLAIM, [CLAIM.encode(claim) for claim in self._claims.values()]
        if self._events:
            yield EVENT, self._events
        if entries := self._audit.entries():
            yield AUDIT, [AUDIT.encode(entry) for entry in entries]

    def _number(self, event: Event) -> None:
        self.last_seq += 1
        row = EVENT.encode(event)
        row[0] = self.last_seq
        self._events.append(row)


def unfit(error: Exception, reason: str) -> InvalidRequest:
    """The error to raise when a value of a change cannot be stored."""
    problem = FieldProblem(
        field="change",
        message=f"a value cannot be stored ({reason})",
        remedy="Use valid UTF-8 text without NUL characters, finite numbers, and integers of at "
        "most 64 bits.",
    )
    invalid = InvalidRequest([problem])
    invalid.__cause__ = error
    return invalid
