"""A group of commits that share a transaction: what it asks of the store, and what it writes.

A group is decided in Python, in order, against the versions and claims that it names; then each
row that changed is written once.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from crawlfleet.backends.present import Present, Written, written
from crawlfleet.backends.sql.rows import AUDIT, CHANGED, CLAIM, EVENT, USAGE, VERSIONED, RowMap
from crawlfleet.errors import FieldProblem, InvalidRequest
from crawlfleet.model.change import Signed
from crawlfleet.model.event import Event
from crawlfleet.model.usage import UsageSums
from crawlfleet.ports.store import Change, Claim, Committed

Changes = Sequence[Change]


Batch = Sequence[tuple[Change, Written]]
"""The changes of a batch, each with its rows by kind."""


class Named:
    """The rows, claims and sessions that some batches name."""

    __slots__ = ("batches", "claims", "ids", "sessions")

    def __init__(self, batches: Iterable[Changes], *, but_new: bool = False) -> None:
        """`but_new`: without the tasks and executions that are said to be new."""
        self.ids: defaultdict[int, set[str]] = defaultdict(set)
        """By kind (its place in `VERSIONED`), of which most batches have one or two."""
        self.claims: set[tuple[str, str]] = set()
        """Scope and key."""
        self.sessions: set[str] = set()
        """Those that must be open."""
        self.batches: list[Batch] = [
            [(change, written(change)) for change in batch] for batch in batches
        ]
        """Looked through once: it costs as much as what is done with a change."""
        for change, parts in chain.from_iterable(self.batches):
            for kind, rows in parts:
                wanted, passing = self.ids[kind], but_new and VERSIONED[kind] in CHANGED
                for row in rows:
                    if not passing or row.version > 1:
                        wanted.add(row.id)
            if change.claims:
                self.claims.update((claim.scope, claim.key) for claim in change.claims)
            if change.under is not None:
                self.sessions.add(change.under)


Parted = Iterable[tuple[RowMap[Any], Collection[Any]]]
Part = Callable[[int, Mapping[str, Any]], Parted]


def _wholly(kind: int, rows: Mapping[str, Any]) -> Parted:
    """All that may change of rows of a kind."""
    mapping = VERSIONED[kind]
    return [(CHANGED.get(mapping, mapping), rows.values())]


class Group:
    """What is to be written for the changes of a group that fit."""

    __slots__ = (
        "_audit",
        "_claims",
        "_events",
        "_first_seq",
        "_usage",
        "changed",
        "last_seq",
        "made",
        "present",
    )

    def __init__(self, present: Present, last_seq: int) -> None:
        self._first_seq = self.last_seq = last_seq
        self.present = present
        self.made: defaultdict[int, dict[str, Any]] = defaultdict(dict)
        """Rows that were not there before, by kind and id."""
        self.changed: defaultdict[int, dict[str, Any]] = defaultdict(dict)
        """Rows that were."""
        self._claims: dict[tuple[str, str], Claim] = {}
        self._events: list[Event] = []
        self._audit = Signed()
        self._usage = UsageSums()

    def take(self, batch: Batch) -> Committed:
        refusals = []
        for change, parts in batch:
            refusal = self.present.accept(change, parts)
            refusals.append(refusal)
            if refusal is None:
                for kind, rows in parts:
                    made = self.made[kind]
                    for row in rows:
                        new = row.version == 1 or row.id in made
                        (made if new else self.changed[kind])[row.id] = row
                for claim in change.claims:
                    self._claims[claim.scope, claim.key] = claim
                self._events += change.events
                if change.usage:
                    self._usage.take(change.usage)
                if change.audit is not None:
                    self._audit.take(change)
        self.last_seq = self._first_seq + len(self._events)
        return Committed(refusals=tuple(refusals), last_seq=self.last_seq)

    def encoded(self, part: Part = _wholly) -> Iterator[tuple[RowMap[Any], list[list[Any]]]]:
        """The rows to write, table by table; tables without a row are left out.

        `part` says which columns to write of rows that are there.
        """
        for kind in sorted(self.made.keys() | self.changed.keys()):
            if made := self.made.get(kind):
                mapping = VERSIONED[kind]
                yield mapping, mapping.encode_all(made.values())
            if changed := self.changed.get(kind):
                for narrow, rows in part(kind, changed):
                    yield narrow, narrow.encode_all(rows)
        if self._claims:
            yield CLAIM, CLAIM.encode_all(self._claims.values())
        if self._events:
            rows = EVENT.encode_all(self._events)
            for seq, row in enumerate(rows, self._first_seq + 1):
                row[0] = seq
            yield EVENT, rows
        if entries := self._audit.entries():
            yield AUDIT, AUDIT.encode_all(entries)
        if used := self._usage.rows():
            yield USAGE, USAGE.encode_all(used)


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
