"""The statements of the PostgreSQL store. Lists are passed as arrays.

A group of commits reads all its rows by one statement and writes all changes by one other: a round
trip costs as much as several rows. (A task's life in commits of one: 1.3 client CPU-ms with a
statement for each table, 0.7 with one for all.)
"""

from collections.abc import Sequence
from functools import cache
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Table,
    any_,
    bindparam,
    func,
    literal_column,
)
from sqlalchemy.dialects import postgresql

from crawlfleet.adapters.store.sql.rows import VERSIONED, RowMap
from crawlfleet.adapters.store.sql.schema import claims, events, leadership, sessions
from crawlfleet.adapters.store.sql.statements import Core, Statements, Values
from crawlfleet.ports.tables import Joint

NUMBERED: Final = postgresql.dialect(paramstyle="numeric_dollar")  # type: ignore[no-untyped-call]
ARRAYS: Final[dict[type, str]] = {str: "text[]", int: "int8[]", float: "float8[]"}


def _holders(keys: str) -> str:
    """A query for the processes of the server that hold an advisory lock with these two keys."""
    return f"""
        SELECT pid FROM pg_locks
        WHERE locktype = 'advisory' AND granted AND objsubid = 2
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND (classid, objid) IN (SELECT a::oid, b::oid FROM (VALUES ({keys})) AS keys (a, b))"""


WRITE: Final = f"{int.from_bytes(b'crwl', 'big')}, hashtext(current_schema())"
LOCK: Final = f"pg_advisory_xact_lock({WRITE})"
"""Held by the one transaction that changes the store; one for each schema."""
BEGIN: Final = f"BEGIN ISOLATION LEVEL READ COMMITTED; SELECT {LOCK}"
"""The lock is a statement of its own, so that those after it see what its last holder wrote."""

LEAD: Final = f"{int.from_bytes(b'lead', 'big')}, hashtext(current_schema())"
TRY_LEAD: Final = f"SELECT pg_try_advisory_lock({LEAD})"
"""A lock of the session, which goes with it."""
GIVE_UP_LEAD: Final = "SELECT pg_advisory_unlock_all()"

SILENT_S: Final = 5
END_SILENT_WRITER: Final = f"""
    SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
    WHERE wait_event = 'ClientRead' AND query_start < clock_timestamp() - interval '{SILENT_S} s'
    AND pid IN ({_holders(WRITE)}) AND pid NOT IN ({_holders(LEAD)})"""
"""Ends the session that is in the middle of its transaction, and for which the server waits.

The server does so by itself where it counts the session as idle, which it does not between a
statement's parts: the process may stop there, too. A restore holds both locks, and takes its time.
"""

CHANNEL: Final = "'crawlfleet_' || md5(current_schema())"
"""Channel for news of commits; names in NOTIFY are short, and those of schemas need not be."""
NEWEST: Final = (
    f"SELECT greatest(removed_seq, (SELECT max(seq) FROM {events.name})) FROM {leadership.name}"
)


def commit(writer: str, last_seq: int) -> str:
    """Return the COMMIT that also notifies all masters of events up to this number. It is one round
    trip, and the notification is sent only if the commit succeeds.
    """
    return f"SELECT pg_notify({CHANNEL}, '{writer}:{last_seq}'); COMMIT"


EPOCH: Final = -1
LAST_SEQ: Final = -2
OPEN_SESSION: Final = -3


class Statement(NamedTuple):
    """SQL with numbered parameters (`$1`), and their names in that order."""

    text: str
    names: tuple[str, ...]

    def arguments(self, values: Values) -> list[Any]:
        return [values[name] for name in self.names]


class _Postgres:
    """PostgreSQL's way of saying things."""

    def finish(self, statement: Core) -> Statement:
        compiled = statement.compile(dialect=NUMBERED)
        return Statement(str(compiled), tuple(getattr(compiled, "positiontup", None) or ()))

    def insert(self, table: Table) -> postgresql.Insert:
        return postgresql.insert(table)

    def among_given(self, column: ColumnElement[Any], name: str) -> ColumnElement[bool]:
        return column == any_(bindparam(name))

    def collect(self, column: ColumnElement[Any]) -> ColumnElement[Any]:
        return func.array_agg(column)

    def listed(self, collected: list[str] | None) -> list[str]:
        return collected or []

    def larger(self, one: ColumnElement[Any], other: ColumnElement[Any]) -> ColumnElement[Any]:
        return func.greatest(one, other)

    def holds(self, column: Column[Any], name: str) -> ColumnElement[bool]:
        return func.strpos(column, bindparam(name, type_=column.type)) > literal_column("0")

    def size_of(self, column: Column[Any]) -> ColumnElement[int]:
        return func.octet_length(column, type_=BigInteger())

    def unindexed(self, column: Column[Any]) -> ColumnElement[Any]:
        return column


STATEMENTS: Final = Statements(_Postgres())


@cache
def load(kinds: tuple[type[Any], ...], with_sessions: bool) -> str:
    """Return the statement that reads the present state, as rows of kind, id and number.

    The epoch, the last event number, the versions of rows among an array of ids for each of
    `kinds` (their kind is the place in it), and the sessions among the last array that have not
    ended.
    """
    newest = f"SELECT max(seq) FROM {events.name}"
    parts = [
        f"SELECT {EPOCH}, '', epoch FROM {leadership.name}",
        f"SELECT {LAST_SEQ}, '', greatest(removed_seq, ({newest})) FROM {leadership.name}",
        *(
            f"SELECT {place}, id, version FROM {VERSIONED[kind].table.name} "
            f"WHERE id = ANY (${place + 1}::text[])"
            for place, kind in enumerate(kinds)
        ),
    ]
    if with_sessions:
        parts.append(
            f"SELECT {OPEN_SESSION}, id, 0 FROM {sessions.name} "
            f"WHERE id = ANY (${len(kinds) + 1}::text[]) AND ended_at IS NULL"
        )
    return " UNION ALL ".join(parts)


CLAIMS_NAMED: Final = (
    f"SELECT {', '.join(f'held.{column.name}' for column in claims.columns)} "
    f"FROM unnest($1::text[], $2::text[]) AS named (scope, key) "
    f"JOIN {claims.name} AS held ON held.scope = named.scope AND held.key = named.key"
)
"""The claims that exist among pairs of scope and key."""


@cache
def put(mappings: tuple[RowMap[Any], ...]) -> str:
    """Write rows of several tables; each column of each mapping is an array, in order.

    Whole rows are inserted or replaced, others are there and changed. Whether each of them may be
    written has been decided before.
    """
    parts: list[str] = []
    start = 1
    for mapping in mappings:
        parts.append(_upsert(mapping, start) if mapping.is_whole else _change(mapping, start))
        start += len(mapping.columns)
    *others, last = parts
    if not others:
        return last
    named = (f"part_{number} AS ({part})" for number, part in enumerate(others))
    return f"WITH {', '.join(named)} {last}"


def _arrays(mapping: RowMap[Any], start: int) -> str:
    return ", ".join(
        f"${number}::{ARRAYS[column.type.python_type]}"
        for number, column in enumerate(mapping.columns, start)
    )


def _upsert(mapping: RowMap[Any], start: int) -> str:
    table = mapping.table
    names = [_quoted(column) for column in table.columns]
    keys = ", ".join(_quoted(column) for column in table.primary_key)
    insert = (
        f"INSERT INTO {table.name} ({', '.join(names)}) "
        f"SELECT * FROM unnest({_arrays(mapping, start)})"
    )
    if table is events:
        return insert  # each number is given once; nothing is ever replaced
    changes = ", ".join(
        f"{_quoted(column)} = {_joined(mapping, column)}"
        for column in table.columns
        if not column.primary_key
    )
    return f"{insert} ON CONFLICT ({keys}) DO UPDATE SET {changes}"


def _joined(mapping: RowMap[Any], column: Column[Any]) -> str:
    there, given = f"{mapping.table.name}.{_quoted(column)}", f"excluded.{_quoted(column)}"
    match mapping.joined.get(column.key):
        case Joint.SUM:
            return f"{there} + {given}"
        case Joint.LARGEST:
            return f"greatest({there}, {given})"
        case Joint.LATEST:
            return f"coalesce({given}, {there})"
        case None:
            return given


def _change(mapping: RowMap[Any], start: int) -> str:
    """Return an update of the changing columns only: large parameters need not be sent and written
    again.
    """
    id, *names = (_quoted(column) for column in mapping.columns)
    return (
        f"UPDATE {mapping.table.name} AS present "
        f"SET {', '.join(f'{name} = given.{name}' for name in names)} "
        f"FROM unnest({_arrays(mapping, start)}) AS given ({', '.join((id, *names))}) "
        f"WHERE present.{id} = given.{id}"
    )


def _quoted(column: Column[Any]) -> str:
    return f'"{column.name}"'


def by_column(mapping: RowMap[Any], values: list[Any]) -> list[Sequence[Any]]:
    """The values of rows turned into the arrays of `put`.

    An array of nulls is left empty, since `unnest` fills up what is short: half of the columns of
    a task are null, and each value costs its encoding.
    """
    width = len(mapping.columns)
    columns = (values[index::width] for index in range(width))
    return [
        () if column[0] is None and column.count(None) == len(column) else column
        for column in columns
    ]
