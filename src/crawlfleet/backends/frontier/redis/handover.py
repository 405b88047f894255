"""Links from one partition to another: kept where they were found until they are where they belong.

Whoever finds some hands them over, also those of a worker that has died: what is taken in twice
counts once. Taking in may let depths fall and so lead to further messages; these are handed over,
too.
"""

import struct
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec
import zstandard

from crawlfleet.backends.frontier.redis.partition import INTAKE, Partition
from crawlfleet.backends.frontier.redis.records import word

AT_ONCE: Final = 1000

PACKED: Final = 0xC1
"""Begins a message with packed links; msgpack has no such byte."""
HEAD: Final = struct.Struct(">BHHd8s")

Words = tuple[msgspec.Raw, str, str, int, int]

_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(list[tuple[msgspec.Raw, str, str, int, int]]).decode


def pack_links(links: Iterable[Words]) -> bytes:
    """The links of a page that lay too deep, small."""
    return zstandard.compress(_encode(list(links)), 1)


async def taken_in(
    partition: Partition, messages: Sequence[Any], *, sure: bool = False
) -> tuple[int, list[bytes]]:
    """Let a partition take in messages; how many were new, and which ids its filter may be wrong
    about. With `sure` the filter is not asked."""
    if not messages:
        return 0, []
    new, doubtful, _, _ = await partition.ask((*INTAKE, "take"), messages=messages, sure=sure)
    return new, list(doubtful)


async def hand_over(partitions: Sequence[Partition], first: Partition) -> None:
    """Hand over all messages of a partition, and what comes of that."""
    waiting = [first]
    while waiting:
        partition = waiting.pop()
        gone, messages, count = await partition.outgoing(most=AT_ONCE)
        while messages:
            by_target: dict[int, list[Any]] = {}
            for message in messages:
                for number, told in _read(message):
                    by_target.setdefault(number, []).append(told)
            for number, some in by_target.items():
                for start in range(0, len(some), AT_ONCE):
                    await taken_in(partitions[number], some[start : start + AT_ONCE])
                if partitions[number] is not partition:
                    waiting.append(partitions[number])
            gone, messages, count = await partition.outgoing(
                handed=gone + len(messages), most=AT_ONCE
            )
        assert not count


def _read(message: bytes) -> Iterable[tuple[int, Any]]:
    """What is told to which partitions."""
    if message[0] != PACKED:
        yield _target(message), msgspec.Raw(message)
        return
    _, source, depth, at, page = HEAD.unpack_from(message)
    for id, url, host, rank, number in _decode(zstandard.decompress(message[HEAD.size :])):
        yield number, (number, "L", id, url, host, rank, depth, 0, source, word(page), at)


def _target(message: bytes) -> int:
    """A message begins with an array's head and the number of the partition that it is for."""
    head = message[0]
    start = 1 if head & 0xF0 == 0x90 else 3
    kind = message[start]
    if kind < 0x80:
        return kind
    width = {0xCC: 1, 0xCD: 2, 0xD0: 1, 0xD1: 2}[kind]
    return int.from_bytes(message[start + 1 : start + 1 + width])
