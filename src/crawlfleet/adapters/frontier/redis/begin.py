"""Begins the books of a crawl on Redis, or sees that those which are there can go on."""

import asyncio
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec

from crawlfleet.adapters.frontier.redis.connection import Line
from crawlfleet.adapters.frontier.redis.partition import Partition, rules_words
from crawlfleet.errors import ConfigError, FrontierLost
from crawlfleet.model.crawl.frontier import FrontierRules

FORMAT: Final = "1"


class Prepared(NamedTuple):
    """A crawl that is ready to be worked on."""

    partitions: list[Partition]
    epoch: str
    round: int
    receipts: Sequence[tuple[str, bytes]]


class _Found(NamedTuple):
    epoch: str
    format: str
    rules: bytes
    partitions: int
    made: bool
    version: int
    round: int
    receipts: Sequence[tuple[str, bytes]]


async def prepare(
    line: Line,
    crawl: str,
    rules: FrontierRules,
    *,
    partitions: int,
    lease_s: float,
    epoch: str | None,
    fresh: str,
    journal: bool = False,
) -> Prepared:
    """The crawl of that `epoch`, or of any; begun under the epoch `fresh`, if that is given, when
    there is none, and then with a `journal` of its steps. Raises `FrontierLost` and
    `ConfigError`."""
    first = Partition(line, crawl, 0, partitions, rules, lease_s)
    found = await _open(line, first, rules, partitions, fresh, journal=journal)
    if found is None or (epoch and found.epoch != epoch):
        raise FrontierLost(
            f"the frontier {line.name} does not have the crawl {crawl} any more that was begun "
            "there: it was emptied or restored. Begin the crawl again"
        )
    _check(found, rules, f"{line.name}, crawl {crawl},")
    count = found.partitions
    all_ = [Partition(line, crawl, number, count, rules, lease_s) for number in range(count)]
    receipts = list(found.receipts)
    all_[0].begin(found.epoch, found.version)
    missing = "" if found.made else found.epoch
    others = await asyncio.gather(
        *(_open(line, partition, rules, count, missing, journal=journal) for partition in all_[1:])
    )
    for partition, other in zip(all_[1:], others, strict=True):
        if other is None or other.epoch != found.epoch:
            raise FrontierLost(
                f"the frontier {line.name} has lost partition {partition.number} of the crawl "
                f"{crawl}: a part of it was emptied or restored. Begin the crawl again"
            )
        partition.begin(other.epoch, other.version)
        receipts += other.receipts
    if not found.made:
        # From now on a partition that is not there was lost.
        await _open(line, all_[0], rules, count, "", made=True)
    return Prepared(all_, found.epoch, found.round, receipts)


async def _open(
    line: Line,
    partition: Partition,
    rules: FrontierRules,
    count: int,
    epoch: str,
    *,
    made: bool = False,
    journal: bool = False,
) -> _Found | None:
    answer: Any = await line.ask(
        ("open",),
        partition.key,
        {
            "begin": epoch,
            "format": FORMAT,
            "rules": rules_words(rules),
            "partitions": str(count),
            "made": made,
            "journal": "1" if journal else "0",
        },
    )
    (named, format, stored, parts, was_made, version, round), flat = answer
    if named is None:
        return None
    receipts = [(name.decode(), kept) for name, kept in zip(flat[::2], flat[1::2], strict=True)]
    return _Found(
        *(named.decode(), format.decode(), stored, int(parts), was_made is not None),
        *(int(version), int(round), receipts),
    )


def _check(found: _Found, rules: FrontierRules, name: str) -> None:
    if found.format != FORMAT:
        raise ConfigError(
            f"the frontier {name} is not of this version of crawlfleet; begin a new crawl, or go "
            "on with the version that wrote it"
        )
    before = msgspec.json.decode(found.rules, type=FrontierRules)
    for field in ("max_depth", "dedup"):
        was, now = getattr(before, field), getattr(rules, field)
        if was != now:
            raise ConfigError(
                f"the frontier {name} was begun with {field}={was!r} and cannot go on with "
                f"{now!r}: go on with {was!r}, or begin a new crawl"
            )
