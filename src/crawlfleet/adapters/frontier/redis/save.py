"""A crawl on Redis into its checkpoint, and back."""

from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

import msgspec

from crawlfleet.adapters.frontier.redis import journal
from crawlfleet.adapters.frontier.redis.checkpoint import CheckpointFile
from crawlfleet.adapters.frontier.redis.partition import BOOKS, INTAKE, Partition
from crawlfleet.adapters.frontier.redis.records import host_number, id_word, word
from crawlfleet.errors import StoreUnavailable
from crawlfleet.model.crawl.frontier import HostState
from crawlfleet.ports.frontier.host import Checkpoint, Handed, Portion

STEPS_AT_ONCE: Final = 8
"""Number of steps read at once: a step may have some hundred pages with their links."""
MORE_STEPS: Final = 1000
AT_ONCE: Final = 500
HOSTS_AT_ONCE: Final = 50
"""Number of hosts read at once: one may come with half a megabyte of robots.txt."""
NUMBERS: Final = ("added", "done", "dropped", "ended", "known", "lost", "pages", "place")
"""Names of the counts in the books besides outcomes and depths; all else follows from URLs and
hosts.
"""
BY_NAME: Final = ("o:", "d:")

_state: Final = msgspec.msgpack.Decoder(HostState).decode


async def save(partitions: Sequence[Partition], checkpoint: Checkpoint) -> int:
    """Copy the steps since the last time to the checkpoint; returns how many."""
    # First all of what was handed over, and then how far each has come: so what came of a message
    # lies before the end of the partition that it was handed to.
    messages = {one.number: (await _ends(one, checkpoint))[1] for one in partitions}
    made = {one.number: (await _ends(one, checkpoint))[0] for one in partitions}
    handed = {number: Handed(messages[number], made[number]) for number in made}
    count = 0
    for partition in partitions:
        # What was made after the first look goes along, unless there is no end to it.
        count += await _take(partition, checkpoint, handed[partition.number].steps + MORE_STEPS)
    await checkpoint.settle(handed)
    return count


async def _ends(partition: Partition, checkpoint: Checkpoint) -> tuple[int, int]:
    """Return how many steps a partition has made, and how many of its messages have reached other
    partitions.
    """
    taken = await checkpoint.taken(partition.number)
    answer = await partition.ask((*BOOKS, "journal"), taken=taken.steps, most=0, hosts=[])
    return int(answer[2]), int(answer[3])


async def _take(partition: Partition, checkpoint: Checkpoint, most: int) -> int:
    first = begin = (await checkpoint.taken(partition.number)).steps
    while first < most:
        gone, found, *_ = await partition.ask(
            (*BOOKS, "journal"), taken=first, most=STEPS_AT_ONCE, hosts=[]
        )
        if not found:
            break
        if int(gone) != first:
            raise StoreUnavailable(
                f"the checkpoint has {first} steps of partition {partition.number}, and the "
                f"frontier dropped {int(gone)}: an older file was put in its place"
            )
        touched = sorted({name for step in found for name in _touched(step)})
        states: dict[str, bytes] = {}
        for start in range(0, len(touched), HOSTS_AT_ONCE):
            some = touched[start : start + HOSTS_AT_ONCE]
            *_, told = await partition.ask((*BOOKS, "journal"), taken=first, most=0, hosts=some)
            pairs = zip(some, told, strict=True)
            states |= {name: state for name, state in pairs if state is not None}
        await checkpoint.take(Portion(partition.number, first, found, partition.version, states))
        first += len(found)
    # The server may drop them now.
    await partition.ask((*BOOKS, "journal"), taken=first, most=0, hosts=[])
    return first - begin


def _touched(step: bytes) -> list[str]:
    return [name.decode() for name, _ in journal.first_of(step, journal.TOUCHED)]


async def restore(
    partitions: Sequence[Partition], checkpoint: CheckpointFile, *, max_pages: int | None
) -> None:
    """Fill partitions that were just begun."""
    pages: list[int] = []
    await checkpoint.write("CREATE INDEX IF NOT EXISTS in_order ON urls (partition, place)")
    for partition in partitions:
        loading = _Loading(partition)
        names: list[str] = []
        async for rows in _in_portions(
            checkpoint,
            "SELECT number, name, (SELECT state FROM states WHERE states.name = hosts.name) "
            "FROM hosts WHERE partition = ? AND number > ? ORDER BY number LIMIT ?",
            partition.number,
            most=HOSTS_AT_ONCE,
        ):
            await loading.load(hosts=[_host(name, state) for _, name, state in rows])
            names += [name for _, name, _ in rows]
        async for rows in _in_portions(
            checkpoint,
            "SELECT place, id, record FROM urls WHERE partition = ? AND place > ? "
            "ORDER BY place LIMIT ?",
            partition.number,
        ):
            await loading.load(
                urls=[
                    (id_word(id), word(record), names[host_number(record)])
                    for _, id, record in rows
                ]
            )
        async for rows in _in_portions(
            checkpoint,
            "SELECT rowid, id, links FROM links WHERE partition = ? AND rowid > ? "
            "ORDER BY rowid LIMIT ?",
            partition.number,
            first=-(1 << 63),
        ):
            await loading.load(links=[(id_word(id), word(links)) for _, id, links in rows])
        async for rows in _in_portions(
            checkpoint,
            "SELECT number, message FROM messages WHERE partition = ? AND number > ? "
            "ORDER BY number LIMIT ?",
            partition.number,
        ):
            await loading.load(messages=[word(message) for _, message in rows])
        receipts = await checkpoint.all_of(
            "SELECT sink, receipt FROM receipts WHERE partition = ?", partition.number
        )
        found = await checkpoint.all_of(
            "SELECT name, value FROM numbers WHERE partition = ?", partition.number
        )
        numbers = {
            name: float(value)
            for name, value in found
            if name in NUMBERS or name.startswith(BY_NAME)
        }
        pages.append(int(numbers.get("pages", 0)))
        if max_pages is not None and len(partitions) > 1:
            numbers["allowed"] = pages[-1]
        await loading.load(
            receipts=[(sink, word(receipt)) for sink, receipt in receipts],
            numbers=[*numbers.items()],
        )
        if partition is partitions[-1] and "allowed" in numbers:
            given = {f"given:1:{number}": each for number, each in enumerate(pages)}
            first = _Loading(partitions[0], after=1 << 40)
            await first.load(numbers=[*given.items(), ("given:1", sum(pages))])
    await checkpoint.write("DROP INDEX IF EXISTS in_order")


class _Loading:
    """Portions for one partition, numbered."""

    def __init__(self, partition: Partition, *, after: int = 0) -> None:
        self._partition = partition
        self._number = after

    async def load(self, **words: Any) -> None:
        self._number += 1
        none: dict[str, Sequence[Any]] = dict.fromkeys(
            ("hosts", "urls", "links", "messages", "receipts", "numbers"), ()
        )
        await self._partition.ask((*INTAKE, "load"), number=self._number, **{**none, **words})


async def _in_portions(
    checkpoint: CheckpointFile,
    sql: str,
    partition: int,
    *,
    first: int = -1,
    most: int = AT_ONCE,
) -> AsyncIterator[list[Any]]:
    """Yield rows in the order of their first column; `sql` gets the last value of that column."""
    while rows := await checkpoint.all_of(sql, partition, first, most):
        yield rows
        first = int(rows[-1][0])


def _host(name: str, state: bytes | None) -> tuple[Any, ...]:
    if state is None:
        return name, False, 0.0, 0
    told = _state(state)
    return name, word(state), told.next_at, told.failures
