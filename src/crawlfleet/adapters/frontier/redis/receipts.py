"""Receipts of sinks, of which each partition has the last that was committed there.

A sink is written by one process, and each of its receipts covers all output that it staged. So the
process numbers them, and of those in several partitions the one with the greatest number counts.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from crawlfleet.adapters.frontier.redis.records import word

_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(tuple[int, bytes]).decode


def newest(kept: Iterable[tuple[str, bytes]]) -> dict[str, tuple[int, bytes]]:
    """The receipts that count, each with its number, of those that the partitions have."""
    found: dict[str, tuple[int, bytes]] = {}
    for sink, packed in kept:
        number, receipt = _decode(packed)
        if sink not in found or found[sink][0] < number:
            found[sink] = number, receipt
    return found


class Numbers:
    """The last number of each sink."""

    def __init__(self) -> None:
        self._last: dict[str, int] = {}

    def load(self, kept: Iterable[tuple[str, bytes]]) -> Mapping[str, Any]:
        """The receipts that count, of those that the partitions have."""
        found = newest(kept)
        for sink, (number, _) in found.items():
            # A commit may be on its way that these do not have.
            self._last[sink] = max(number, self._last.get(sink, 0))
        return {sink: msgspec.json.decode(receipt) for sink, (_, receipt) in found.items()}

    def next(self, receipts: Mapping[str, Any]) -> list[tuple[str, msgspec.Raw]]:
        """Receipts as they are kept. A number that is given to a commit which is refused, or comes
        to nothing, is not used again."""
        kept = []
        for sink, receipt in receipts.items():
            number = self._last[sink] = self._last.get(sink, 0) + 1
            kept.append((sink, word(_encode((number, msgspec.json.encode(receipt))))))
        return kept
