"""The unit of every commit to the store: rows that are written together."""

import math
from collections.abc import Sequence
from typing import Any, Final, TypeVar

import msgspec

from crawlfleet.model.audit import MAX_SUBJECTS, AuditEntry
from crawlfleet.model.event import Event
from crawlfleet.model.node import Node, Session
from crawlfleet.model.task import Execution, Task
from crawlfleet.model.usage import UsageHour

R = TypeVar("R", bound=msgspec.Struct)

NEVER: Final = math.inf
"""An instant that never comes: expiry of a claim that lasts as long as its holder."""


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
    """Digest of the request that made the holder, to distinguish a repeated request from a
    different one."""


class Change(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Rows that are committed together or not at all."""

    nodes: tuple[Node, ...] = ()
    sessions: tuple[Session, ...] = ()
    tasks: tuple[Task, ...] = ()
    executions: tuple[Execution, ...] = ()
    rows: tuple[Any, ...] = ()
    """Versioned rows of all other kinds, the main row of the change first. The struct type of a row
    determines its table."""
    claims: tuple[Claim, ...] = ()
    events: tuple[Event, ...] = ()
    usage: tuple[UsageHour, ...] = ()
    """Usage to add for projects; at most one row for each project and hour."""
    audit: AuditEntry | None = None
    """Audit entry of the request that caused the change. All changes of a commit with the same
    entry id are added up in one row of the audit log; the row replaces what an earlier commit of
    the request wrote."""
    about: tuple[str, ...] = ()
    """Ids for the audit log, where they are not those of the rows."""
    epoch: int | None = None
    """Leader epoch of the writer: the commit is refused unless it is the store's present one (set
    by dispatch and timers)."""
    under: str | None = None
    """Node session that must not have ended, or the commit is refused (set by assignments and
    reports)."""
    usual: bool = False
    """Fast path: the change has only tasks and executions, and touches only the columns that
    `TASK_STEPS` and `EXECUTION_STEPS` list for the new state (new rows leave `TASK_BLANKS` and
    `EXECUTION_BLANKS` unset). A store may then write just those columns."""

    def of(self, kind: type[R]) -> tuple[R, ...]:
        """The rows of one kind among `rows`."""
        return tuple(row for row in self.rows if type(row) is kind)


class Signed:
    """Adds up the audit entries of the changes that a commit made."""

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
        if len(found[1]) < MAX_SUBJECTS:
            found[1].extend(named)

    def entries(self) -> list[AuditEntry]:
        """The entries as they are after the commit."""
        return [
            msgspec.structs.replace(entry, subjects=tuple(subjects[:MAX_SUBJECTS]), count=count)
            for entry, subjects, (count,) in self._sums.values()
        ]


def _named(change: Change) -> Sequence[str]:
    """Return the ids that the audit log counts for a change: of its nodes, of the first kind among
    its other rows, and of its tasks; or the subjects of its events when it writes none of these (an
    order to something that runs elsewhere)."""
    if change.about:
        return change.about
    rows = change.nodes or change.of(type(change.rows[0])) if change.rows else change.nodes
    return [row.id for row in rows or change.tasks] or [event.subject for event in change.events]
