"""What an execution says of itself while it runs: lines, and how far it has got."""

from enum import StrEnum
from typing import Any

import msgspec


class LogLevel(StrEnum):
    """How much a line matters, the least first."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line. Numbers begin with 1 in each execution, and lines that were left out have one."""

    seq: int
    at: float
    """By the node's clock."""
    message: str
    level: LogLevel = LogLevel.INFO
    fields: dict[str, Any] = {}


class Gap(msgspec.Struct, frozen=True, kw_only=True):
    """Lines that are not kept (any more), by the numbers of the first and the last of them."""

    first: int
    last: int


class LogPart(msgspec.Struct, frozen=True, kw_only=True):
    """What is new in the log of an execution."""

    execution_id: str
    lines: tuple[LogLine, ...] = ()
    left_out: Gap | None = None


class LogSize(msgspec.Struct, frozen=True, kw_only=True):
    """How much is kept of the logs of some time."""

    lines: int
    bytes: int


class Progress(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How far the work has got, in whatever it counts."""

    done: float
    total: float | None = None
    at: float = 0.0
