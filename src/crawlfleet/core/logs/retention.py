"""Retention of logs: keeps the newest lines of all logs, up to a total size.

Sizes are known per stretch of time. The oldest stretches are deleted whole. In the stretch in which
the limit is reached, the number of lines to delete follows from their mean size.
"""

from collections.abc import Mapping
from math import ceil
from typing import Final

import msgspec

from crawlfleet.model.log import LogSize

STRETCH_S: Final = 600.0


class LogCut(msgspec.Struct, frozen=True, kw_only=True):
    """Lines to delete: all lines before a stretch, and the first `lines` of it."""

    stretch: int
    lines: int


def stretch_of(at: float) -> int:
    """Return the number of the stretch that contains an instant."""
    return int(at // STRETCH_S)


def start_of(stretch: int) -> float:
    """Return the instant at which a stretch begins."""
    return stretch * STRETCH_S


def find_cut(sizes: Mapping[int, LogSize], *, most: float) -> LogCut | None:
    """Return the lines to delete so that about `most` bytes stay; `None` if all may stay."""
    left = most
    for stretch in sorted(sizes, reverse=True):
        size = sizes[stretch]
        if size.bytes > left:
            return LogCut(stretch=stretch, lines=ceil(size.lines * (1 - left / size.bytes)))
        left -= size.bytes
    return None
