"""Links from one partition to another: stored in the partition that found them until they arrive.

Any worker that finds some delivers them, also those of a worker that has died: a link that arrives
twice counts once. New links may let depths fall and so lead to further messages; these are
delivered, too.
"""

import struct
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

import msgspec

from crawlfleet import zstd
from crawlfleet.adapters.frontier.redis.partition import INTAKE, Partition
from crawlfleet.adapters.frontier.redis.records import word

AT_ONCE: Final = 1000

PACKED: Final = 0xC1
"""Begins a message with packed links; msgpack has no such byte."""
LINK: Final = b"\xa1L"
HEAD: Final = struct.Struct(">BHHd8s")

Words = tuple[msgspec.Raw, str, str, int, int]

_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(list[tuple[msgspec.Raw, str, str, int, int]]).decode


def pack_links(links: Iterable[Words]) -> bytes:
    """The links of a page that lay too deep, small."""
    return zstd.compress(_encode(list(links)), 1)


async def taken_in(
    partition: Partition, messages: Sequence[Any], *, sure: bool = False
) -> tuple[int, list[bytes]]:
    """Add messages to a partition; returns how many were new, and the ids that its filter may be
    wrong about. With `sure` the filter is not used.
    """
    if not messages:
        return 0, []
    new, doubtful, _, _ = await partition.ask((*INTAKE, "take"), messages=messages, sure=sure)
    return new, list(doubtful)


async def hand_over(
    partitions: Sequence[Partition],
    first: Partition,
    told: "SentLinks | None" = None,
    pages: Collection[bytes] = (),
) -> None:
    """Deliver all messages of a partition, and those that follow from them. Links from these pages
    are noted in `told`.
    """
    waiting = [first]
    while waiting:
        partition = waiting.pop()
        gone, messages, count = await partition.outgoing(most=AT_ONCE)
        while messages:
            by_target: dict[int, list[Any]] = {}
            for message in messages:
                for number, words in _read(message):
                    by_target.setdefault(number, []).append(words)
            for number, some in by_target.items():
                for start in range(0, len(some), AT_ONCE):
                    await taken_in(partitions[number], some[start : start + AT_ONCE])
                if partitions[number] is not partition:
                    waiting.append(partitions[number])
            if told is not None:
                for message in messages:
                    told.note(message, pages)
            gone, messages, count = await partition.outgoing(
                handed=gone + len(messages), most=AT_ONCE
            )
        assert not count


def _read(message: bytes) -> Iterable[tuple[int, Any]]:
    """Yield the target partition and the content of each message in a packed or plain one."""
    if message[0] != PACKED:
        yield _target(message), msgspec.Raw(message)
        return
    _, source, depth, at, page = HEAD.unpack_from(message)
    for id, url, host, rank, number in _decode(zstd.decompress(message[HEAD.size :])):
        yield number, (number, "L", depth, id, url, host, rank, 0, source, word(page), at)


def _target(message: bytes) -> int:
    """A message begins with an array's head and the number of the partition that it is for."""
    return _number(message, 1)[0]


def _number(message: bytes, at: int) -> tuple[int, int]:
    """A whole number of msgpack that is not negative, and where it ends."""
    kind = message[at]
    if kind < 0x80:
        return kind, at + 1
    end = at + 1 + {0xCC: 1, 0xCD: 2, 0xD0: 1, 0xD1: 2}[kind]
    return int.from_bytes(message[at + 1 : end]), end


def _after(message: bytes, at: int) -> int:
    """Return the position after a text of msgpack."""
    kind = message[at]
    if 0xA0 <= kind < 0xC0:
        return at + 1 + kind - 0xA0
    head = {0xD9: 1, 0xDA: 2, 0xDB: 4}[kind]
    return at + 1 + head + int.from_bytes(message[at + 1 : at + 1 + head])


class SentLinks:
    """Links that this writer has sent to other partitions, and at what depth: most are met again
    and again, and need not be sent again unless they are nearer. Bounded: a forgotten link is sent
    again.

    Links of other writers do not count: their steps may be lost when the crawl is restored from a
    checkpoint in which they do not count, and steps of this writer that do count would lack the
    link.
    """

    MOST: Final = 100_000

    def __init__(self) -> None:
        self._depths: dict[int, int] = {}
        self.depth_of = self._depths.get

    def note(self, message: bytes, pages: Collection[bytes]) -> None:
        """Note a message that has arrived; it counts if its link is from one of these pages."""
        if message[0] == PACKED:
            return
        _, kind = _number(message, 1)
        if message[kind : kind + 2] == LINK:
            depth, id = _number(message, kind + 2)
            at = _after(message, _after(message, id + 9))  # behind the URL and its host
            for _ in ("rank", "hops", "partition"):
                _, at = _number(message, at)
            if message[at + 1 : at + 9] not in pages:
                return
            if len(self._depths) >= self.MOST:
                self._depths.clear()
            # An id is a string of 8 bytes behind its head.
            self._depths[int.from_bytes(message[id + 1 : id + 9], signed=True)] = depth

    def clear(self) -> None:
        self._depths.clear()
