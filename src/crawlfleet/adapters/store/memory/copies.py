"""Copies of rows that share nothing that can be changed, for a store that keeps structs."""

from collections.abc import Iterable
from copy import copy
from functools import cache
from typing import Any, TypeVar, get_args, get_origin

import msgspec
from msgspec.structs import force_setattr

S = TypeVar("S", bound=msgspec.Struct)


@cache
def _fields_of(kind: type[msgspec.Struct], wanted: type) -> tuple[str, ...]:
    return tuple(
        field.name
        for field in msgspec.structs.fields(kind)
        if wanted in (field.type, get_origin(field.type), *get_args(field.type))
    )


def _own_value(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _own_value(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_own_value(inner) for inner in value]
    return value


def share(row: S) -> S:
    """Return a copy of a stored row whose dictionaries the reader may change."""
    dicts = _fields_of(type(row), dict)
    if not dicts:
        return row
    shared = copy(row)
    for name in dicts:
        force_setattr(shared, name, _own_value(getattr(row, name)))
    return shared


def own(row: S) -> S:
    """A copy of a row that depends on nothing of the writer's, not even its receive buffer."""
    owned = share(row)
    for name in _fields_of(type(row), msgspec.Raw):
        raw = getattr(owned, name)
        if raw is not None:
            force_setattr(owned, name, raw.copy())
    return owned


def share_all(rows: Iterable[S]) -> list[S]:
    """Return a copy of each row, as `share` makes it."""
    return [share(row) for row in rows]
