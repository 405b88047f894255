"""One partition of a crawl: its keys, and the scripts that act on them."""

import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from crawlfleet.adapters.frontier.redis.connection import Line
from crawlfleet.model.crawl.frontier import FrontierRules, PartitionFigures
from crawlfleet.model.crawl.notes import NOTES

BOOKS: Final = ("numbers", "books")
INTAKE: Final = (*BOOKS, "seen", "intake")
FIRST_ERROR: Final = 4e-5
"""Error rate of the first stage of a Bloom filter (`dedup: bloom`, `lua/seen.lua`); each further
one has half of that, so that all together stay below 8e-5.
"""
MIN_EXPECTED: Final = 1000
"""URLs that a Bloom filter is made for, even if fewer are expected."""
AT_ONCE: Final = 1000
"""Number of records that one command reads."""
FENCE: Final = ":b"
"""Ends the key of a partition's books. They have its epoch: without them every script refuses."""


class Counted(NamedTuple):
    """The numbers of a partition."""

    numbers: Mapping[str, float]
    outgoing: int
    next_due: float | None
    notes: Sequence[tuple[str, bytes]] = ()
    """Figures that executions have noted, as stored, by name."""


class Seen(NamedTuple):
    """The work of a partition, as one worker sees it."""

    ready: int
    """Number of hosts that may be leased now."""
    hosts: int
    """Number of hosts that have work, leased ones too."""
    workers: int
    mine: int
    """Number of hosts that this worker has."""
    room: int


class Partition:
    """Asks the scripts, and knows how far the books were when it last did: they never go back."""

    def __init__(
        self, line: Line, crawl: str, number: int, count: int, rules: FrontierRules, lease_s: float
    ) -> None:
        self._line = line
        self.number = number
        self.key = f"crawlfleet:{{{crawl}:{number}}}"
        self.version = 0
        self._epoch = ""
        self._words = {
            "partition": number,
            "partitions": count,
            "lease_ms": round(lease_s * 1000),
            "rules": {
                "max_depth": -1 if rules.max_depth is None else rules.max_depth,
                "max_pages": -1 if rules.max_pages is None else rules.max_pages,
                "max_per_host": -1 if rules.max_per_host is None else rules.max_per_host,
                "exact": rules.dedup == "exact",
                "capacity": max(MIN_EXPECTED, rules.dedup_capacity // count),
                "error": FIRST_ERROR,
            },
        }

    def begin(self, epoch: str, version: int) -> None:
        """Use the books of that epoch from now on."""
        self._epoch = epoch
        self.version = max(self.version, version)

    async def ask(self, names: Sequence[str], **words: Any) -> list[Any]:
        """Run a script on the books and return its result without the version, which is noted."""
        said = {"epoch": self._epoch, "seen": self.version, **self._words, **words}
        answer = await self._line.ask(names, self.key, said)
        self.version = max(self.version, int(answer[0]))
        return list(answer[1:])

    async def count(self, now: float) -> Counted:
        flat, outgoing, due, notes = await self.ask((*BOOKS, "count"), now=now, notes=NOTES)
        pairs = zip(flat[::2], flat[1::2], strict=True)
        text = {name.decode(): value for name, value in pairs}
        for name in ("epoch", "rules"):
            del text[name]
        numbers = {name: float(value) for name, value in text.items()}
        return Counted(
            numbers,
            outgoing,
            None if due is None else float(due),
            [(name.decode(), kept) for name, kept in zip(notes[::2], notes[1::2], strict=True)],
        )

    async def shares(self) -> PartitionFigures:
        known, done, leased, free, lent = await self.ask((*BOOKS, "shares"))
        return PartitionFigures(
            number=self.number,
            waiting=known - done - leased,
            leased=leased,
            done=done,
            free=free,
            lent={worker.decode(): hosts for worker, hosts in lent if hosts},
        )

    async def look(self, worker: str, now: float) -> Seen:
        answer = await self.ask((*BOOKS, "look"), worker=worker, now=now)
        return Seen(*map(int, answer))

    async def lease(
        self, worker: str, hosts: int, urls: int, held: Sequence[tuple[str, int]], now: float
    ) -> tuple[list[Any], int]:
        """Lease hosts and URLs to a worker; if this is the only partition, also returns how many
        hosts the worker has beyond its share.
        """
        leases, surplus = await self.ask(
            (*BOOKS, "lease"),
            nonce=secrets.token_hex(8),
            worker=worker,
            hosts=hosts,
            urls=urls,
            held=held,
            now=now,
        )
        return list(leases), surplus

    async def forget(self, worker: str) -> None:
        await self.ask((*BOOKS, "forget"), worker=worker)

    async def workers(self) -> list[str]:
        found: list[bytes] = await self._line.command("ZRANGE", f"{self.key}:w", 0, -1)
        return [name.decode() for name in found]

    async def outgoing(self, *, handed: int = 0, most: int = 0) -> tuple[int, list[bytes], int]:
        """Return the number of messages handed over in all, the next few, and how many there are;
        drops those before `handed`.
        """
        gone, messages, count = await self.ask((*BOOKS, "outgoing"), handed=handed, most=most)
        return int(gone), list(messages), count

    async def check(self) -> None:
        """Raise `FrontierLost` when the books are gone or older than before."""
        await self.ask((*BOOKS, "check"), busiest=0)

    async def busiest(self, limit: int) -> list[tuple[str, bytes]]:
        """Return the hosts with the most waiting URLs, and their stored states."""
        (found,) = await self.ask((*BOOKS, "check"), busiest=limit)
        return [(name.decode(), packed) for name, packed in found]

    async def record(self, id: bytes) -> bytes | None:
        found: bytes | None = await self._line.command("HGET", f"{self.key}:u", id)
        return found

    async def host(self, number: int) -> str:
        name: bytes = await self._line.command("LINDEX", f"{self.key}:n", number)
        return name.decode()

    async def host_names(self, start: int, most: int) -> list[str]:
        """Some of them, in the order of their numbers."""
        end = start + most - 1
        found: list[bytes] = await self._line.command("LRANGE", f"{self.key}:n", start, end)
        return [name.decode() for name in found]

    async def records(self) -> AsyncIterator[tuple[bytes, bytes]]:
        """Yield the ids and records of all URLs that are not archived, some twice."""
        cursor = 0
        while True:
            cursor, found = await self._line.command(
                "HSCAN", f"{self.key}:u", cursor, "COUNT", AT_ONCE
            )
            for pair in found.items():
                yield pair
            if not cursor:
                return

    async def archived(self) -> AsyncIterator[tuple[bytes, bytes]]:
        """Yield ids and records of archived URLs: visited ones that a filter knows."""
        start = 0
        while True:
            end = start + AT_ONCE - 1
            some = await self._line.command("LRANGE", f"{self.key}:z", start, end)
            for both in some:
                yield both[:8], both[8:]
            if len(some) < AT_ONCE:
                return
            start += len(some)


def rules_words(rules: FrontierRules) -> str:
    """Return the rules of a crawl as they are stored with it."""
    return msgspec.json.encode(rules).decode()
