"""How the databases differ in what they say, and what drivers take and give."""

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
"""What a driver takes as a statement."""
T_co = TypeVar("T_co", covariant=True)
Core = Select[*tuple[Any, ...]] | Insert | Update | Delete
Values = dict[str, Any]
"""The values of a statement's parameters by name; several values are a list."""

Rows = Sequence[Sequence[Any]]


class Dialect(Protocol[T_co]):
    """What the databases say differently."""

    def finish(self, statement: Core) -> T_co:
        """The statement as the driver takes it."""
        ...

    def insert(self, table: Table) -> sqlite.Insert | postgresql.Insert: ...

    def among_given(self, column: ColumnElement[Any], name: str) -> ColumnElement[bool]:
        """Whether the column is among the values of the list passed as `name`."""
        ...

    def collect(self, column: ColumnElement[Any]) -> ColumnElement[Any]:
        """All values of a column in one; `listed` takes it apart."""
        ...

    def listed(self, collected: Any) -> list[str]: ...

    def larger(self, one: ColumnElement[Any], other: ColumnElement[Any]) -> ColumnElement[Any]: ...

    def holds(self, column: Column[Any], name: str) -> ColumnElement[bool]:
        """Whether the text contains what is passed as `name`, to the letter."""
        ...

    def size_of(self, column: Column[Any]) -> ColumnElement[int]:
        """How many bytes a text has."""
        ...

    def unindexed(self, column: Column[Any]) -> ColumnElement[Any]:
        """The same value, where the planner has to be kept from choosing an index by it."""
        ...


def limited(statement: Select[Any]) -> Select[Any]:
    """At most as many rows as are passed as `limit`."""
    return statement.limit(bindparam("limit", type_=BigInteger())).offset(literal_column("0"))
