"""Bytecode of an environment, made once in a cell, so that no execution has to compile it again.

Nothing of a stranger runs outside of a cell, and a compiler that reads strangers' code is no
exception. It can write to a folder of its own alone, and what is found there afterwards is put
beside the sources. Without it everything works, only slower.
"""

import asyncio
import contextlib
import os
import shutil
import stat
import sys
from importlib.util import cache_from_source
from pathlib import Path
from typing import Final

from crawlfleet.errors import SandboxFailed
from crawlfleet.model.isolation import Limits
from crawlfleet.ports.sandbox import CellOrder, Sandbox
from crawlfleet.telemetry import Component, logger

log = logger(Component.WORKER)
OUTPUT: Final = "bytecode"
TIMEOUT_S: Final = 300.0
LIMITS: Final = Limits(memory_mb=1024, pids=16, disk_mb=1024)
PROGRAM: Final = """
import os, py_compile, sys
output, *folders = sys.argv[1:]
never = py_compile.PycInvalidationMode.UNCHECKED_HASH
for folder in folders:
    for parent, _, names in os.walk(folder):
        for name in names:
            if name.endswith(".py"):
                path = os.path.join(parent, name)
                try:
                    py_compile.compile(path, output + path, doraise=True, invalidation_mode=never)
                except Exception:
                    pass  # who imports it is told
"""
"""An environment never changes, so that nobody need look whether a source has."""


class Bytecode:
    """Compiles environments in cells of a sandbox."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    async def __call__(self, environment: Path) -> bool:
        """Compile all that is in it, as far as it can be; whether that was done."""
        output = environment / OUTPUT
        output.mkdir(mode=0o755)
        sources = (environment / "code", environment / "venv" / "lib")
        order = CellOrder(
            # Without `site`: a package may bring lines that run whenever its Python starts.
            command=(
                *(sys.executable, "-I", "-S", "-B", "-c", PROGRAM),
                *map(str, (output, *sources)),
            ),
            limits=LIMITS,
            readable=(str(environment),),
            writable=(str(output),),
        )
        try:
            async with asyncio.timeout(TIMEOUT_S):
                await self._run(order)
            await asyncio.to_thread(_put_in_place, output, sources)
        except (SandboxFailed, TimeoutError) as error:
            log.warning("environment not compiled", folder=str(environment), error=str(error))
            return False
        finally:
            await asyncio.to_thread(shutil.rmtree, output, ignore_errors=True)
        return True

    async def _run(self, order: CellOrder) -> None:
        """To its end, whatever that is."""
        cell, ended = await self._sandbox.start(order, _End)
        try:
            await ended.seen.wait()
        finally:
            await cell.clear()


class _End(asyncio.SubprocessProtocol):
    """Hears of the end alone."""

    def __init__(self) -> None:
        self.seen = asyncio.Event()

    def process_exited(self) -> None:
        self.seen.set()


def _put_in_place(output: Path, sources: tuple[Path, ...]) -> None:
    """Put plain files that have the name of a source where Python looks for its bytecode, as the
    node's own. What else a cell left is not looked at."""
    for folder in sources:
        for parent, _, names in os.walk(folder):
            for name in names:
                source = Path(parent, name)
                made = Path(f"{output}{source}")
                with contextlib.suppress(OSError):
                    if name.endswith(".py") and stat.S_ISREG(made.lstat().st_mode):
                        _adopt(made, Path(cache_from_source(str(source))))


def _adopt(made: Path, place: Path) -> None:
    place.parent.mkdir(exist_ok=True)
    os.lchown(made, os.geteuid(), os.getegid())
    made.chmod(0o644)
    made.rename(place)
