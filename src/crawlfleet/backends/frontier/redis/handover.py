"""Links from one partition to another: kept where they were found until they are where they belong.

Whoever finds some hands them over, also those of a worker that has died: what is taken in twice
counts once. Taking in may let depths fall and so lead to further messages; these are handed over,
too.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from crawlfleet.backends.frontier.redis.partition import INTAKE, Partition

AT_ONCE: Final = 1000

_unpack: Final = msgspec.msgpack.Decoder(strict=False)


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
            by_target: dict[int, list[bytes]] = {}
            for message in messages:
                by_target.setdefault(_target(message), []).append(message)
            for number, some in by_target.items():
                await taken_in(partitions[number], [msgspec.Raw(one) for one in some])
                if partitions[number] is not partition:
                    waiting.append(partitions[number])
            gone, messages, count = await partition.outgoing(
                handed=gone + len(messages), most=AT_ONCE
            )
        assert not count


def _target(message: bytes) -> int:
    """A message begins with an array's head and the number of the partition that it is for."""
    head = message[0]
    start = 1 if head & 0xF0 == 0x90 else 3
    kind = message[start]
    if kind < 0x80:
        return kind
    width = {0xCC: 1, 0xCD: 2, 0xD0: 1, 0xD1: 2}[kind]
    return int.from_bytes(message[start + 1 : start + 1 + width])
