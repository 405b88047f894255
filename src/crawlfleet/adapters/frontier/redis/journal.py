"""A step of a crawl as `lua/intake.lua` records it, piece by piece, for the checkpoint.

A step holds the state after each of its changes: so of several steps about one URL the last counts,
and nothing depends on the order of causes.
"""

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

URL: Final = 1
"""An id, and its record."""
HOST: Final = 2
"""The number of a new host, and its name."""
TOUCHED: Final = 3
"""The name of a host whose state has changed; the state itself is read when the step is."""
RECEIPT: Final = 4
NUMBER: Final = 5
LINKS: Final = 6
MESSAGE: Final = 7
"""Tag of a message to another partition; messages are numbered in their order, from 1."""
WRITER: Final = 8
"""Tag of the writer of a step, and the step's number among those of this writer, from 1."""

_HEAD: Final = struct.Struct("<BHI")


def pieces(step: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """Kind, key and value of each."""
    at = 0
    while at < len(step):
        kind, key, value = _HEAD.unpack_from(step, at)
        at += _HEAD.size
        yield kind, step[at : at + key], step[at + key : at + key + value]
        at += key + value


FIRST: Final = (TOUCHED, WRITER)
"""Pieces that come before all others."""


def first_of(step: bytes, kind: int) -> Iterator[tuple[bytes, bytes]]:
    """Key and value of those of a kind that comes first."""
    for each, key, value in pieces(step):
        if each not in FIRST:
            return
        if each == kind:
            yield key, value


class Writing(NamedTuple):
    """The writer of a step, and the step's number among those of this writer."""

    writer: str
    number: int


def writing_of(step: bytes) -> Writing | None:
    """Return the writer of a step; `None` for a step on which no output depends."""
    for writer, number in first_of(step, WRITER):
        return Writing(writer.decode(), int(number))
    return None


def whole(
    steps: Mapping[int, Sequence[Writing | None]], known: Mapping[str, int]
) -> dict[int, int]:
    """Return how many of the steps of each partition can count.

    The steps of a partition count in order. A writer commits one step after another, in whatever
    partitions, and says with each which of its output counts by then: so a step counts only if all
    earlier steps of its writer do. `known` is how many steps of each writer count already.
    """
    ends = {partition: len(some) for partition, some in steps.items()}
    while True:
        numbers: dict[str, set[int]] = {}
        for partition, some in steps.items():
            for each in some[: ends[partition]]:
                if each is not None:
                    numbers.setdefault(each.writer, set()).add(each.number)
        last = {}
        for writer, held in numbers.items():
            last[writer] = known.get(writer, 0)
            while last[writer] + 1 in held:
                last[writer] += 1
        shorter = {}
        for partition, some in steps.items():
            cut = (
                number
                for number, each in enumerate(some[: ends[partition]])
                if each is not None and each.number > last[each.writer]
            )
            shorter[partition] = next(cut, ends[partition])
        if shorter == ends:
            return ends
        ends = shorter
