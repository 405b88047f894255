"""Logs and progress that an execution reports while it runs."""

from enum import StrEnum
from typing import Any

import msgspec


class LogLevel(StrEnum):
    """The level of a log line, the least severe first."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of an execution's log. Numbers start at 1; lines that were left out are numbered,
    too."""

    seq: int
    at: float
    """Time by the node's clock."""
    message: str
    level: LogLevel = LogLevel.INFO
    fields: dict[str, Any] = {}


class Gap(msgspec.Struct, frozen=True, kw_only=True):
    """A range of lines that are not stored (any more), by first and last number."""

    first: int
    last: int


class LogPart(msgspec.Struct, frozen=True, kw_only=True):
    """New lines of an execution's log."""

    execution_id: str
    lines: tuple[LogLine, ...] = ()
    left_out: Gap | None = None


class LogSize(msgspec.Struct, frozen=True, kw_only=True):
    """Size of the stored logs of a period."""

    lines: int
    bytes: int


class Progress(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Progress of an execution, in the unit that its executor counts."""

    done: float
    total: float | None = None
    at: float = 0.0
