"""Fields that many views share: instants, and the names of states."""

from datetime import UTC, datetime
from enum import StrEnum

import msgspec


def names(of: type[StrEnum]) -> msgspec.Meta:
    """The names of an enumeration for the schema alone: a client goes on working when a newer
    master has one more."""
    return msgspec.Meta(extra_json_schema={"enum": [str(each) for each in of]})


def instant(at: float | None) -> datetime | None:
    """An instant for people and other programs, where it is known."""
    return None if at is None else moment(at)


def moment(at: float) -> datetime:
    """An instant for people and other programs."""
    return datetime.fromtimestamp(at, UTC)
