"""How many different values there are, and how many of them two runs share, in a kilobyte.

Each value has a number that looks drawn at random; the lowest of them are kept. How close together
they lie tells how many there are in all, and those of two runs can be compared, since the same
value has the same number everywhere. Up to `KEPT` different values all of it is exact; beyond that
a count is off by a tenth, and a share by some hundredths.
"""

import base64
import struct
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec
from xxhash import xxh3_64_intdigest

KEPT: Final = 128
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
        if len(self._numbers) > 4 * KEPT:
            self._trim()

    def _trim(self) -> None:
        if len(self._numbers) > KEPT:
            lowest = sorted(self._numbers)[:KEPT]
            self._numbers, self._below = {*lowest}, lowest[-1]

    def text(self) -> str:
        """What is kept of it."""
        self._trim()
        numbers = sorted(self._numbers)
        return base64.b64encode(struct.pack(f">{len(numbers)}Q", *numbers)).decode()


def read(text: str) -> list[int]:
    """The numbers that a sketch keeps, in order; none for what is no sketch."""
    try:
        packed = base64.b64decode(text)
        return [*struct.unpack(f">{len(packed) // 8}Q", packed)]
    except (ValueError, struct.error):
        return []


def distinct(text: str) -> int:
    """How many different values there were."""
    numbers = read(text)
    if len(numbers) < KEPT:
        return len(numbers)
    return round((KEPT - 1) * _RANGE / (numbers[KEPT - 1] + 1))


def changed(before: str, after: str) -> float | None:
    """Of the different values of two runs, the share that only one of them has; `None` when there
    are none."""
    old, new = {*read(before)}, {*read(after)}
    # Beyond the highest number that a full sketch keeps, it has forgotten what there was.
    ends = [max(kept) for kept in (old, new) if len(kept) >= KEPT]
    end = min(ends, default=_RANGE)
    either = {number for number in old | new if number <= end}
    return None if not either else 1 - len(either & old & new) / len(either)
