"""Load: a thousand nodes at one master, and what they cost it when nothing happens."""

import asyncio
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec
import psutil
from tests.support.crowd import TASK_TYPE
from tests.support.crowds import Crowds, crowds
from tests.support.local_fleet import STOCK_SESSION, LocalFleet, running

from crawlfleet.client import Client

BATCHES_A_SECOND: Final = 20
TASK_S: Final = 0.05


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """Milliseconds."""

    p50: float
    p99: float
    most: float
    number: int


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    nodes: int
    tasks_a_second: float
    spreads: dict[str, Spread]
    master_cores: float
    nodes_cores: float
    master_mb: float
    sessions_lost: int


class Idle(msgspec.Struct, frozen=True, kw_only=True):
    nodes: int
    master_cores: float


class Return(msgspec.Struct, frozen=True, kw_only=True):
    """All nodes register at once with a master that was killed and started again."""

    nodes: int
    seconds: float
    spreads: dict[str, Spread]


def measure_idle(folder: Path, *, nodes: int, seconds: float) -> Idle:
    """What a fleet without work costs the master."""
    with _master(folder) as fleet, crowds(fleet, 1) as crowd:
        crowd.add(nodes)
        asyncio.run(fleet.until_ready(nodes=nodes))
        time.sleep(5.0)
        master = _process(fleet)
        begun, spent = time.monotonic(), _cpu_s(master)
        time.sleep(seconds)
        cores = (_cpu_s(master) - spent) / (time.monotonic() - begun)
    return Idle(nodes=nodes, master_cores=cores)


def measure_load(
    folder: Path, *, nodes: int, rate: int, seconds: float, processes: int = 2
) -> tuple[Loaded, Return]:
    """Tasks flow at that rate to so many nodes; then the master is killed, and all come back."""
    with _master(folder) as fleet, crowds(fleet, processes) as crowd:
        crowd.add(nodes)
        asyncio.run(fleet.until_ready(nodes=nodes, within_s=180))
        time.sleep(3.0)
        loaded = _load(fleet, crowd, nodes=nodes, rate=rate, seconds=seconds)
        fleet.kill("master")
        begun = time.monotonic()
        asyncio.run(fleet.until_ready())
        asyncio.run(fleet.until_ready(nodes=nodes, within_s=180))
        back = Return(
            nodes=nodes,
            seconds=time.monotonic() - begun,
            spreads=_spreads(crowd.figures()["times"]),
        )
    return loaded, back


def _load(fleet: LocalFleet, crowd: Crowds, *, nodes: int, rate: int, seconds: float) -> Loaded:
    master = _process(fleet)
    crowd_s = crowd.figures()["cpu_s"]
    begun, spent = time.monotonic(), _cpu_s(master)
    asyncio.run(_submit(fleet, rate=rate, seconds=seconds))
    took = time.monotonic() - begun
    master_s = _cpu_s(master) - spent
    figures = crowd.figures()
    return Loaded(
        nodes=nodes,
        tasks_a_second=figures["done"] / took,
        spreads=_spreads(figures["times"]),
        master_cores=master_s / took,
        nodes_cores=(figures["cpu_s"] - crowd_s) / took,
        master_mb=master.memory_info().rss / 1e6,
        sessions_lost=len(figures["times"].get("register", [])),
    )


async def _submit(fleet: LocalFleet, *, rate: int, seconds: float) -> None:
    """Batches at even intervals; one that is late is not made up for by a rush."""
    loop = asyncio.get_running_loop()
    async with fleet.client() as client:
        ends = loop.time() + seconds
        due = loop.time()
        while due < ends:
            await _submit_batch(client, rate // BATCHES_A_SECOND)
            due = max(due + 1 / BATCHES_A_SECOND, loop.time())
            await asyncio.sleep(due - loop.time())
        await asyncio.sleep(TASK_S * 2)


async def _submit_batch(client: Client, tasks: int) -> None:
    now = time.time()
    reply = await client.submit_batch(
        {"task_type": TASK_TYPE, "parameters": {"seconds": TASK_S, "submitted_at": now}}
        for _ in range(tasks)
    )
    refused = [item.error for item in reply.items if item.error]
    if refused:
        raise RuntimeError(f"{len(refused)} tasks were refused, the first: {refused[0]}")


@contextmanager
def _master(folder: Path) -> Iterator[LocalFleet]:
    """A master with stock settings and no workers of its own."""
    with running(LocalFleet(folder, workers=0, **STOCK_SESSION)) as fleet:
        asyncio.run(fleet.until_ready())
        yield fleet


def _process(fleet: LocalFleet) -> psutil.Process:
    return max(fleet.processes("master"), key=lambda each: each.memory_info().rss)


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _spreads(times: dict[str, list[float]]) -> dict[str, Spread]:
    return {what: _spread(seconds) for what, seconds in times.items() if len(seconds) > 1}


def _spread(seconds: list[float]) -> Spread:
    cuts = statistics.quantiles(seconds, n=100, method="inclusive")
    return Spread(
        p50=cuts[49] * 1e3, p99=cuts[98] * 1e3, most=max(seconds) * 1e3, number=len(seconds)
    )
