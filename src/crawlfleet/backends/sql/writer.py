"""The one writer of a SQLite store: whole groups of requests in one durable transaction.

Everything here runs in the writer's thread. A group is decided in Python, in order, against the
versions and claims that it names; then each table is written by a few statements, each row once.
"""

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any, Final

import msgspec

from crawlfleet.backends.present import CLAIMS_PER_TASK, Present, rows_by_kind
from crawlfleet.backends.sql import statements
from crawlfleet.backends.sql.rows import CLAIM, EVENT, VERSIONED, RowMap
from crawlfleet.backends.sql.trouble import explain
from crawlfleet.errors import FieldProblem, InvalidRequest
from crawlfleet.model.change import NEVER
from crawlfleet.model.event import Event
from crawlfleet.ports.store import Change, Claim, Committed

Changes = Sequence[Change]
Operation = Callable[["Writer"], Any]
"""Something else to do in the transaction, such as `Writer.remove_finished`."""

UNFIT: Final = (
    sqlite3.IntegrityError,
    sqlite3.DataError,
    sqlite3.ProgrammingError,
    sqlite3.InterfaceError,
    ValueError,
    TypeError,
    OverflowError,
)
"""What a value that cannot be stored raises: no fault of the store, nor of its neighbours."""

_encode: Final = msgspec.json.Encoder().encode
_read_versions: Final = msgspec.json.Decoder(dict[str, int]).decode
_read_ids: Final = msgspec.json.Decoder(list[str]).decode


def as_json(values: object) -> str:
    return _encode(values).decode()


class _Group:
    """What is to be written for the changes of a group that fit."""

    def __init__(self, present: Present, last_seq: int) -> None:
        self.rows: tuple[dict[str, Any], ...] = tuple({} for _ in VERSIONED)
        self.claims: dict[tuple[str, str], Claim] = {}
        self.events: list[list[Any]] = []
        self.last_seq = last_seq
        self._present = present

    def take(self, changes: Changes) -> Committed:
        refusals = []
        for change in changes:
            refusal = self._present.accept(change)
            refusals.append(refusal)
            if refusal is None:
                for newest, rows in zip(self.rows, rows_by_kind(change), strict=True):
                    for row in rows:
                        newest[row.id] = row
                for claim in change.claims:
                    self.claims[claim.scope, claim.key] = claim
                for event in change.events:
                    self._number(event)
        return Committed(refusals=tuple(refusals), last_seq=self.last_seq)

    def _number(self, event: Event) -> None:
        self.last_seq += 1
        row = EVENT.encode(event)
        row[0] = self.last_seq
        self.events.append(row)


class Writer:
    """Owns the writing connection. `work` is what its lane calls."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path
        connection.execute(statements.START_LEADERSHIP)
        newest = connection.execute(statements.LAST_SEQ).fetchone()[0]
        epoch, removed_seq = connection.execute(statements.LEADERSHIP).fetchone()
        self._epoch: int = epoch
        self._last_seq: int = max(newest or 0, removed_seq)

    def work(self, jobs: Sequence[Changes | Operation]) -> list[Any]:
        """One outcome for each job; either all of them are durable, or those that raise are not.

        When a value of one cannot be stored, the others are tried again without it.
        """
        try:
            return self._transact(jobs)
        except UNFIT as error:
            if len(jobs) > 1:
                return [outcome for job in jobs for outcome in self.work([job])]
            return [_unfit(error)]
        except sqlite3.Error as error:
            return [explain(error, self._path) for _ in jobs]

    def lead(self, leader: str) -> int:
        self._epoch += 1
        self._run(statements.LEAD, epoch_now=self._epoch, leader_now=leader)
        return self._epoch

    def move_cursor(self, consumer: str, seq: int) -> None:
        self._run(statements.MOVE_CURSOR, consumer=consumer, seq=seq)

    def remove_finished(self, before: float, limit: int) -> int:
        found = self._run(statements.ENDED_IDS, before=before, limit=max(limit, 0)).fetchone()[0]
        self._run(statements.REMOVE_TASKS, ids=found)
        self._run(statements.REMOVE_ATTEMPTS, ids=found)
        self._run(statements.REMOVE_ENDLESS_CLAIMS, ids=found, never=NEVER)
        claims = max(limit, 0) * CLAIMS_PER_TASK
        self._run(statements.REMOVE_CLAIMS, before=before, limit=claims)
        return len(_read_ids(found))

    def remove_events(self, before: float, limit: int) -> int:
        """Also notes the newest number, which must not be given again when no event is left."""
        gone = self._run(statements.REMOVE_EVENTS, before=before, limit=max(limit, 0)).rowcount
        if gone:
            self._run(statements.KEEP_SEQ, last_seq=self._last_seq)
        return gone

    def _run(self, statement: str, **values: Any) -> sqlite3.Cursor:
        return self._connection.execute(statement, values)

    def _transact(self, jobs: Sequence[Changes | Operation]) -> list[Any]:
        before = self._epoch, self._last_seq
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            outcomes = self._do(jobs)
            self._connection.execute("COMMIT")
        except BaseException:
            self._epoch, self._last_seq = before
            with suppress(sqlite3.Error):
                self._connection.rollback()
            raise
        return outcomes

    def _do(self, jobs: Sequence[Changes | Operation]) -> list[Any]:
        """Operations first, then all changes together: callers that wait at once have no order."""
        outcomes: list[Any] = [job(self) if callable(job) else None for job in jobs]
        batches = [(index, job) for index, job in enumerate(jobs) if not callable(job)]
        if batches:
            group = _Group(self._load(batch for _, batch in batches), self._last_seq)
            for index, batch in batches:
                outcomes[index] = group.take(batch)
            self._write(group)
            self._last_seq = group.last_seq
        return outcomes

    def _load(self, batches: Iterable[Changes]) -> Present:
        """What is stored of the rows and claims that the batches name."""
        present = Present(self._epoch)
        ids: tuple[set[str], ...] = tuple(set() for _ in VERSIONED)
        names: set[tuple[str, str]] = set()
        sessions: set[str] = set()
        for change in chain.from_iterable(batches):
            for wanted, rows in zip(ids, rows_by_kind(change), strict=True):
                if rows:
                    wanted.update(row.id for row in rows)
            if change.claims:
                names.update((claim.scope, claim.key) for claim in change.claims)
            if change.under is not None:
                sessions.add(change.under)
        for mapping, wanted, known in zip(VERSIONED, ids, present.versions, strict=True):
            if wanted:
                found = self._run(statements.versions(mapping.table), ids=as_json(wanted))
                known.update(_read_versions(found.fetchone()[0]))
        if names:
            for row in self._run(statements.CLAIMS_NAMED, names=as_json(names)):
                claim = CLAIM.decode(row)
                present.claims[claim.scope, claim.key] = claim
        if sessions:
            found = self._run(statements.OPEN_SESSIONS, ids=as_json(sessions))
            present.open_sessions.update((id, True) for (id,) in found)
        return present

    def _write(self, group: _Group) -> None:
        for mapping, newest in zip(VERSIONED, group.rows, strict=True):
            self._put(mapping, [mapping.encode(row) for row in newest.values()])
        self._put(CLAIM, [CLAIM.encode(claim) for claim in group.claims.values()])
        self._put(EVENT, group.events)

    def _put(self, mapping: RowMap[Any], rows: list[list[Any]]) -> None:
        start = 0
        for size in statements.chunk_sizes(len(rows)):
            values = list(chain.from_iterable(rows[start : start + size]))
            self._connection.execute(statements.upsert(mapping.table, size), values)
            start += size


def _unfit(error: Exception) -> InvalidRequest:
    problem = FieldProblem(
        field="change",
        message=f"a value cannot be stored ({type(error).__name__}: {error})",
        remedy="Use valid UTF-8 text, finite numbers and integers of at most 64 bits.",
    )
    unfit = InvalidRequest([problem])
    unfit.__cause__ = error
    return unfit
