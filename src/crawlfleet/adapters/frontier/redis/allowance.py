"""`max_pages` where several partitions share it.

The first partition grants pages to the others, in totals that only grow; a partition leases no more
than it was granted, and gives back what it does not need when another runs short. Whoever dies in
between leaves fewer pages granted than could be, never more; the next who runs short sets it right.
"""

from collections.abc import Sequence
from typing import Final

from crawlfleet.adapters.frontier.redis.partition import BOOKS, Partition

SCRIPT: Final = (*BOOKS, "allow")


async def ask_for(
    partitions: Sequence[Partition], partition: Partition, more: int, round: int
) -> None:
    """Let a partition have so many pages more, or as many as there are."""
    left = more - await _grant(partitions[0], partition, more, round)
    if left <= 0:
        return
    for other in partitions:
        if other is not partition:
            await _grant(partitions[0], other, 0, round)
            await other.ask(SCRIPT, step="give back", round=round)
    for other in partitions:
        if other is not partition:
            await _grant(partitions[0], other, 0, round)
    await _grant(partitions[0], partition, left, round)


async def _grant(first: Partition, partition: Partition, more: int, round: int) -> int:
    """Grant pages, having heard what was given back; how many."""
    _, back = await partition.ask(SCRIPT, step="hear", round=round)
    given, granted = await first.ask(
        SCRIPT, step="grant", round=round, for_=partition.number, back=int(back), more=more
    )
    await partition.ask(SCRIPT, step="accept", round=round, given=int(given))
    return int(granted)
