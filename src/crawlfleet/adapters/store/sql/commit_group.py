"""A group of commits that share a transaction: its reads of the store, and its writes.

A group is decided in Python, in order, against the versions and claims that it names; then each row
that changed is written once. A store whose writes can check the version before may trust the
group's tasks and executions, and not read them: when a check fails, the group is decided anew. The
states of tasks are trusted in the same way; the counts of tasks by state follow from them.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any, Final

from crawlfleet.adapters.store.acceptance import Present, Written, rows_by_kind
from crawlfleet.adapters.store.sql.rows import (
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
from crawlfleet.model.task import Execution, Task
from crawlfleet.model.usage import UsageSums
from crawlfleet.ports.store import Change, Claim, Committed

Changes = Sequence[Change]


Batch = Sequence[tuple[Change, Written]]
"""The changes of a batch, each with those of its rows by kind whose versions are compared here."""
TRUSTED: Final[frozenset[type[Any]]] = frozenset({Task, Execution})
"""The kinds of rows that a group may be trusted in: of all others there are few."""
Moves = Counter[tuple[str, str]]
"""Changes of the number of tasks, by project and state."""
_project: Final = attrgetter("project_id")


class Named:
    """The rows, claims and sessions that some batches name."""

    __slots__ = ("batches", "claims", "ids", "sessions")

    def __init__(self, batches: Iterable[Changes], *, trusting: bool = False) -> None:
        """Collect names; with `trusting`, without those of tasks and executions."""
        self.ids: defaultdict[type[Any], set[str]] = defaultdict(set)
        """Ids by kind; most batches have one or two kinds."""
        self.claims: set[tuple[str, str]] = set()
        """Claims by scope and key."""
        self.sessions: set[str] = set()
        """Sessions that must be open."""
        parts_of = _written_beside if trusting else rows_by_kind
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
    return [(kind, rows) for kind, rows in rows_by_kind(change) if rows and kind not in TRUSTED]


class Group:
    """The rows to write for those changes of a group that fit."""

    __slots__ = (
        "_audit",
        "_claims",
        "_events",
        "_first_seq",
        "_trusted_executions",
        "_trusted_tasks",
        "_trusting",
        "_usage",
        "changed",
        "last_seq",
        "made",
        "present",
    )

    def __init__(self, present: Present, last_seq: int, *, trusting: bool = False) -> None:
        """Begin a group; `trusting` as when the batches were `Named`."""
        self._first_seq = self.last_seq = last_seq
        self._trusting = trusting
        self._trusted_tasks: defaultdict[tuple[RowMap[Any], str, str], list[Task]]
        self._trusted_tasks = defaultdict(list)
        """Tasks whose write checks the stored version and state; by the state before, "" if new,
        and after.
        """
        self._trusted_executions: defaultdict[RowMap[Any], list[Execution]] = defaultdict(list)
        """Executions whose write checks the stored version; their states are not counted."""
        self.present = present
        self.made: defaultdict[type[Any], dict[str, Any]] = defaultdict(dict)
        """Rows that were not there before, by kind and id."""
        self.changed: defaultdict[type[Any], dict[str, Any]] = defaultdict(dict)
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
        tasks, executions = self._trusted_tasks, self._trusted_executions
        usual, events = change.usual, change.events
        states = _states_before(events) if len(events) > 1 else None
        for task in change.tasks:
            status = task.status
            if task.version == 1:
                tasks[USUAL_NEW_TASK if usual else TASK, "", status].append(task)
            else:
                steps = USUAL_TASKS.get(status) if usual else None
                before: str | None = status
                if states is not None:
                    before = states.get(task.id)
                elif events and events[0].subject == task.id:
                    before = events[0].from_state
                tasks[steps or CHANGED[TASK], before or status, status].append(task)
        for each in change.executions:
            if each.version == 1:
                executions[USUAL_NEW_EXECUTION if usual else EXECUTION].append(each)
            else:
                steps = USUAL_EXECUTIONS.get(each.status) if usual else None
                executions[steps or CHANGED[EXECUTION]].append(each)

    def repeats(self) -> bool:
        """Return whether the group is trusted in a row twice. Rows are not written in the order of
        changes: the later step of a row could make the check of an earlier one succeed.
        """
        ids = [task.id for tasks in self._trusted_tasks.values() for task in tasks]
        ids += [each.id for executions in self._trusted_executions.values() for each in executions]
        return len({*ids}) < len(ids)

    def moves(self, states: Mapping[str, str]) -> Moves:
        """Return how the group changes the counts of tasks. `states` are the states before, of the
        tasks that it changes without being trusted in them.
        """
        moves: Moves = Counter()
        for (_, before, after), tasks in self._trusted_tasks.items():
            for project, count in Counter(map(_project, tasks)).items():
                moves[project, after] += count
                if before:
                    moves[project, before] -= count
        for task in self.made[Task].values():
            moves[task.project_id, task.status._value_] += 1
        for task in self.changed[Task].values():
            moves[task.project_id, task.status._value_] += 1
            moves[task.project_id, states[task.id]] -= 1
        return moves

    def trusted(self) -> Iterator[tuple[RowMap[Any], str | None, list[Any]]]:
        """The values to write that it is trusted in, with the state that tasks must have now."""
        for (mapping, before, _), tasks in self._trusted_tasks.items():
            yield mapping, str(before) or None, mapping.encode(tasks)
        for mapping, executions in self._trusted_executions.items():
            yield mapping, None, mapping.encode(executions)

    def encoded(self) -> Iterator[tuple[RowMap[Any], list[Any]]]:
        """Yield all other values to write, table by table; tables without a row are left out."""
        kinds = self.made.keys() | self.changed.keys()
        # In an order that is the same for the same kinds: statements are made once for each.
        for kind in sorted(kinds, key=attrgetter("__name__")):
            mapping = VERSIONED[kind]
            if made := self.made.get(kind):
                yield mapping, mapping.encode(made.values())
            if changed := self.changed.get(kind):
                mapping = CHANGED.get(mapping, mapping)
                yield mapping, mapping.encode(changed.values())
        if self._claims:
            yield CLAIM, CLAIM.encode(self._claims.values())
        if self._events:
            values = EVENT.encode(self._events)
            values[:: len(EVENT.columns)] = range(self._first_seq + 1, self.last_seq + 1)
            yield EVENT, values
        if entries := self._audit.entries():
            yield AUDIT, AUDIT.encode(entries)
        if used := self._usage.rows():
            yield USAGE, USAGE.encode(used)


def _states_before(events: Sequence[Event]) -> dict[str, str | None]:
    """Return the states that tasks had before, by these events: every move of a task has one."""
    return {event.subject: event.from_state for event in reversed(events)}


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
