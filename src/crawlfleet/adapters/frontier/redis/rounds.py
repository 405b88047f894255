"""Later rounds: everything that was visited waits again.

Too much for one script, and for the memory of a worker; so it goes in steps: nothing is leased from
the first until the last, and who begins again after a crash goes on where it ended. What was
visited is put in order of discovery on the server, host by host.
"""

from typing import Final

from crawlfleet.adapters.frontier.redis.partition import BOOKS, Partition
from crawlfleet.adapters.frontier.redis.records import DONE, word

AT_ONCE: Final = 500
HOSTS_AT_ONCE: Final = 100
SCRIPT: Final = (*BOOKS, "round")


async def begin(partition: Partition, round: int) -> None:
    """Begin a round in one partition; nothing when it was begun before."""
    if not (await partition.ask(SCRIPT, step="begin", round=round))[0]:
        return
    while (await partition.ask(SCRIPT, step="fetch", round=round))[0]:
        pass
    visited: list[bytes] = []
    async for id, record in partition.records():
        if record[0] == DONE:
            visited.append(id)
        if len(visited) == AT_ONCE:
            await _sort(partition, round, visited)
            visited.clear()
    await _sort(partition, round, visited)
    start = 0
    while names := await partition.host_names(start, HOSTS_AT_ONCE):
        while (await partition.ask(SCRIPT, step="requeue", round=round, hosts=names))[0]:
            pass
        start += len(names)
    await partition.ask(SCRIPT, step="end", round=round)


async def _sort(partition: Partition, round: int, ids: list[bytes]) -> None:
    await partition.ask(SCRIPT, step="sort", round=round, ids=[word(id) for id in ids])
