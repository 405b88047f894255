"""Reads the records of URLs and hosts that scripts have packed.

The scripts `lua/books.lua` and `lua/intake.lua` write these records.
"""

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from crawlfleet.model.crawl.frontier import PART, HostFigures, Link, UrlRecord, WaitingUrl

HEAD: Final = struct.Struct("<BHBBH5sIdH8sB3s")
TAIL: Final = struct.Struct("<ddHB")
HOST: Final = struct.Struct("<IIIIIIdd6xd6xB")
STATUS: Final = ("waiting", "leased", "waiting", "done")
DONE: Final = 3
SEED: Final = 65_535
"""The partition that seeds come from."""
TOP: Final = 127
"""The rank of a URL is this less its priority."""
LOWEST: Final = -128

_id: Final = struct.Struct(">q")
_id_word: Final = struct.Struct(">Bq")


def id_bytes(id: int) -> bytes:
    return _id.pack(id)


def word(data: bytes) -> msgspec.Raw:
    """Return bytes as an argument of scripts: Redis's msgpack does not know binary strings."""
    return msgspec.Raw(b"\xdb" + len(data).to_bytes(4) + data)


def id_word(id: int) -> msgspec.Raw:
    """Return an id as an argument of scripts, of 8 bytes."""
    return msgspec.Raw(_id_word.pack(0xA8, id))


def id_of(packed: bytes) -> int:
    id: int = _id.unpack(packed)[0]
    return id


def link_words(link: Link, partition: int) -> tuple[msgspec.Raw, str, str, int, int]:
    """A link as scripts take it."""
    rank = TOP - min(max(link.priority, LOWEST), TOP)
    return id_word(link.id), link.url, link.host, rank, partition


def host_number(record: bytes) -> int:
    """The number of the host that a URL belongs to."""
    return int.from_bytes(record[12:16], "little")


class StoredUrl(NamedTuple):
    """The record of a URL in Redis."""

    state: int
    depth: int
    hops: int
    attempts: int
    place: int
    host: int
    found_at: float
    partition: int
    """Partition that knows the page on which the URL was found."""
    page: bytes
    tail: str
    """The URL, or its part behind the host."""
    is_tail: bool
    due: float | None = None
    at: float | None = None
    status: int = 0
    outcome: str | None = None
    note: str = ""

    def url(self, host: str) -> str:
        return _whole(host, self.tail) if self.is_tail else self.tail

    def shown(self, id: int, host: str, found_on: str | None) -> UrlRecord:
        """Return the record for people; `found_on` is the page that led to this URL."""
        return UrlRecord(
            id=id,
            url=self.url(host),
            host=host,
            status=STATUS[self.state],
            depth=self.depth,
            attempts=self.attempts,
            found_on=found_on,
            found_at=self.found_at,
            due=self.due,
            outcome=self.outcome,
            http_status=self.status,
            at=self.at,
            note=self.note,
        )


def read(record: bytes) -> StoredUrl:
    """Unpack a record."""
    state, depth, _, hops, attempts, place, host, found_at, partition, page, left_out, length = (
        HEAD.unpack_from(record)
    )
    end = HEAD.size + int.from_bytes(length, "little")
    kept = StoredUrl(
        *(state, depth, hops, attempts, int.from_bytes(place, "little"), host, found_at),
        *(partition, page, record[HEAD.size : end].decode(), bool(left_out)),
    )
    if len(record) == end:
        return kept
    due, at, status, size = TAIL.unpack_from(record, end)
    end += TAIL.size
    return kept._replace(
        due=due or None,
        at=at,
        status=status,
        outcome=record[end : end + size].decode(),
        note=record[end + size :].decode(),
    )


def waiting(host: str, given: Sequence[bytes | None]) -> WaitingUrl:
    """A URL that a script has leased: its id, its record and its validator."""
    id, record, validator = given
    assert id is not None
    assert record is not None
    _, depth, _, hops, attempts, _, _, _, _, _, left_out, length = HEAD.unpack_from(record)
    text = record[HEAD.size : HEAD.size + int.from_bytes(length, "little")].decode()
    return WaitingUrl(
        id_of(id),
        _whole(host, text) if left_out else text,
        depth,
        attempts + 1,
        hops,
        None if validator is None else validator.decode(),
    )


def _whole(queue: str, tail: str) -> str:
    """The URL with this tail, of the host that a queue is of."""
    return queue.partition(PART)[0] + tail


def host_figures(name: str, packed: bytes) -> HostFigures:
    _, queued, delayed, leased, done, failures, next_at, *_, length = HOST.unpack_from(packed)
    worker = packed[HOST.size : HOST.size + length]
    return HostFigures(
        host=name,
        waiting=queued + delayed,
        leased=leased,
        done=done,
        failures=failures,
        next_at=next_at,
        worker=worker.decode(),
    )
