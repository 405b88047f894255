"""How long it takes until a dead node's work runs elsewhere."""

import asyncio
import signal
import time
from pathlib import Path
from typing import Final

import msgspec
import psutil
from tests.support.local_fleet import STOCK_SESSION, LocalFleet, running

from crawlfleet.client import Client

LONG_S: Final = 600.0
PATIENCE_S: Final = 120.0


class Recovery(msgspec.Struct, frozen=True, kw_only=True):
    died: str
    seconds: tuple[float, ...]
    """From the signal to the next start, each time."""


def measure_recovery(folder: Path, *, times: int) -> list[Recovery]:
    """With stock settings: a worker that is killed, and one that is stopped but not dead."""
    with running(LocalFleet(folder, workers=2, **STOCK_SESSION)) as fleet:
        return [
            Recovery(
                died=died,
                seconds=tuple(asyncio.run(_recover(fleet, number)) for _ in range(times)),
            )
            for died, number in (
                ("killed: its connection breaks", signal.SIGKILL),
                ("stopped: it falls silent", signal.SIGSTOP),
            )
        ]


async def _recover(fleet: LocalFleet, number: int) -> float:
    await fleet.until_ready(nodes=2)
    async with fleet.client() as client:
        receipt = await client.submit("sleep", {"seconds": LONG_S})
        node_id = await _running_at(client, receipt.id, lost=0)
        victim = _worker(fleet, (await client.node(node_id)).name)
        begun = time.monotonic()
        victim.send_signal(number)
        try:
            await _running_at(client, receipt.id, lost=1)
            took = time.monotonic() - begun
        finally:
            if number != signal.SIGKILL:
                victim.send_signal(signal.SIGCONT)
        await client.act(receipt.id, "cancel")
    return took


async def _running_at(client: Client, task_id: str, *, lost: int) -> str:
    """Wait until it runs after it was lost so often; the node."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            task = await client.task(task_id)
            if task.status == "processing" and task.loss_count >= lost and task.assigned_node:
                return task.assigned_node
            await asyncio.sleep(0.02)


def _worker(fleet: LocalFleet, name: str) -> psutil.Process:
    """The agent of the node of that name; its executors end with it."""
    return next(each for each in fleet.processes("worker") if name in each.cmdline())
