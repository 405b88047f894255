"""The statements of the SQLite store.

Lists are passed as JSON. Rows are written many at a time by one statement, and versions are read
as one JSON object: the driver gives up the interpreter lock for each step of a statement and must
win it back, so that on a busy machine the number of steps, not of rows, decides how long a
transaction takes. (128 rows while another thread computes: 234 ms one by one, 20 ms in one
statement.) So a statement has room for more rows than it is given, and is told how many there are.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any, Final

import msgspec
from sqlalchemy import (
    BLOB,
    BigInteger,
    Column,
    ColumnElement,
    Select,
    Table,
    TableValuedAlias,
    bindparam,
    cast,
    func,
    literal_column,
    select,
)
from sqlalchemy.dialects import sqlite
from sqlalchemy.sql.elements import UnaryExpression
from sqlalchemy.sql.operators import custom_op

from crawlfleet.adapters.store.sql.rows import CHANGED, EVENT, VERSIONED, RowMap
from crawlfleet.adapters.store.sql.schema import claims, sessions
from crawlfleet.adapters.store.sql.statements import Core, Statements, Values
from crawlfleet.ports.tables import Joint

NAMED: Final = sqlite.dialect(paramstyle="named")
POSITIONAL: Final = sqlite.dialect(paramstyle="qmark")

LARGEST_CHUNK: Final = 256
"""Rows in one statement at most. A prepared statement keeps the values that it was given last."""

_encode: Final = msgspec.json.Encoder().encode
_decode_list: Final = msgspec.json.Decoder(list[str]).decode


def as_json(values: object) -> str:
    return _encode(values).decode()


def bound(values: Values) -> Values:
    """The values as the driver takes them."""
    return {
        name: as_json(value) if isinstance(value, list) else value for name, value in values.items()
    }


def _given(name: str) -> TableValuedAlias:
    """The values of the JSON array that is passed as `name`."""
    return func.json_each(bindparam(name)).table_valued("value")


class _Sqlite:
    """SQLite's way of saying things."""

    def finish(self, statement: Core) -> str:
        """SQL with its parameters by name (`:ids`)."""
        return str(statement.compile(dialect=NAMED))

    def insert(self, table: Table) -> sqlite.Insert:
        return sqlite.insert(table)

    def among_given(self, column: ColumnElement[Any], name: str) -> ColumnElement[bool]:
        return column.in_(select(_given(name).c.value))

    def collect(self, column: ColumnElement[Any]) -> ColumnElement[Any]:
        return func.json_group_array(column)

    def listed(self, collected: str) -> list[str]:
        return _decode_list(collected)

    def larger(self, one: ColumnElement[Any], other: ColumnElement[Any]) -> ColumnElement[Any]:
        return func.max(one, other)

    def holds(self, column: Column[Any], name: str) -> ColumnElement[bool]:
        return func.instr(column, bindparam(name)) > literal_column("0")

    def size_of(self, column: Column[Any]) -> ColumnElement[int]:
        # `octet_length` came with SQLite 3.43.
        return func.length(cast(column, BLOB), type_=BigInteger())

    def unindexed(self, column: Column[Any]) -> ColumnElement[Any]:
        """`+column`: without statistics SQLite guesses which index is best."""
        return UnaryExpression(column, operator=custom_op("+"), type_=column.type)


DIALECT: Final = _Sqlite()
STATEMENTS: Final = Statements(DIALECT)


def chunks(mapping: RowMap[Any], values: list[Any]) -> Iterator[tuple[int, int, list[Any]]]:
    """Yield, for each statement that writes `values`, its size, its number of rows, and its bound
    values.

    A statement is for a power of two, so that few different ones serve every count. Its other rows
    are filled with zeros, which are not written, and cost the driver less than nulls.
    """
    width = len(mapping.columns)
    for start in range(0, len(values), LARGEST_CHUNK * width):
        chunk = values[start : start + LARGEST_CHUNK * width]
        rows = len(chunk) // width
        size = 1 << (rows - 1).bit_length()
        chunk += [0] * ((size - rows) * width)
        chunk.append(rows)
        yield size, rows, chunk


@cache
def alters(statement: str) -> bool:
    """Return whether a statement may change or remove rows that have versions."""
    starts = [
        f"{verb} {mapping.table.name} "
        for mapping in VERSIONED.values()
        for verb in ("UPDATE", "DELETE FROM")
    ]
    return statement.startswith(tuple(starts))


@cache
def put(
    mapping: RowMap[Any], rows: int = 1, *, next_only: bool = False, in_state: bool = False
) -> str:
    """Write up to `rows` rows. Their values follow one another in the order of the mapping's
    columns; after them comes how many are written.

    Whole rows are inserted or replaced, others are there and changed. Whether each of them may be
    written has been decided before; with `next_only` a row is changed only if what is there has
    the version before, and with `in_state` the state that is the last value. Rows of which only
    parts change are inserted when they are new, as events are: that fails when they are there.
    """
    if not mapping.is_whole:
        return _change(mapping, rows, next_only, in_state)
    if mapping.table in _INSERTED:
        return _insert(mapping, rows)
    return _upsert(mapping, rows)


_INSERTED: Final = {EVENT.table, *(mapping.table for mapping in CHANGED)}


def _change(mapping: RowMap[Any], rows: int, next_only: bool, in_state: bool) -> str:
    """Return an update rather than an insert with a conflict: indexes of unchanged columns are not
    touched.

    `+status` keeps the planner from using an index for it.
    """
    table = mapping.table.name
    given = {
        column.name: f"given.column{number}" for number, column in enumerate(mapping.columns, 1)
    }
    id, *changes = (f"{name} = {value}" for name, value in given.items())
    only = f" AND {table}.version = {given['version']} - 1" if next_only else ""
    only += f" AND +{table}.status = ?" if in_state else ""
    return (
        f"UPDATE {table} SET {', '.join(changes)} "  # noqa: S608
        f"FROM ({_given_rows(mapping, rows)}) AS given WHERE {table}.{id}{only}"
    )


def _given_rows(mapping: RowMap[Any], rows: int) -> str:
    row = f"({', '.join('?' * len(mapping.columns))})"
    return f"SELECT * FROM (VALUES {', '.join([row] * rows)}) LIMIT ?"  # noqa: S608


def _upsert(mapping: RowMap[Any], rows: int) -> str:
    table = mapping.table
    insert = sqlite.insert(table)
    values = {
        c.key: _joined(c, insert.excluded[c.key], mapping.joined.get(c.key))
        for c in table.columns
        if not c.primary_key
    }
    statement = insert.on_conflict_do_update(index_elements=list(table.primary_key), set_=values)
    return _of_rows(statement, mapping, rows)


def _joined(
    there: Column[Any], given: ColumnElement[Any], joint: Joint | None
) -> ColumnElement[Any]:
    match joint:
        case Joint.SUM:
            return there + given
        case Joint.LARGEST:
            return func.max(there, given)
        case Joint.LATEST:
            return func.coalesce(given, there)
        case None:
            return given


def _insert(mapping: RowMap[Any], rows: int) -> str:
    return _of_rows(sqlite.insert(mapping.table), mapping, rows)


def _of_rows(statement: sqlite.Insert, mapping: RowMap[Any], rows: int) -> str:
    row = f"VALUES ({', '.join('?' * len(mapping.columns))})"
    names = [column.key for column in mapping.columns]
    whole = str(statement.compile(dialect=POSITIONAL, column_keys=names))
    head, found, tail = whole.partition(row)
    assert found, f"no row of values in the statement for {mapping.table.name}"
    return head + _given_rows(mapping, rows) + tail


@cache
def versions(table: Table) -> str:
    """id → version of those rows among `:ids` that exist, as one JSON object."""
    version_of = func.json_group_object(table.c.id, table.c.version)
    return DIALECT.finish(select(version_of).where(DIALECT.among_given(table.c.id, "ids")))


def _claims_named() -> Select[Any]:
    pairs = _given("names")
    scope, key = (
        func.json_extract(pairs.c.value, literal_column(f"'$[{i}]'"), type_=claims.c.scope.type)
        for i in (0, 1)
    )
    return select(claims).join_from(
        pairs, claims, (claims.c.scope == scope) & (claims.c.key == key)
    )


CLAIMS_NAMED: Final = DIALECT.finish(_claims_named())
"""The claims that exist among the pairs of scope and key in `:names`."""
OPEN_SESSIONS: Final = DIALECT.finish(
    select(sessions.c.id)
    .where(sessions.c.ended_at.is_(None))
    .where(DIALECT.among_given(sessions.c.id, "ids"))
)
"""The ids among `:ids` of sessions that have not ended."""
