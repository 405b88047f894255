"""Declared queries as SQL: a statement for each shape of a query, compiled once."""

from collections.abc import Callable, Sequence
from enum import Enum
from functools import cache
from itertools import product
from operator import itemgetter
from typing import Any, Final, Generic, NamedTuple

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Select,
    bindparam,
    delete,
    func,
    null,
    select,
    tuple_,
)
from sqlalchemy import Table as SqlTable

from crawlfleet.adapters.store.sql.dialect import Dialect, Rows, T, Values, limited
from crawlfleet.adapters.store.sql.schema import DECLARED
from crawlfleet.ports.tables import Op, Owned, Query, Table, Term, after_all

MAX_RUNS: Final = 8
"""A query of a few states is asked once for each of them, since within one the index is in order:
the rows that come first are then the first of each."""

Shape = tuple[tuple[str, Op], ...]


class Plan(NamedTuple, Generic[T]):
    """A statement, the values of each time it is run, and which of the rows found are wanted."""

    statement: T
    runs: list[Values]
    choose: Callable[[Rows], Rows] | None = None


class Queries(Generic[T]):
    """Makes the statements of one dialect."""

    def __init__(self, dialect: Dialect[T]) -> None:
        self._dialect = dialect
        self._find = cache(self._make_find)
        self._newest = cache(self._make_newest)
        self._count = cache(self._make_count)
        self._ids = cache(self._make_ids)
        self._remove_keys = cache(self._make_remove_keys)
        self.remove = cache(self._make_remove)
        self.remove_owned = cache(self._make_remove_owned)

    def find(self, query: Query[Any], only: tuple[str, ...] = ()) -> Plan[T]:
        """Reads the rows of a query, or these columns of them; not for a query of the newest of
        each."""
        runs = [query.terms]
        if query.limit is not None:
            runs = _split(query.terms)
        statement = self._find(
            query.table,
            _shape(runs[0]),
            query.order,
            query.newest_first,
            query.limit is not None,
            query.without,
            only,
        )
        choose = _First(query) if len(runs) > 1 else None
        return Plan(statement, [_values(terms, query) for terms in runs], choose)

    def newest(self, query: Query[Any]) -> Plan[T]:
        """Reads the highest id for each value of a field, in order of this field."""
        statement = self._newest(query.table, _shape(query.terms), query.newest_of)
        return Plan(statement, [_values(query.terms, query)])

    def count(self, query: Query[Any], by: str) -> Plan[T]:
        """Counts the rows of a query for each value of a field."""
        statement = self._count(query.table, _shape(query.terms), by)
        return Plan(statement, [_values(query.terms, query)])

    def ids(self, query: Query[Any]) -> Plan[T]:
        """Reads the ids of the rows that a query removes, collected in one value."""
        beyond = query.newest_of if query.beyond is not None else ""
        shape = _shape(query.terms)
        limited = query.limit is not None
        statement = self._ids(query.table, shape, query.order, limited, beyond)
        return Plan(statement, [_values(query.terms, query) | {"beyond": query.beyond}])

    def remove_keys(self, query: Query[Any]) -> Plan[T]:
        """Removes the rows of a query of a table without ids, and reads one value of each."""
        shape = _shape(query.terms)
        statement = self._remove_keys(query.table, shape, query.order, query.limit is not None)
        return Plan(statement, [_values(query.terms, query)])

    def _make_find(
        self,
        table: Table[Any],
        shape: Shape,
        order: tuple[str, ...],
        newest_first: bool,
        is_limited: bool,
        without: tuple[str, ...],
        only: tuple[str, ...],
    ) -> T:
        there = DECLARED[table]
        wanted = [there.c[name] for name in only] or there.columns
        columns = (null().label(each.key) if each.key in without else each for each in wanted)
        statement = select(*columns).where(*self._conditions(there, shape))
        by = [there.c[name].desc() if newest_first else there.c[name] for name in order]
        statement = statement.order_by(*by)
        return self._dialect.finish(limited(statement) if is_limited else statement)

    def _make_newest(self, table: Table[Any], shape: Shape, each: str) -> T:
        there = DECLARED[table]
        statement = (
            select(there.c[each], func.max(there.c.id))
            .where(*self._conditions(there, shape))
            .group_by(there.c[each])
            .order_by(there.c[each])
        )
        return self._dialect.finish(limited(statement))

    def _make_count(self, table: Table[Any], shape: Shape, by: str) -> T:
        there = DECLARED[table]
        statement = select(there.c[by], func.count()).where(*self._conditions(there, shape))
        return self._dialect.finish(statement.group_by(there.c[by]))

    def _make_ids(
        self, table: Table[Any], shape: Shape, order: tuple[str, ...], is_limited: bool, beyond: str
    ) -> T:
        there: Any = DECLARED[table]
        columns: Any = there.c
        if beyond:
            place = func.row_number().over(partition_by=there.c[beyond], order_by=there.c.id.desc())
            columns = select(there, place.label("place")).subquery().c
        statement: Select[Any] = select(columns.id).where(*self._conditions_of(columns, shape))
        if beyond:
            statement = statement.where(columns.place > bindparam("beyond", type_=BigInteger()))
        statement = statement.order_by(*(columns[name] for name in order))
        found = (limited(statement) if is_limited else statement).subquery()
        return self._dialect.finish(select(self._dialect.collect(found.c.id)))

    def _make_remove_keys(
        self, table: Table[Any], shape: Shape, order: tuple[str, ...], is_limited: bool
    ) -> T:
        there = DECLARED[table]
        keys = [there.c[name] for name in table.key]
        statement = select(*keys).where(*self._conditions(there, shape))
        statement = statement.order_by(*(there.c[name] for name in order))
        found = limited(statement) if is_limited else statement
        return self._dialect.finish(
            delete(there).where(tuple_(*keys).in_(found)).returning(keys[0])
        )

    def _make_remove(self, table: Table[Any]) -> T:
        there = DECLARED[table]
        return self._dialect.finish(
            delete(there).where(self._dialect.among_given(there.c.id, "ids"))
        )

    def _make_remove_owned(self, owned: Owned) -> T:
        """Return the statement that removes owned rows: its parameters are `ids`, or for owned rows
        whose ids begin with that of one owner, `first` and `last`.
        """
        there = DECLARED[owned.table]
        if owned.by:
            condition = self._dialect.among_given(there.c[owned.by], "ids")
            return self._dialect.finish(delete(there).where(condition))
        first = bindparam("first", type_=there.c.id.type)
        last = bindparam("last", type_=there.c.id.type)
        return self._dialect.finish(
            delete(there).where(there.c.id > first).where(there.c.id < last)
        )

    def _conditions(self, table: SqlTable, shape: Shape) -> list[ColumnElement[bool]]:
        return self._conditions_of(table.c, shape)

    def _conditions_of(self, columns: Any, shape: Shape) -> list[ColumnElement[bool]]:
        return [
            self._condition(columns[field], op, f"value{number}")
            for number, (field, op) in enumerate(shape)
        ]

    def _condition(self, column: ColumnElement[Any], op: Op, name: str) -> ColumnElement[bool]:
        given = bindparam(name, type_=column.type)
        match op:
            case Op.EQUAL:
                return column == given
            case Op.UNEQUAL:
                return column != given
            case Op.ABOVE:
                return column > given
            case Op.AT_LEAST:
                return column >= given
            case Op.BELOW:
                return column < given
            case Op.AMONG:
                return self._dialect.among_given(column, name)
            case Op.UNSET:
                return column.is_(None)
            case Op.SET:
                return column.is_not(None)


def owned_values(owned: Owned, ids: list[str]) -> list[Values]:
    """The values of each time that what these rows own is removed."""
    if owned.by:
        return [{"ids": ids}] if ids else []
    prefixes = (id + owned.separator for id in ids)
    return [{"first": prefix, "last": after_all(prefix)} for prefix in prefixes]


class _First:
    """Picks, from the rows of several runs, those that come first in the order of the query."""

    def __init__(self, query: Query[Any]) -> None:
        keys = [column.key for column in DECLARED[query.table].columns]
        self._key = itemgetter(*(keys.index(name) for name in query.order))
        self._newest_first = query.newest_first
        self._limit = query.limit

    def __call__(self, found: Rows) -> Rows:
        return sorted(found, key=self._key, reverse=self._newest_first)[: self._limit]


def _split(terms: tuple[Term, ...]) -> list[tuple[Term, ...]]:
    """Split terms into runs: one for each of a few values that a field may have."""
    parts = [
        [Term(term.field, Op.EQUAL, value) for value in dict.fromkeys(term.value)]
        if term.op is Op.AMONG and 0 < len(term.value) <= MAX_RUNS
        else [term]
        for term in terms
    ]
    runs = [*product(*parts)]
    return runs if len(runs) <= MAX_RUNS else [terms]


def _shape(terms: Sequence[Term]) -> Shape:
    return tuple((term.field, term.op) for term in terms)


def _values(terms: Sequence[Term], query: Query[Any]) -> Values:
    values = {
        f"value{number}": _plain(term.value)
        for number, term in enumerate(terms)
        if term.op not in (Op.SET, Op.UNSET)
    }
    if query.limit is not None:
        values["limit"] = query.limit
    return values


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return value.value if isinstance(value, Enum) else value
