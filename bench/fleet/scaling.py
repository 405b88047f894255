"""Whether twice the workers do twice the work, when the work is waiting."""

import asyncio
import time
from pathlib import Path
from typing import Final

import msgspec
from tests.support.local_fleet import STOCK_SESSION, LocalFleet, running

TASK_S: Final = 0.5
SLOTS: Final = 4
WARM_UP_TASKS: Final = 2
"""For each slot."""


class Scaling(msgspec.Struct, frozen=True, kw_only=True):
    workers: int
    tasks_a_second: float
    of_ideal: float
    """Of what the slots would do if nothing but the work took time."""


def measure_scaling(folder: Path, *, workers: tuple[int, ...], seconds: float) -> list[Scaling]:
    """Tasks that wait for half a second, as a slow site makes one wait."""
    return [_measure(folder / str(number), number, seconds) for number in workers]


def _measure(folder: Path, workers: int, seconds: float) -> Scaling:
    settings = {**STOCK_SESSION, "CRAWLFLEET_WORKER_SLOTS": str(SLOTS)}
    slots = workers * SLOTS
    with running(LocalFleet(folder, workers=workers, **settings)) as fleet:
        asyncio.run(fleet.until_ready(nodes=workers))
        asyncio.run(_drain(fleet, slots * WARM_UP_TASKS, 0))
        tasks = int(seconds / TASK_S) * slots
        took = asyncio.run(_drain(fleet, tasks, slots * WARM_UP_TASKS))
    rate = tasks / took
    return Scaling(workers=workers, tasks_a_second=rate, of_ideal=rate / (slots / TASK_S))


async def _drain(fleet: LocalFleet, tasks: int, done_before: int) -> float:
    """Seconds from submitting them all at once to the end of the last."""
    async with fleet.client() as client:
        begun = time.monotonic()
        await client.submit_batch(
            {"task_type": "sleep", "parameters": {"seconds": TASK_S}} for _ in range(tasks)
        )
    await fleet.until_done(done_before + tasks, within_s=600)
    return time.monotonic() - begun
