"""What it costs to run nothing in a cell, beside a process of the pool that is there already."""

import asyncio
import contextlib
import os
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
from tests.support.cells import sandbox_in
from tests.support.confined_pool import NOTHING, SPARES, pool_with

from crawlfleet.model.isolation import Isolation
from crawlfleet.ports.sandbox import Cell, CellOrder
from crawlfleet.sandbox.launcher import LocalSandbox
from crawlfleet.testing.executor_suite import WatchedRun, make_assignment
from crawlfleet.worker.pool.pool import ProcessPool

WARM_UP: Final = 5
PAUSE_S: Final = 0.15
"""Between two executions, in which a cell can be made ahead."""
ACCOUNTS: Final = Path("/sys/fs/cgroup/cpuacct")


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """Of one execution, in milliseconds from the order to its end."""

    p50_ms: float
    p95_ms: float
    cpu_ms: float | None
    """Of all processes, on average; `None` where it cannot be counted."""


class Stages(msgspec.Struct, frozen=True, kw_only=True):
    """Where the time of a cell that is made on demand goes: medians, in milliseconds."""

    made_ms: float
    """From the order to a process that is held by every layer."""
    ready_ms: float
    """Until it says that it is ready."""
    work_ms: float
    """The work itself, until its end is known."""
    cleared_ms: float
    """Afterwards, until nothing of it is left; nobody waits for that."""


class Starts(msgspec.Struct, frozen=True, kw_only=True):
    executions: int
    pooled: Cost
    confined: Cost
    """Each in a cell that is made when it is asked for."""
    ahead: Cost
    """Each in a cell that was made ahead, with a pause after each."""
    stages: Stages


class _Timed:
    """A sandbox that notes how long its cells take to be made and to be cleared."""

    def __init__(self, sandbox: LocalSandbox) -> None:
        self._sandbox = sandbox
        self.made: list[float] = []
        self.cleared_at: list[float] = []

    @property
    def isolation(self) -> Isolation:
        return self._sandbox.isolation

    async def open(self) -> None:
        await self._sandbox.open()

    async def start(
        self, order: CellOrder, make: Callable[[], Any], *, ahead: bool = True
    ) -> tuple[Cell, Any]:
        began = time.perf_counter()
        cell, listener = await self._sandbox.start(order, make, ahead=ahead)
        self.made.append(time.perf_counter() - began)
        clear = cell.clear

        async def timed() -> None:
            await clear()
            self.cleared_at.append(time.perf_counter())

        cell.clear = timed  # type: ignore[method-assign]
        return cell, listener

    async def close(self) -> None:
        await self._sandbox.close()


class _Clock(WatchedRun):
    """Notes when the work began."""

    def started(self) -> None:
        super().started()
        self.began = time.perf_counter()


async def measure_starts(folder: Path, offer: Isolation, executions: int) -> Starts:
    with _accounted() as spent:
        async with pool_with(None) as pool:
            pooled, _ = await _cost(pool, executions, spent)
        async with sandbox_in(folder, offer) as sandbox:
            timed = _Timed(sandbox)
            async with pool_with(timed) as pool:
                confined, turns = await _cost(pool, executions, spent)
        async with (
            sandbox_in(folder / "ahead", offer, spares=SPARES) as sandbox,
            pool_with(sandbox) as pool,
        ):
            ahead, _ = await _cost(pool, executions, spent, pause_s=PAUSE_S)
    made, begun = _median(timed.made[-executions:]), _median([each.begun_s for each in turns])
    cleared = zip(timed.cleared_at[-executions:], turns, strict=True)
    stages = Stages(
        made_ms=made,
        ready_ms=begun - made,
        work_ms=confined.p50_ms - begun,
        cleared_ms=_median([at - turn.ended_at for at, turn in cleared]),
    )
    return Starts(
        executions=executions, pooled=pooled, confined=confined, ahead=ahead, stages=stages
    )


class _Turn(NamedTuple):
    begun_s: float
    """After the order."""
    ended_at: float


async def _cost(
    pool: ProcessPool, executions: int, spent: Callable[[], float | None], pause_s: float = 0
) -> tuple[Cost, list[_Turn]]:
    """What an execution costs, and how each went."""
    took: list[float] = []
    before: float | None = None
    turns: list[_Turn] = []
    for number in range(WARM_UP + executions):
        if number == WARM_UP:
            before = spent()
        watch = _Clock()
        began = time.perf_counter()
        attempt = await pool.run(make_assignment("python", NOTHING), watch)
        if attempt.error is not None:
            raise SystemExit(f"an execution failed: {attempt.error.message}")
        if number >= WARM_UP:
            ended_at = time.perf_counter()
            took.append(ended_at - began)
            turns.append(_Turn(watch.began - began, ended_at))
        if pause_s:
            await asyncio.sleep(pause_s)
    after = spent()
    used = None if before is None or after is None else (after - before) / executions * 1e3
    p95 = statistics.quantiles(took, n=20)[18] * 1e3
    return Cost(p50_ms=_median(took), p95_ms=p95, cpu_ms=used), turns


@contextlib.contextmanager
def _accounted() -> Iterator[Callable[[], float | None]]:
    """Counts the CPU seconds of this process and of all that it starts from now on, cells too,
    whose end nobody waits for; needs root and control groups of version 1, else nothing is told."""
    group = ACCOUNTS / f"bench-{os.getpid()}"
    try:
        group.mkdir()
        (group / "cgroup.procs").write_text(str(os.getpid()))
    except OSError:
        yield lambda: None
        return
    try:
        yield lambda: int((group / "cpuacct.usage").read_text()) / 1e9
    finally:
        (ACCOUNTS / "cgroup.procs").write_text(str(os.getpid()))
        with contextlib.suppress(OSError):
            group.rmdir()


def _median(seconds: list[float]) -> float:
    return statistics.median(seconds) * 1e3
