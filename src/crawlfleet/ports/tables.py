"""Tables of rows, declared once: a store makes its schema, statements and indexes from them.

A `Table` names the struct of its rows, the fields that have a column, and the indexes. A `Query` is
data: terms that a row must meet, an order, a limit. The memory store interprets both over structs,
a SQL store over SQLAlchemy's tables; so no query is written twice. The types of columns follow from
those of the struct's fields, and fields without a column share one, as JSON.
"""

from collections.abc import Mapping, Sequence
from enum import Enum, StrEnum
from types import MappingProxyType
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

import msgspec

R = TypeVar("R", bound=msgspec.Struct)


class Op(StrEnum):
    """Comparisons between the value of a field and that of a term."""

    EQUAL = "="
    UNEQUAL = "!="
    ABOVE = ">"
    AT_LEAST = ">="
    BELOW = "<"
    AMONG = "in"
    UNSET = "is null"
    SET = "is not null"


class Term(msgspec.Struct, frozen=True):
    """A condition on the value of a field. A field that is not set meets only `UNSET`."""

    field: str
    op: Op
    value: Any = None


def equal(field: str, value: Any) -> Term | None:
    """Match rows whose field has this value. For `None` there is no condition, as in all of
    these.
    """
    return None if value is None else Term(field, Op.EQUAL, value)


def unequal(field: str, value: Any) -> Term | None:
    return None if value is None else Term(field, Op.UNEQUAL, value)


def above(field: str, value: Any) -> Term | None:
    """Match rows whose field is greater than this."""
    return None if value is None else Term(field, Op.ABOVE, value)


def at_least(field: str, value: Any) -> Term | None:
    """Match rows whose field is this or greater."""
    return None if value is None else Term(field, Op.AT_LEAST, value)


def below(field: str, value: Any) -> Term | None:
    """Match rows whose field is less than this."""
    return None if value is None else Term(field, Op.BELOW, value)


def among(field: str, values: Sequence[Any] | None) -> Term | None:
    """Match rows whose field has one of these values."""
    return None if values is None else Term(field, Op.AMONG, tuple(values))


def is_unset(field: str) -> Term:
    return Term(field, Op.UNSET)


def is_set(field: str) -> Term:
    return Term(field, Op.SET)


def within(field: str, prefix: str) -> tuple[Term, Term]:
    """Match rows whose field begins with `prefix`, which ends with a character that sorts before
    all that may follow in its place.
    """
    return Term(field, Op.ABOVE, prefix), Term(field, Op.BELOW, after_all(prefix))


def after_all(prefix: str) -> str:
    """Return the first text after all that begin with `prefix`."""
    return prefix[:-1] + chr(ord(prefix[-1]) + 1)


class Index(msgspec.Struct, frozen=True):
    """An index of a table: by its fields in their order, of all rows or of those that meet `of`."""

    name: str
    fields: tuple[str, ...]
    of: Term | None = None


class Joint(Enum):
    """Ways to join the value in a row with the value that is written to it."""

    SUM = "sum"
    LARGEST = "largest"
    LATEST = "latest"
    """The written value, unless that is not set."""


class Owned(msgspec.Struct, frozen=True):
    """Rows of another table that are removed together with the row that they belong to."""

    table: "Table[Any]"
    by: str = ""
    """The field with the owner's id; when not set, their ids begin with it and `separator`."""
    separator: str = "."


NOTHING_JOINED: Final[Mapping[str, Joint]] = MappingProxyType({})


class Table(Generic[R]):
    """A kind of rows: each has a key that never changes, nearly always `id`, and a `version`."""

    def __init__(
        self,
        kind: type[R],
        name: str,
        *,
        columns: Sequence[str],
        key: Sequence[str] = ("id",),
        indexes: Sequence[Index] = (),
        owns: Sequence[Owned] = (),
        joined: Mapping[str, Joint] = NOTHING_JOINED,
        keeps_tasks: Term | None = None,
    ) -> None:
        """Declare a table. `columns` are the fields with a column of their own: those that queries
        name. With `joined`, an existing row is not replaced: these fields are joined with the
        written ones. Tasks that have ended, and name a row as their workflow, are kept for as long
        as it meets `keeps_tasks`.
        """
        self.kind = kind
        self.name = name
        self.key = tuple(key)
        self.columns = tuple(columns)
        self.indexes = tuple(indexes)
        self.owns = tuple(owns)
        self.joined = joined
        self.keeps_tasks = keeps_tasks

    def __repr__(self) -> str:
        return f"Table({self.name})"

    def where(
        self,
        *terms: Term | None,
        order: Sequence[str] = (),
        newest_first: bool = False,
        limit: int | None = None,
        without: Sequence[str] = (),
        newest_of: str = "",
        beyond: int | None = None,
    ) -> "Query[R]":
        """Return a query of the rows that meet all terms; see `Query`."""
        return Query(
            table=self,
            terms=tuple(term for term in terms if term is not None),
            order=tuple(order) or self.key,
            newest_first=newest_first,
            limit=None if limit is None else max(limit, 0),
            without=tuple(without),
            newest_of=newest_of,
            beyond=beyond,
        )


class Query(msgspec.Struct, Generic[R], frozen=True, kw_only=True):
    """A query of rows of a table, in order of the key unless `order` is set."""

    table: Any
    """Table of rows of the type R."""
    terms: tuple[Term, ...] = ()
    order: tuple[str, ...] = ("id",)
    newest_first: bool = False
    """Reverses the order."""
    limit: int | None = None
    without: tuple[str, ...] = ()
    """Fields that are left at their default, because they are too large for a list."""
    newest_of: str = ""
    """Field by which rows are grouped: of each group only the row with the highest id is returned,
    in order of this field.
    """
    beyond: int | None = None
    """Turns `newest_of` around: only rows that are not among so many newest of their group."""


class Expires(Protocol):
    """Returns the query of a table's rows that are past their retention."""

    def __call__(self, *, before: float, limit: int) -> Query[Any]: ...


class Expiring(NamedTuple):
    """A retention: rows are removed when they are so many days old; never with 0 days."""

    days: float
    old: Expires
