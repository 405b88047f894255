"""What the tables of a SQL store are made of."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Any, Final

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
from sqlalchemy.dialects import postgresql

metadata: Final = MetaData()

TEXT: Final = Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")
"""In order of its bytes everywhere, whatever the language of a PostgreSQL is."""
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
