"""Sketch of the different values of a field, in a kilobyte: how many there are, and how many of
them two runs share.

Each value is hashed to a number, and the sketch keeps the lowest numbers. Their density gives the
count of all values, and the sketches of two runs can be compared, since equal values have equal
numbers everywhere. Fewer than `COUNTED` different values are counted exactly. Of more, the count is
an estimate with an error of 2 %, seldom 6 %. For two runs with at least `KEPT` different values the
changed share is estimated likewise, from fewer numbers. Both report their possible error, so that
chance breaks no expectation.
"""

import base64
import math
import struct
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import msgspec
from xxhash import xxh3_64_intdigest

KEPT: Final = 128
"""Limit of the numbers that are stored, for comparison with later runs."""
COUNTED: Final = 2_048
"""Limit of the numbers that are kept while values come in."""
SURE: Final = 3.0
"""Number of standard errors in a reported error: an estimate is further off in one of a thousand
cases."""
_RANGE: Final = 2**64
_encode: Final = msgspec.json.Encoder(order="deterministic").encode


def number_of(value: Any) -> int:
    """Return the hash of a value of an item."""
    if isinstance(value, str):
        return xxh3_64_intdigest(value.encode("utf-8", "replace"))
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # 2 and 2.0 are the same price
    return xxh3_64_intdigest(b"\0" + _encode(value))


class Sketch:
    """Sketch that takes values in any order and any number of times."""

    __slots__ = ("_below", "_numbers")

    def __init__(self) -> None:
        self._numbers: set[int] = set()
        self._below = _RANGE
        """Upper bound of the numbers that can still enter the sketch."""

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
        """Return the number of different values."""
        if len(self._numbers) < COUNTED:
            return len(self._numbers)
        return round((COUNTED - 1) * _RANGE / (sorted(self._numbers)[COUNTED - 1] + 1))

    def error(self) -> float:
        """Return the possible error of `distinct`, as a share of it; 0 if the values were counted
        exactly."""
        return 0.0 if len(self._numbers) < COUNTED else SURE / math.sqrt(COUNTED - 2)

    def text(self) -> str:
        """Return the sketch as text that can be stored."""
        numbers = sorted(self._numbers)[:KEPT]
        return base64.b64encode(struct.pack(f">{len(numbers)}Q", *numbers)).decode()


def read(text: str) -> list[int]:
    """Return the numbers in the text of a sketch, in order; empty for an invalid text."""
    try:
        packed = base64.b64decode(text)
        return [*struct.unpack(f">{len(packed) // 8}Q", packed)]
    except (ValueError, struct.error):
        return []


class Changed(NamedTuple):
    """Share of the different values of two runs that only one of the runs has."""

    share: float
    error: float
    """Possible error of `share`; 0 if all values were compared."""


def changed(before: str, after: str) -> Changed | None:
    """Return how far the values of two runs differ; `None` when there are none."""
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
