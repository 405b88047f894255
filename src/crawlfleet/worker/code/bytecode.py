"""Compiles the bytecode of an environment once, in a cell, so that no execution has to compile it
again.

Foreign code never runs outside of a cell, and a compiler that reads foreign code is no exception.
It can write to a folder of its own alone; its files are then put beside the sources. Without
bytecode everything works, only slower.
"""

import asyncio
import contextlib
import os
import shutil
import stat
import sys
from collections.abc import Iterator
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
"""The compiler's program. It makes bytecode that is never checked against its source, since an
environment never changes."""
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC


class Bytecode:
    """Compiles environments in cells of a sandbox."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    async def __call__(self, environment: Path) -> bool:
        """Compile all sources of an environment, as far as possible. Returns false when the sandbox
        fails or it takes too long."""
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
        """Run the order in a cell and wait for its end, whether it succeeds or fails."""
        cell, ended = await self._sandbox.start(order, _End)
        try:
            await ended.seen.wait()
        finally:
            await cell.clear()


class _End(asyncio.SubprocessProtocol):
    """Observes only the end of a cell."""

    def __init__(self) -> None:
        self.seen = asyncio.Event()

    def process_exited(self) -> None:
        self.seen.set()


def _put_in_place(output: Path, sources: tuple[Path, ...]) -> None:
    """Put the compiler's files where Python looks for bytecode, as files of the node. Only plain
    files named after a source are taken, and no link of the cell is followed."""
    for folder in sources:
        for parent, _, names in os.walk(folder):
            with contextlib.suppress(OSError), _folder_within(output, Path(parent)) as made:
                for name in names:
                    place = Path(cache_from_source(str(Path(parent, name))))
                    with contextlib.suppress(OSError):
                        if name.endswith(".py") and not place.parent.is_symlink():
                            _adopt(name, made, place)


@contextlib.contextmanager
def _folder_within(output: Path, parent: Path) -> Iterator[int]:
    """The folder that a cell made for one of sources, opened part by part: whatever it put in the
    place of one, the way leads nowhere but into its output."""
    folder = os.open(output, _FOLDER)
    try:
        for part in parent.parts[1:]:
            outer, folder = folder, os.open(part, _FOLDER, dir_fd=folder)
            os.close(outer)
        yield folder
    finally:
        os.close(folder)


def _adopt(name: str, folder: int, place: Path) -> None:
    file = os.open(name, _FILE, dir_fd=folder)
    try:
        found = os.fstat(file)
        # One with a second name may be somebody else's, too.
        if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
            return
        place.parent.mkdir(exist_ok=True)
        os.fchown(file, os.geteuid(), os.getegid())
        os.fchmod(file, 0o644)
        os.rename(name, place, src_dir_fd=folder)
    finally:
        os.close(file)
