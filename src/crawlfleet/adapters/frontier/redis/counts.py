"""The numbers of all partitions together, and whether that is the end.

Each partition is looked at on its own, so that something may move from one that was looked at late
to one that was looked at early. That nothing is left to do is believed when two looks one after
another find the same totals, which only grow, and nothing on its way: then nothing has moved.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence

import msgspec

from crawlfleet.adapters.frontier.redis.handover import hand_over
from crawlfleet.adapters.frontier.redis.partition import Counted, Partition
from crawlfleet.adapters.frontier.redis.receipts import newest
from crawlfleet.model.crawl.frontier import FrontierCounts
from crawlfleet.model.crawl.notes import notes_in, totals_of


async def counts(partitions: Sequence[Partition], now: float) -> FrontierCounts:
    """Return the counts of all known URLs; they show the end of a round only when no message to
    another partition is on its way.
    """
    before: list[tuple[float, ...]] | None = None
    while True:
        looks = await asyncio.gather(*(one.count(now) for one in partitions))
        found = _sum(looks, now)
        if found.outstanding:
            return found
        on_the_way = [one for one, look in zip(partitions, looks, strict=True) if look.outgoing]
        if on_the_way:
            for partition in on_the_way:
                await hand_over(partitions, partition)
            before = None
            continue
        totals = [
            tuple(look.numbers.get(name, 0) for name in ("added", "ended", "handed"))
            for look in looks
        ]
        if totals == before or len(partitions) == 1:
            return found
        before = totals


def _sum(looks: Sequence[Counted], now: float) -> FrontierCounts:
    all_ = Counter[str]()
    for look in looks:
        all_.update(look.numbers)
    depths = {int(name[2:]): int(n) for name, n in all_.items() if name.startswith("d:") and n}
    dues = [look.next_due for look in looks if look.next_due is not None]
    known, done, leased = (int(all_[name]) for name in ("known", "done", "leased"))
    kept = newest(note for look in looks for note in look.notes)
    notes = notes_in({name: msgspec.json.decode(note) for name, (_, note) in kept.items()})
    newest_round = max((int(look.numbers.get("round", 1)) for look in looks), default=1)
    return FrontierCounts(
        known=known,
        waiting=known - done - leased,
        leased=leased,
        done=done,
        pages=int(all_["pages"]),
        dropped=int(all_["dropped"]) + round(all_["lost"]),
        outcomes={name[2:]: int(n) for name, n in all_.items() if name.startswith("o:")},
        depths=dict(sorted(depths.items())),
        totals=totals_of(notes.values(), newest_round),
        next_due=min(dues, default=None),
    )
