"""A group of commits that share a transaction: what it asks of the store, and what it writes.

A group is decided in Python, in order, against the versions and claims that it names; then each
row that changed is written once. A store that can tell while it writes whether a row has the
version before may trust the group in what it says of tasks and executions, and have nothing read
of them: when that was wrong, the group is decided anew.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Final

from crawlfleet.backends.present import EXECUTIONS, TASKS, Present, Written, written
from crawlfleet.backends.sql.rows import (
    AUDIT,
    CHANGED,
    CLAIM,
    EVENT,
    EXECUTION,
    TASK,
    USAGE,
    USUAL_EXECUTIONS,
    USUAL_NEW_EXECUTION,
    USUAL_NEW_TASK,
    USUAL_TASKS,
    VERSIONED,
    RowMap,
)
from crawlfleet.errors import FieldProblem, InvalidRequest
from crawlfleet.model.change import Signed
from crawlfleet.model.event import Event
from crawlfleet.model.usage import UsageSums
from crawlfleet.ports.store import Change, Claim, Committed

Changes = Sequence[Change]


Batch = Sequence[tuple[Change, Written]]
"""The changes of a batch, each with those of its rows by kind whose versions are compared here."""
TRUSTED: Final = frozenset({TASKS, EXECUTIONS})
"""The kinds of rows that a group may be trusted in: of all others there are few."""


class Named:
    """The rows, claims and sessions that some batches name."""

    __slots__ = ("batches", "claims", "ids", "sessions")

    def __init__(self, batches: Iterable[Changes], *, trusting: bool = False) -> None:
        """`trusting`: without tasks and executions."""
        self.ids: defaultdict[int, set[str]] = defaultdict(set)
        """By kind (its place in `VERSIONED`), of which most batches have one or two."""
        self.claims: set[tuple[str, str]] = set()
        """Scope and key."""
        self.sessions: set[str] = set()
        """Those that must be open."""
        parts_of = _written_beside if trusting else written
        self.batches: list[Batch] = [
            [(change, parts_of(change)) for change in batch] for batch in batches
        ]
        """Looked through once: it costs as much as what is done with a change."""
        for change, parts in chain.from_iterable(self.batches):
            for kind, rows in parts:
                self.ids[kind].update(row.id for row in rows)
            if change.claims:
                self.claims.update((claim.scope, claim.key) for claim in change.claims)
            if change.under is not None:
                self.sessions.add(change.under)


def _written_beside(change: Change) -> Written:
    """The rows of a change by kind, but those of tasks and executions."""
    if change.usual:
        return ()
    return [(kind, rows) for kind, rows in written(change) if rows and kind not in TRUSTED]


class Group:
    """What is to be written for the changes of a group that fit."""

    __slots__ = (
        "_audit",
        "_claims",
        "_events",
        "_first_seq",
        "_trusted",
        "_trusting",
        "_usage",
        "changed",
        "last_seq",
        "made",
        "present",
    )

    def __init__(self, present: Present, last_seq: int, *, trusting: bool = False) -> None:
        """`trusting`: as the batches were `Named`."""
        self._first_seq = self.last_seq = last_seq
        self._trusting = trusting
        self._trusted: defaultdict[RowMap[Any], list[Any]] = defaultdict(list)
        """Tasks and executions that are written if what is stored is as they say."""
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
                if self._trusting:
                    self._trust(change)
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

    def _trust(self, change: Change) -> None:
        put = self._trusted
        if change.usual:
            for task in change.tasks:
                steps = USUAL_TASKS.get(task.status) or CHANGED[TASK]
                put[USUAL_NEW_TASK if task.version == 1 else steps].append(task)
            for each in change.executions:
                steps = USUAL_EXECUTIONS.get(each.status) or CHANGED[EXECUTION]
                put[USUAL_NEW_EXECUTION if each.version == 1 else steps].append(each)
        else:
            for task in change.tasks:
                put[_whole(TASK, task)].append(task)
            for each in change.executions:
                put[_whole(EXECUTION, each)].append(each)

    def repeats(self) -> bool:
        """Whether it is trusted in a row twice. Rows are not written in the order of changes: the
        later step of a row would make true what the earlier one of them was too early for."""
        ids = [row.id for rows in self._trusted.values() for row in rows]
        return len({*ids}) < len(ids)

    def encoded(self) -> Iterator[tuple[RowMap[Any], list[list[Any]]]]:
        """The rows to write, table by table; tables without a row are left out."""
        for mapping, trusted in self._trusted.items():
            yield mapping, mapping.encode_all(trusted)
        for kind in sorted(self.made.keys() | self.changed.keys()):
            mapping = VERSIONED[kind]
            if made := self.made.get(kind):
                yield mapping, mapping.encode_all(made.values())
            if changed := self.changed.get(kind):
                mapping = CHANGED.get(mapping, mapping)
                yield mapping, mapping.encode_all(changed.values())
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


def _whole(mapping: RowMap[Any], row: Any) -> RowMap[Any]:
    """All of a row that is new, or all that may change of one that is there."""
    return mapping if row.version == 1 else CHANGED[mapping]


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
