"""Rows as the memory store keeps them: apart from what writers and readers hold of them."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from typing import Any, Final, Generic, Protocol, TypeVar, get_args, get_origin

import msgspec
from msgspec.structs import force_setattr

from crawlfleet.model.cluster import ClusterConfiguration
from crawlfleet.model.event import Event
from crawlfleet.model.key import ApiKey
from crawlfleet.model.node import Node, Session
from crawlfleet.model.project import Cluster, Project
from crawlfleet.model.task import Execution, Task


class Row(Protocol):
    @property
    def id(self) -> str: ...


R = TypeVar("R", bound=Row)
S = TypeVar("S", bound=msgspec.Struct)


def _fields_of(kind: type[msgspec.Struct], wanted: type) -> tuple[str, ...]:
    return tuple(
        field.name
        for field in msgspec.structs.fields(kind)
        if wanted in (field.type, get_origin(field.type), *get_args(field.type))
    )


STORED: Final = (
    Project,
    Cluster,
    Node,
    Session,
    Task,
    Execution,
    ApiKey,
    ClusterConfiguration,
    Event,
)
DICTS: Final[dict[type, tuple[str, ...]]] = {kind: _fields_of(kind, dict) for kind in STORED}
RAWS: Final[dict[type, tuple[str, ...]]] = {kind: _fields_of(kind, msgspec.Raw) for kind in STORED}


def _own_value(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _own_value(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_own_value(inner) for inner in value]
    return value


def share(row: S) -> S:
    """A copy of a stored row whose dictionaries the reader may change."""
    dicts = DICTS[type(row)]
    if not dicts:
        return row
    shared = copy(row)
    for name in dicts:
        force_setattr(shared, name, _own_value(getattr(row, name)))
    return shared


def own(row: S) -> S:
    """A copy of a row that depends on nothing of the writer's, not even its receive buffer."""
    owned = share(row)
    for name in RAWS[type(row)]:
        raw = getattr(owned, name)
        if raw is not None:
            force_setattr(owned, name, raw.copy())
    return owned


def share_all(rows: Iterable[S]) -> list[S]:
    """Copies of stored rows."""
    return [share(row) for row in rows]


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
