"""Columns and tables of a SQL store, made by hand or from a declared `Table`."""

from collections.abc import Iterable
from enum import Enum, StrEnum
from types import NoneType, UnionType
from typing import Any, Final, get_args, get_origin

import msgspec
from msgspec.structs import FieldInfo
from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Double,
    Index,
    Integer,
    MetaData,
    Text,
    literal_column,
    or_,
)
from sqlalchemy import Table as SqlTable
from sqlalchemy.dialects import postgresql

from crawlfleet.ports.tables import Op, Table, Term

metadata: Final = MetaData()

OPTIONS: Final = "options"
"""The column of the fields that have none, together in one JSON object."""

TEXT: Final = Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")
"""Text that sorts by its bytes everywhere, whatever the language of a PostgreSQL is."""
SEQUENCE: Final = BigInteger().with_variant(Integer(), "sqlite")
"""SQLite takes only a plain integer for the number of a row, which costs no index."""


def id_column() -> Column[str]:
    return Column("id", TEXT, primary_key=True)


def text_column(name: str, *, null: bool = False, key: str | None = None) -> Column[str]:
    return Column(name, TEXT, nullable=null, key=key)


def json_column(name: str) -> Column[str]:
    return Column(name, TEXT)


def number_column(name: str) -> Column[int]:
    return Column(name, BigInteger, nullable=False)


def real_column(name: str, *, null: bool = False) -> Column[float]:
    return Column(name, Double, nullable=null)


def among(column: ColumnElement[str], states: Iterable[StrEnum]) -> ColumnElement[bool]:
    """`column IN (…)` with the states written out."""
    return column.in_([literal_column(f"'{state}'") for state in sorted(states)])


def either(column: ColumnElement[str], states: Iterable[StrEnum]) -> ColumnElement[bool]:
    """`column = … OR …`, as what an index is limited to: for `IN` with three values or more SQLite
    makes a table of them for each row that it writes. A query must say the same to use the index.
    """
    return or_(*(column == literal_column(f"'{state}'") for state in sorted(states)))


def partial_index(name: str, *columns: Column[Any], where: ColumnElement[bool]) -> None:
    Index(name, *columns, sqlite_where=where, postgresql_where=where)


def sql_table(table: Table[Any]) -> SqlTable:
    """A declared table as SQLAlchemy has it: the type of a column is that of the struct's field."""
    fields = {field.name: field for field in msgspec.structs.fields(table.kind)}
    columns = [_column(fields[name], is_key=name in table.key) for name in table.columns]
    if fields.keys() - set(table.columns):
        columns.append(json_column(OPTIONS))
    made = SqlTable(table.name, metadata, *columns, sqlite_with_rowid=table.key == ("id",))
    for index in table.indexes:
        on = [made.c[name] for name in index.fields]
        if index.of is None:
            Index(index.name, *on)
        else:
            partial_index(index.name, *on, where=is_met(made, index.of))
    return made


def is_met(table: SqlTable, term: Term) -> ColumnElement[bool]:
    """Return the condition of a partial index."""
    column = table.c[term.field]
    assert term.op in (Op.SET, Op.UNSET), f"no index of {table.name} is limited by {term.op}"
    return column.is_(None) if term.op is Op.UNSET else column.is_not(None)


def _column(field: FieldInfo, *, is_key: bool) -> Column[Any]:
    kind, null = field.type, False
    if get_origin(kind) is UnionType:
        null = NoneType in get_args(kind)
        (kind,) = (part for part in get_args(kind) if part is not NoneType)
    sql_type: Any = TEXT
    if kind in (int, float):
        sql_type = BigInteger if kind is int else Double
    elif not (kind in (str, msgspec.Raw) or (isinstance(kind, type) and issubclass(kind, Enum))):
        # As JSON, which is null for what is the field's default.
        null = True
    if is_key:
        return Column(field.name, sql_type, primary_key=True, autoincrement=False)
    return Column(field.name, sql_type, nullable=null)
