"""A counter in a file that many nodes share, and that only one execution changes at a time."""

import asyncio
import fcntl
from pathlib import Path

from crawlfleet.executors.python import lock, log, task


@task("counting.add")
async def add(folder, amount=1):
    """Add to the counter; the new number, and the token under which it was written."""
    async with lock("counter", lease_s=10, wait_s=120) as held:
        number = await compute(Path(folder), amount)
        held.check()  # nothing is written that may be somebody else's turn already
        if not write(Path(folder), number, held.token):
            raise RuntimeError("somebody with a later token has written since")
    log(f"counted to {number}", token=held.token)
    return {"number": number, "token": held.token}


async def compute(folder, amount):
    """What takes its time, and must not be done by two at once."""
    count = folder / "count"
    number = int(count.read_text()) if count.exists() else 0
    await asyncio.sleep(0.01)
    return number + amount


def write(folder, number, token):
    """What is guarded compares tokens: so even a holder that was stopped for an hour, right
    between `check` and this, changes nothing."""
    with (folder / "token").open("a+") as newest:
        fcntl.flock(newest, fcntl.LOCK_EX)
        newest.seek(0)
        if token < int(newest.read() or 0):
            return False
        newest.truncate(0)
        newest.write(str(token))
        newest.flush()
        (folder / "count").write_text(str(number))
        return True
