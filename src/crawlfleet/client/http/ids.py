"""Ids in orders: an order names its tasks by id, perhaps none, or chooses them by a filter."""

from collections.abc import Iterable, Mapping
from typing import Any

from crawlfleet.errors import FieldProblem, InvalidRequest


def listed(ids: Iterable[str] | None, field: str = "ids") -> list[str]:
    """The ids one after the other. A text is refused: its letters are no ids."""
    if isinstance(ids, str):
        raise InvalidRequest(
            [
                FieldProblem(
                    field=field,
                    message="is one text where a list is needed",
                    remedy=f"give [{ids!r}]",
                    value=ids,
                )
            ]
        )
    return list(ids or ())


def names(ids: Iterable[str] | None, filter: Mapping[str, Any]) -> bool:
    """Return whether ids are given, perhaps none of them, rather than a filter; raises
    `InvalidRequest` for both.
    """
    if ids is None:
        return False
    if also := [name for name, value in filter.items() if value is not None]:
        raise InvalidRequest(
            [
                FieldProblem(
                    field="ids",
                    message=f"stands beside a filter by {', '.join(also)}",
                    remedy="name tasks by their ids, or choose them by a filter",
                )
            ]
        )
    return True
