"""Differences between the databases in SQL, and in the values that drivers take and return."""

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Delete,
    Insert,
    Select,
    Table,
    Update,
    bindparam,
    literal_column,
)
from sqlalchemy.dialects import postgresql, sqlite

T = TypeVar("T")
"""Type of a statement for a driver."""
T_co = TypeVar("T_co", covariant=True)
Core = Select[*tuple[Any, ...]] | Insert | Update | Delete
Values = dict[str, Any]
"""The values of a statement's parameters by name; several values are a list."""

Rows = Sequence[Sequence[Any]]


class Dialect(Protocol[T_co]):
    """The parts of SQL that differ between the databases."""

    def finish(self, statement: Core) -> T_co:
        """Return the statement in the driver's form."""
        ...

    def insert(self, table: Table) -> sqlite.Insert | postgresql.Insert: ...

    def among_given(self, column: ColumnElement[Any], name: str) -> ColumnElement[bool]:
        """Return the condition that the column is among the values of the list passed as `name`."""
        ...

    def collect(self, column: ColumnElement[Any]) -> ColumnElement[Any]:
        """Return an expression for all values of a column in one; `listed` takes it apart."""
        ...

    def listed(self, collected: Any) -> list[str]: ...

    def larger(self, one: ColumnElement[Any], other: ColumnElement[Any]) -> ColumnElement[Any]: ...

    def holds(self, column: Column[Any], name: str) -> ColumnElement[bool]:
        """Return the condition that the text contains the value passed as `name`, to the letter."""
        ...

    def size_of(self, column: Column[Any]) -> ColumnElement[int]:
        """Return an expression for the bytes of a text."""
        ...

    def unindexed(self, column: Column[Any]) -> ColumnElement[Any]:
        """Return the column in a form that keeps the planner from choosing an index by it."""
        ...


def limited(statement: Select[Any]) -> Select[Any]:
    """Limit a statement to the number of rows passed as `limit`."""
    return statement.limit(bindparam("limit", type_=BigInteger())).offset(literal_column("0"))
