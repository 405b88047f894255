"""Rows of a store that lives in memory: by id and in order, and by what queries ask for."""

from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter, ge, gt, lt, ne
from typing import Any, Final, Generic, Protocol, TypeVar

from crawlfleet.adapters.store.memory.copies import share_all
from crawlfleet.ports.tables import Op, Query, Table, Term


class Row(Protocol):
    @property
    def id(self) -> str: ...


R = TypeVar("R", bound=Row)

_COMPARES: Final[Mapping[Op, Callable[[Any, Any], bool]]] = {
    Op.UNEQUAL: ne,
    Op.ABOVE: gt,
    Op.AT_LEAST: ge,
    Op.BELOW: lt,
}


def meets(row: Any, term: Term) -> bool:
    """Return whether a row meets a term; a field that is not set meets only `UNSET`."""
    value = getattr(row, term.field)
    match term.op:
        case Op.UNSET:
            return value is None
        case Op.SET:
            return value is not None
        case Op.EQUAL:
            return bool(value == term.value)
        case Op.AMONG:
            return value in term.value
        case _:
            return value is not None and _COMPARES[term.op](value, term.value)


class Rows(Generic[R]):
    """Rows by id, and their ids in order; new ids mostly come at the end."""

    __slots__ = ("ids", "rows")

    def __init__(self) -> None:
        self.rows: dict[str, R] = {}
        self.ids: list[str] = []

    def put(self, row: R) -> None:
        if row.id not in self.rows:
            _insert(self.ids, row.id)
        self.rows[row.id] = row

    def remove(self, ids: Sequence[str]) -> None:
        for gone in ids:
            del self.rows[gone]
        if ids:
            self.ids = [kept for kept in self.ids if kept in self.rows]

    def __iter__(self) -> Iterator[R]:
        return map(self.rows.__getitem__, self.ids)

    def beyond(self, after: str | None, newest_first: bool) -> Iterator[R]:
        """The rows on the far side of `after`, which need not exist."""
        if newest_first:
            end = len(self.ids) if after is None else bisect_left(self.ids, after)
            ids: Iterable[str] = (self.ids[i] for i in range(end - 1, -1, -1))
        else:
            start = 0 if after is None else bisect_right(self.ids, after)
            ids = (self.ids[i] for i in range(start, len(self.ids)))
        return map(self.rows.__getitem__, ids)


class MemoryTable(Generic[R]):
    """The rows of a declared table, with its indexes: a query looks at no more rows than it would
    in a database, whose plan it stands for in simulations."""

    def __init__(self, table: Table[Any]) -> None:
        self.table = table
        self._key: Callable[[R], Any] = attrgetter(*table.key)
        self.rows: dict[Any, R] = {}
        self._keys: list[Any] = []
        """Keys in order."""
        self._by: dict[str, dict[Any, list[Any]]] = {
            index.fields[0]: {} for index in table.indexes if index.of is None
        }
        """The keys of rows by the first field of an index, and its value."""
        self._of: dict[Term, list[Any]] = {
            index.of: [] for index in table.indexes if index.of is not None
        }
        """The keys of the rows that partial indexes are of."""

    def put(self, row: R) -> None:
        key = self._key(row)
        before = self.rows.get(key)
        self.rows[key] = row
        if before is None:
            _insert(self._keys, key)
        for field, buckets in self._by.items():
            value = getattr(row, field)
            if before is not None:
                if getattr(before, field) == value:
                    continue
                _discard(buckets[getattr(before, field)], key)
            _insert(buckets.setdefault(value, []), key)
        for term, keys in self._of.items():
            was = before is not None and meets(before, term)
            if was != meets(row, term):
                (_discard if was else _insert)(keys, key)

    def remove(self, keys: Iterable[Any]) -> None:
        for key in keys:
            row = self.rows.pop(key)
            _discard(self._keys, key)
            for field, buckets in self._by.items():
                bucket = buckets[getattr(row, field)]
                _discard(bucket, key)
                if not bucket:
                    del buckets[getattr(row, field)]
            for term, found in self._of.items():
                if meets(row, term):
                    _discard(found, key)

    def get_many(self, ids: Sequence[str]) -> list[R]:
        return [self.rows[id] for id in sorted({*ids}) if id in self.rows]

    def find(self, query: Query[Any]) -> list[Any]:
        """The rows of a query, in its order."""
        found = self._matching(query)
        if query.newest_of and query.beyond is None:
            newest = {getattr(row, query.newest_of): row for row in found}
            rows = [newest[value] for value in sorted(newest)]
        else:
            rows = [*found]
            if query.beyond is not None:
                beyond = self._beyond(query.newest_of, query.beyond)
                rows = [row for row in rows if self._key(row) in beyond]
            if query.order != self.table.key:
                rows.sort(key=attrgetter(*query.order))
            if query.newest_first:
                rows.reverse()
        if query.limit is not None:
            del rows[query.limit :]
        return share_all(_without(row, query.without) for row in rows)

    def count(self, query: Query[Any], by: str) -> dict[Any, int]:
        return dict(Counter(getattr(row, by) for row in self._matching(query)))

    def keys_of(self, query: Query[Any]) -> list[Any]:
        """The keys of the rows of a query, in its order."""
        return [self._key(row) for row in self.find(query)]

    def _matching(self, query: Query[Any]) -> Iterator[R]:
        """The rows that meet all terms, in order of their keys; no more than a limit wants, where
        that order is the query's."""
        keys = self._candidates(query.terms)
        is_whole = query.limit is None or query.newest_of or query.order != self.table.key
        left = len(keys) if is_whole else query.limit or 0
        if query.newest_first and not is_whole:
            keys = reversed(keys)  # type: ignore[assignment]
        found: list[R] = []
        for row in map(self.rows.__getitem__, keys):
            if len(found) >= left:
                break
            if all(meets(row, term) for term in query.terms):
                found.append(row)
        if query.newest_first and not is_whole:
            found.reverse()
        return iter(found)

    def _candidates(self, terms: Sequence[Term]) -> Sequence[Any]:
        """The keys, in order, of the rows that the best index has for these terms."""
        keys: Sequence[Any] = self._keys
        for term in terms:
            values = term.value if term.op is Op.AMONG else (term.value,)
            if term.field in self._by and term.op in (Op.EQUAL, Op.AMONG):
                buckets = [self._by[term.field].get(value, ()) for value in dict.fromkeys(values)]
                keys = buckets[0] if len(buckets) == 1 else sorted(_chained(buckets))
                break
            if term.field == "id" and term.op is Op.AMONG:
                keys = sorted(id for id in {*values} if id in self.rows)
                break
            implied = term if term.op in (Op.UNSET, Op.SET) else Term(term.field, Op.SET)
            if implied in self._of:
                keys = self._of[implied]
                break
        if self.table.key != ("id",):
            return keys
        first, last = 0, len(keys)
        for term in terms:
            if term.field == "id" and term.op is Op.ABOVE:
                first = max(first, bisect_right(keys, term.value))
            elif term.field == "id" and term.op is Op.BELOW:
                last = min(last, bisect_left(keys, term.value))
        return keys[first:last]

    def _beyond(self, field: str, keep: int) -> set[Any]:
        """The keys of the rows that are not among the newest `keep` with their value of a field."""
        seen: Counter[Any] = Counter()
        found = set()
        for key in reversed(self._keys):
            value = getattr(self.rows[key], field)
            seen[value] += 1
            if seen[value] > keep:
                found.add(key)
        return found


def _without(row: Any, names: Sequence[str]) -> Any:
    """The row with these fields at their default."""
    if not names:
        return row
    fields = {name: getattr(row, name) for name in row.__struct_fields__ if name not in names}
    return type(row)(**fields)


def _chained(parts: Iterable[Sequence[Any]]) -> Iterator[Any]:
    for part in parts:
        yield from part


def _insert(keys: list[Any], key: Any) -> None:
    if keys and key < keys[-1]:
        insort(keys, key)
    else:
        keys.append(key)


def _discard(keys: list[Any], key: Any) -> None:
    del keys[bisect_left(keys, key)]
