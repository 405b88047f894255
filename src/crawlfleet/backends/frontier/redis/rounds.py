"""Later rounds: everything that was visited waits again.

Too much for one script, so it goes in steps: nothing is leased from the first until the last, and
who begins again after a crash goes on where it ended.
"""

from itertools import groupby
from typing import Final

from crawlfleet.backends.frontier.redis.partition import BOOKS, Partition
from crawlfleet.backends.frontier.redis.records import DONE, read, word

AT_ONCE: Final = 500
SCRIPT: Final = (*BOOKS, "round")


async def begin(partition: Partition, round: int) -> None:
    """Begin a round in one partition; nothing when it was begun before."""
    if not (await partition.ask(SCRIPT, step="begin", round=round))[0]:
        return
    while (await partition.ask(SCRIPT, step="fetch", round=round))[0]:
        pass
    visited = set[tuple[int, int, bytes]]()
    async for id, record in partition.records():
        if record[0] == DONE:
            kept = read(record)
            visited.add((kept.host, kept.place, id))
    names = await partition.host_names() if visited else []
    for host, urls in groupby(sorted(visited), key=lambda url: url[0]):
        ids = [word(id) for _, _, id in urls]
        for start in range(0, len(ids), AT_ONCE):
            some = ids[start : start + AT_ONCE]
            await partition.ask(SCRIPT, step="requeue", round=round, host=names[host], ids=some)
    await partition.ask(SCRIPT, step="end", round=round)
