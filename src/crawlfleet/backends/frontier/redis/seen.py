"""Which ids are new, by Bloom filters on Redis that grow: a set for crawls too large for any other.

The frontier has the same filters in its partitions (`dedup: bloom`); this is one on its own.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from crawlfleet.backends.frontier.redis.line import Line
from crawlfleet.backends.frontier.redis.records import word

FIRST_ERROR: Final = 4e-5
"""Of the first stage; each further one has half of that, so that all together stay below 8e-5."""
LEAST: Final = 1000


class Filled(msgspec.Struct, frozen=True, kw_only=True):
    """How full a filter is."""

    held: int
    stages: int
    error: float
    """The chance that the next new id is taken for a known one."""
    bytes: int


class RedisSeen:
    """A set of ids that several clients may add to at once: each new id is new to one of them."""

    def __init__(self, line: Line, key: str, *, capacity: int, error: float = FIRST_ERROR) -> None:
        self._line = line
        self._key = f"crawlfleet:{{{key}}}"
        self._words = {"capacity": max(capacity, LEAST), "error": error}

    async def add(self, ids: Sequence[bytes]) -> Sequence[bool]:
        """Add ids of 8 bytes; of each whether it was new."""
        words = {"rules": self._words, "ids": [word(id) for id in ids]}
        answer = await self._line.ask(("numbers", "seen", "add"), self._key, words)
        return [one == ord("1") for one in answer[0]]

    async def filled(self) -> Filled:
        words = {"rules": self._words, "ids": []}
        _, held, stages, error, size = await self._line.ask(
            ("numbers", "seen", "add"), self._key, words
        )
        return Filled(held=int(held), stages=int(stages), error=float(error), bytes=int(size))
