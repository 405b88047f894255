"""How much of all logs is kept: the newest lines, up to a size.

Sizes are known by stretches of time. The oldest stretches go as a whole; of the one in which the
limit is reached as many lines as are too much, by their mean size.
"""

from collections.abc import Mapping
from math import ceil
from typing import Final

import msgspec

from crawlfleet.model.log import LogSize

STRETCH_S: Final = 600.0


class LogCut(msgspec.Struct, frozen=True, kw_only=True):
    """What has to go: all before a stretch, and the first lines of it."""

    stretch: int
    lines: int


def stretch_of(at: float) -> int:
    """The number of the stretch of an instant."""
    return int(at // STRETCH_S)


def start_of(stretch: int) -> float:
    """The instant at which a stretch begins."""
    return stretch * STRETCH_S


def find_cut(sizes: Mapping[int, LogSize], *, most: float) -> LogCut | None:
    """What has to go so that about `most` bytes stay; nothing if all of it may stay."""
    left = most
    for stretch in sorted(sizes, reverse=True):
        size = sizes[stretch]
        if size.bytes > left:
            return LogCut(stretch=stretch, lines=ceil(size.lines * (1 - left / size.bytes)))
        left -= size.bytes
    return None
