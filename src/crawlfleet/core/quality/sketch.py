"""How many different values there are, and how many of them two runs share, in a kilobyte.

Each value has a number that looks drawn at random; the lowest of them are looked at. How close
together they lie tells how many there are in all, and those of two runs can be compared, since the
same value has the same number everywhere. Fewer than `COUNTED` different values are counted; of
more, the count is estimated, and is off by two hundredths of it, seldom by six. Of two runs with at
least `KEPT` different values, the share that changed is estimated likewise, with fewer of them.
Both say how far they may be off, so that nothing is taken for broken by chance.
"""

import base64
import math
import struct
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import msgspec
from xxhash import xxh3_64_intdigest

KEPT: Final = 128
"""Numbers that are written down, to compare later runs with."""
COUNTED: Final = 2_048
"""Numbers that are looked at while values come in."""
SURE: Final = 3.0
"""Standard errors: an estimate is further off in one of a thousand cases."""
_RANGE: Final = 2**64
_encode: Final = msgspec.json.Encoder(order="deterministic").encode


def number_of(value: Any) -> int:
    """The number of a value of an item."""
    if isinstance(value, str):
        return xxh3_64_intdigest(value.encode("utf-8", "replace"))
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # 2 and 2.0 are the same price
    return xxh3_64_intdigest(b"\0" + _encode(value))


class Sketch:
    """Takes values, in any order and however often."""

    __slots__ = ("_below", "_numbers")

    def __init__(self) -> None:
        self._numbers: set[int] = set()
        self._below = _RANGE
        """Only lower numbers are of interest."""

    def take(self, values: Sequence[Any]) -> None:
        try:
            numbers = map(xxh3_64_intdigest, values)
            self._keep(numbers)  # all of them texts, as nearly all are
        except (TypeError, ValueError):
            self._keep(map(number_of, values))

    def _keep(self, numbers: Iterable[int]) -> None:
        below = self._below
        self._numbers |= {number for number in numbers if number < below}
        if len(self._numbers) > 2 * COUNTED:
            lowest = sorted(self._numbers)[:COUNTED]
            self._numbers, self._below = {*lowest}, lowest[-1]

    def distinct(self) -> int:
        """How many different values there were."""
        if len(self._numbers) < COUNTED:
            return len(self._numbers)
        return round((COUNTED - 1) * _RANGE / (sorted(self._numbers)[COUNTED - 1] + 1))

    def error(self) -> float:
        """How far that may be off, as a share of it; nothing where they were counted."""
        return 0.0 if len(self._numbers) < COUNTED else SURE / math.sqrt(COUNTED - 2)

    def text(self) -> str:
        """What is kept of it."""
        numbers = sorted(self._numbers)[:KEPT]
        return base64.b64encode(struct.pack(f">{len(numbers)}Q", *numbers)).decode()


def read(text: str) -> list[int]:
    """The numbers that a sketch keeps, in order; none for what is no sketch."""
    try:
        packed = base64.b64decode(text)
        return [*struct.unpack(f">{len(packed) // 8}Q", packed)]
    except (ValueError, struct.error):
        return []


class Changed(NamedTuple):
    """Of the different values of two runs, those that only one of them has."""

    share: float
    error: float
    """How far that may be off; nothing where all were compared."""


def changed(before: str, after: str) -> Changed | None:
    """How far the values of two runs differ; `None` when there are none."""
    old, new = {*read(before)}, {*read(after)}
    # Beyond the highest number that a full sketch keeps, it has forgotten what there was.
    ends = [max(kept) for kept in (old, new) if len(kept) >= KEPT]
    end = min(ends, default=_RANGE)
    either = {number for number in old | new if number <= end}
    if not either:
        return None
    share = 1 - len(either & old & new) / len(either)
    error = SURE * math.sqrt(share * (1 - share) / len(either)) if ends else 0.0
    return Changed(share, error)
