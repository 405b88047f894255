"""A pool whose work does nothing, in cells or not; and what is left of it."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import msgspec

from crawlfleet.model.isolation import Isolation
from crawlfleet.model.settings import SandboxSettings, WorkerSettings
from crawlfleet.ports.sandbox import Sandbox
from crawlfleet.sandbox.launcher import LocalSandbox
from crawlfleet.testing.executor_suite import WatchedRun, make_assignment
from crawlfleet.worker.pool.pool import ProcessPool
from tests.support.cells import Leavings, left_since, look_around, sandbox_in

SPARES: Final = SandboxSettings().spare_cells
PAUSE_S: Final = 0.1
NOTHING: Final = {"function": "textwrap:dedent", "args": [""]}
WARM_UP: Final = 3


class Residue(msgspec.Struct, frozen=True, kw_only=True):
    executions: int
    seconds: float
    left: dict[str, list[str]]
    """What was there afterwards and not before, by kind."""


@contextlib.asynccontextmanager
async def pool_with(sandbox: Sandbox | None) -> AsyncIterator[ProcessPool]:
    """A pool whose `python` tasks run in cells, if there is a sandbox."""
    confined = SandboxSettings() if sandbox is not None else SandboxSettings(level="off")
    settings = WorkerSettings(slots=2, python_allow=("textwrap:*",), sandbox=confined)
    pool = ProcessPool(settings, sandbox=sandbox)
    try:
        yield pool
    finally:
        await pool.close()


async def measure_residue(folder: Path, offer: Isolation, executions: int) -> Residue:
    """Executions that do nothing, two at a time; and what they leave while the node goes on."""
    async with sandbox_in(folder, offer, spares=SPARES) as sandbox, pool_with(sandbox) as pool:
        key = (folder / "key").read_text()

        async def run(number: int) -> None:
            for _ in range(number):
                attempt = await pool.run(make_assignment("python", NOTHING), WatchedRun())
                assert attempt.error is None, attempt.error

        await run(WARM_UP)
        before = await _at_rest(sandbox, folder, key)
        began = time.monotonic()
        await asyncio.gather(run(executions // 2), run(executions - executions // 2))
        seconds = time.monotonic() - began
        await sandbox.drop_prepared()
        left = await left_since(folder, key, before)
    return Residue(executions=executions, seconds=seconds, left=left)


async def _at_rest(sandbox: LocalSandbox, folder: Path, key: str) -> Leavings:
    """What there is when nothing waits for work, and all that was at work is cleared away."""
    await sandbox.drop_prepared()
    seen = look_around(folder, key)
    while True:
        await asyncio.sleep(PAUSE_S)
        now = look_around(folder, key)
        if now == seen:
            return now
        seen = now
