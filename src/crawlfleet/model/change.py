"""What is written together: the unit of every decision that changes the store."""

import math
from collections.abc import Sequence
from typing import Any, Final, TypeVar

import msgspec

from crawlfleet.model.audit import MOST_SUBJECTS, AuditEntry
from crawlfleet.model.event import Event
from crawlfleet.model.node import Node, Session
from crawlfleet.model.task import Execution, Task
from crawlfleet.model.usage import UsageHour

R = TypeVar("R", bound=msgspec.Struct)

NEVER: Final = math.inf
"""The instant that does not come: a claim that lasts as long as its holder."""


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """A name that only one task may hold until it expires (idempotency and dedup keys).

    Claiming fails while another holder's claim is alive at `at`; the holder may move its expiry.
    """

    scope: str
    key: str
    holder: str
    at: float
    expires_at: float
    digest: str = ""
    """What the holder was made from, to tell a repeated request from a different one."""


class Change(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Rows that become true together or not at all."""

    nodes: tuple[Node, ...] = ()
    sessions: tuple[Session, ...] = ()
    tasks: tuple[Task, ...] = ()
    executions: tuple[Execution, ...] = ()
    rows: tuple[Any, ...] = ()
    """Versioned rows of all other kinds, the one that the change is about first. The struct of a
    row says in which table it is kept."""
    claims: tuple[Claim, ...] = ()
    events: tuple[Event, ...] = ()
    usage: tuple[UsageHour, ...] = ()
    """What it adds to what projects have used; no two for the same project and hour."""
    audit: AuditEntry | None = None
    """On whose behalf. What a commit makes under one entry's id is added up in one row of the audit
    log, which begins with this entry's own numbers and replaces what an earlier commit wrote."""
    about: tuple[str, ...] = ()
    """The ids that the audit log names where they are not those of the rows."""
    epoch: int | None = None
    """Refused unless this is the store's present leader epoch (dispatch and timers set it)."""
    under: str | None = None
    """Refused unless this node session has not ended (assignments and reports set it)."""
    usual: bool = False
    """Whether its rows are tasks and executions alone that go their usual way: made with what is in
    `TASK_BLANKS` and `EXECUTION_BLANKS` not set, or changed in what `TASK_STEPS` and
    `EXECUTION_STEPS` name for their new state, and in nothing else. A store may write no more."""

    def of(self, kind: type[R]) -> tuple[R, ...]:
        """The rows of one kind among `rows`."""
        return tuple(row for row in self.rows if type(row) is kind)


class Signed:
    """Adds up what the changes of a commit that were made come to in the audit log."""

    __slots__ = ("_sums",)

    def __init__(self) -> None:
        self._sums: dict[str, tuple[AuditEntry, list[str], list[int]]] = {}

    def take(self, change: Change) -> None:
        """A change that was made."""
        entry = change.audit
        if entry is None:
            return
        found = self._sums.get(entry.id)
        if found is None:
            found = self._sums[entry.id] = entry, [*entry.subjects], [entry.count]
        named = _named(change)
        found[2][0] += len(named)
        if len(found[1]) < MOST_SUBJECTS:
            found[1].extend(named)

    def entries(self) -> list[AuditEntry]:
        """The entries as they are after the commit."""
        return [
            msgspec.structs.replace(entry, subjects=tuple(subjects[:MOST_SUBJECTS]), count=count)
            for entry, subjects, (count,) in self._sums.values()
        ]


def _named(change: Change) -> Sequence[str]:
    """The ids that the audit log counts of a change: of its nodes, of the first kind among its
    other rows, of its tasks, or the subjects of its events when it writes none of these (an order
    to what runs elsewhere)."""
    if change.about:
        return change.about
    rows = change.nodes or change.of(type(change.rows[0])) if change.rows else change.nodes
    return [row.id for row in rows or change.tasks] or [event.subject for event in change.events]
