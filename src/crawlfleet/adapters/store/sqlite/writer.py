"""The one writer of a SQLite store: whole groups of requests in one durable transaction.

Everything here runs in the writer's thread. Only this process writes, so the epoch, the last
event number and the versions of rows that were written lately are kept in memory; the rest, and
claims, are read for each group. What changes say of tasks and executions is taken to be true: that
a new one is new, that one that changes is stored with the version before, and in which state a task
was. When the database finds while it writes that this is not so, the group is done once more, and
then everything is read. So the writer knows how many tasks there are in each state.
"""

import sqlite3
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from crawlfleet.adapters.store.acceptance import Present
from crawlfleet.adapters.store.database_file import DatabaseFile
from crawlfleet.adapters.store.sql.commit_group import Changes, Group, Moves, Named, unfit
from crawlfleet.adapters.store.sql.maintenance import Operation, Put
from crawlfleet.adapters.store.sql.rows import CLAIM, VERSIONED, RowMap
from crawlfleet.adapters.store.sqlite import statements
from crawlfleet.adapters.store.sqlite.counts import Counts
from crawlfleet.adapters.store.sqlite.errors import explain, is_damage
from crawlfleet.adapters.store.sqlite.statements import STATEMENTS, as_json, bound
from crawlfleet.adapters.store.sqlite.version_cache import Memory
from crawlfleet.errors import StoreUnavailable
from crawlfleet.model.task import Task
from crawlfleet.ports.store import Committed

Job = Changes | Operation[str]

UNFIT: Final = (
    sqlite3.IntegrityError,
    sqlite3.DataError,
    sqlite3.ProgrammingError,
    sqlite3.InterfaceError,
    ValueError,
    TypeError,
    OverflowError,
)
"""Errors for values that cannot be stored: no fault of the store, nor of other changes."""


class _Mistrusted(Exception):
    """A row that was to be changed is not there with the version and the state before."""


_read_versions: Final = msgspec.json.Decoder(dict[str, int]).decode


class Writer:
    """Owns the writing connection. `work` is what its lane calls."""

    def __init__(self, connection: sqlite3.Connection, path: Path, file: DatabaseFile) -> None:
        self._connection = connection
        self._path = path
        self._file = file
        self.trouble = ""
        """Why nothing could be written when it was last tried; may be read by any thread."""
        connection.execute(STATEMENTS.start_leadership)
        file.note()
        self._epoch, self._last_seq = self._read_leadership()
        self._memory = Memory()
        self.counts = Counts()
        """Counts of tasks when the last transaction ended; may be read by any thread."""
        self._moves = Moves()
        """Changes that the present transaction makes to the counts."""

    def work(self, jobs: Sequence[Job]) -> list[Any]:
        """One outcome for each job; either all of them are durable, or those that raise are not.

        When a value of one cannot be stored, the others are tried again without it.
        """
        try:
            outcomes = self._write(jobs)
            self._file.check_names()
        except UNFIT as error:
            if len(jobs) > 1:
                half = len(jobs) // 2
                return self.work(jobs[:half]) + self.work(jobs[half:])
            return [unfit(error, f"{type(error).__name__}: {error}")]
        except sqlite3.Error as error:
            if is_damage(error):
                self._file.condemn(str(error))
            self.trouble = str(explain(error, self._path))
            return [explain(error, self._path) for _ in jobs]
        except StoreUnavailable as error:
            return [StoreUnavailable(str(error)) for _ in jobs]
        return outcomes

    def _write(self, jobs: Sequence[Job]) -> list[Any]:
        """Raises `StoreUnavailable`, and writes nothing, when that would be lost."""
        self._file.begin()
        written = self._connection.total_changes
        try:
            try:
                outcomes = self._transact(jobs, trusting=True)
            except (sqlite3.IntegrityError, _Mistrusted):
                outcomes = self._transact(jobs, trusting=False)
        finally:
            self._file.note()
        if self._connection.total_changes != written:
            self.trouble = ""
        return outcomes

    def _run(self, statement: str, **values: Any) -> sqlite3.Cursor:
        return self._connection.execute(statement, values)

    def _read_leadership(self) -> tuple[int, int]:
        epoch, last_seq = self._connection.execute(STATEMENTS.leadership).fetchone()
        return epoch, last_seq

    def _transact(self, jobs: Sequence[Job], *, trusting: bool) -> list[Any]:
        """`trusting` what changes say of tasks and executions."""
        before = self._epoch, self._last_seq
        self._moves = Moves()
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            if not self.counts.known:
                self.counts.begin(self._connection.execute(STATEMENTS.count_by_project))
            outcomes, group = self._do(jobs, trusting)
            with self.counts.moved(self._moves):
                self._connection.execute("COMMIT")
        except BaseException:
            self._epoch, self._last_seq = before
            self._memory.forget()
            with suppress(sqlite3.Error):
                self._connection.rollback()
            raise
        if group is not None:
            self._memory.learn(group)
        return outcomes

    def _do(self, jobs: Sequence[Job], trusting: bool) -> tuple[list[Any], Group | None]:
        """Operations first, then all changes together: callers that wait at once have no order."""
        outcomes: list[Any] = [self._operate(job) if callable(job) else None for job in jobs]
        batches = [(index, job) for index, job in enumerate(jobs) if not callable(job)]
        if len(batches) < len(jobs):
            self._epoch, self._last_seq = self._read_leadership()
        if not batches:
            return outcomes, None
        group, answers = self._decide([batch for _, batch in batches], trusting)
        if trusting and (group.repeats() or any(any(answer.refusals) for answer in answers)):
            # What stands in the way first, the answer must tell: perhaps a version.
            trusting = False
            group, answers = self._decide([batch for _, batch in batches], trusting)
        for (index, _), answer in zip(batches, answers, strict=True):
            outcomes[index] = answer
        self._moves.update(group.moves(self._states(group.changed[Task])))
        for mapping, state, values in group.trusted():
            self._put(mapping, values, next_only=not mapping.is_whole, state=state)
        for mapping, values in group.encoded():
            self._put(mapping, values)
        self._last_seq = group.last_seq
        return outcomes, group

    def _decide(self, batches: Sequence[Changes], trusting: bool) -> tuple[Group, list[Committed]]:
        present = Present(self._epoch)
        named = Named(batches, trusting=trusting)
        self._load(present, named)
        group = Group(present, self._last_seq, trusting=trusting)
        return group, [group.take(batch) for batch in named.batches]

    def _operate(self, operation: Operation[str]) -> int:
        steps = operation(STATEMENTS)
        try:
            step = next(steps)
            while True:
                if isinstance(step, Put):
                    self._put(*step)
                    step = steps.send(())
                    continue
                statement, values = step
                if statements.alters(statement):
                    self._memory.forget()
                found = self._connection.execute(statement, bound(values)).fetchall()
                if statement == STATEMENTS.remove_tasks:
                    self._moves.subtract(found)
                step = steps.send(found)
        except StopIteration as end:
            return int(end.value)

    def _load(self, present: Present, named: Named) -> None:
        """Read the stored versions of the named rows and claims."""
        for kind, wanted in named.ids.items():
            if not wanted:
                continue
            known = present.versions[kind]
            known.update(self._memory.rows[kind].versions(wanted))
            if len(known) < len(wanted):
                unknown = as_json(wanted - known.keys())
                found = self._run(statements.versions(VERSIONED[kind].table), ids=unknown)
                known.update(_read_versions(found.fetchone()[0]))
        if named.claims:
            for row in self._run(statements.CLAIMS_NAMED, names=as_json(named.claims)):
                claim = CLAIM.decode(row)
                present.claims[claim.scope, claim.key] = claim
        if named.sessions:
            known_sessions = named.sessions & self._memory.open_sessions
            present.open_sessions.update(dict.fromkeys(known_sessions, True))
            if len(known_sessions) < len(named.sessions):
                unknown = as_json(named.sessions - known_sessions)
                found = self._run(statements.OPEN_SESSIONS, ids=unknown)
                present.open_sessions.update((id, True) for (id,) in found)

    def _states(self, tasks: Collection[str]) -> dict[str, str]:
        """The states of the tasks with these ids."""
        if not tasks:
            return {}
        return dict(self._run(STATEMENTS.task_states, ids=as_json([*tasks])))

    def _put(
        self,
        mapping: RowMap[Any],
        values: list[Any],
        *,
        next_only: bool = False,
        state: str | None = None,
    ) -> None:
        """Write rows. With `next_only`, raises `_Mistrusted` unless each row has the version
        before, and the `state` that is given.
        """
        for size, rows, chunk in statements.chunks(mapping, values):
            if state is not None:
                chunk.append(state)
            statement = statements.put(
                mapping, size, next_only=next_only, in_state=state is not None
            )
            done = self._connection.execute(statement, chunk)
            if next_only and done.rowcount != rows:
                raise _Mistrusted
