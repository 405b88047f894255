"""Rows of a store that lives in memory, by id and in order."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Sequence
from typing import Generic, Protocol, TypeVar


class Row(Protocol):
    @property
    def id(self) -> str: ...


R = TypeVar("R", bound=Row)


class Table(Generic[R]):
    """Rows by id, and their ids in order; new ids mostly come at the end."""

    __slots__ = ("ids", "rows")

    def __init__(self) -> None:
        self.rows: dict[str, R] = {}
        self.ids: list[str] = []

    def put(self, row: R) -> None:
        if row.id not in self.rows:
            if self.ids and row.id < self.ids[-1]:
                insort(self.ids, row.id)
            else:
                self.ids.append(row.id)
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
