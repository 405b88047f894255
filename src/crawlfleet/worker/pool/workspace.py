"""The workspace of an execution of handed-over code: its environment, its folder, its variables.

The folder is removed when the execution ends. Folders of a killed agent are removed at the next
start of any agent on the machine.
"""

import asyncio
import contextlib
import fcntl
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from crawlfleet.errors import ConfigError
from crawlfleet.model.bundle import BundleKind
from crawlfleet.model.log import LogLevel
from crawlfleet.model.settings import WorkerSettings
from crawlfleet.model.wire.node_protocol import Assignment
from crawlfleet.model.wire.services import CODE
from crawlfleet.ports.execution import Observer
from crawlfleet.ports.installer import Install
from crawlfleet.ports.sandbox import Sandbox
from crawlfleet.telemetry import Component, logger
from crawlfleet.worker.code.bytecode import Bytecode
from crawlfleet.worker.code.environments import Environment, Environments, NoCode

log = logger(Component.WORKER)
RUNNER: Final = Path(__file__).parents[1] / "runner"
"""Package that runs handed-over code and speaks the executor protocol for it, on the Python of the
code's environment."""
LOCK: Final = ".lock"
YOUNG_S: Final = 60.0
"""Seconds for which an unlocked folder is kept: one that was just made may not be locked yet."""
TYPES: Final = ("command", "scrapy_spider")
"""The task types that run here, beside `python` with a bundle."""
UNCONFINED: Final = (
    "code that people hand over would have all rights of the worker's user; set "
    "`worker.sandbox.level` to `auto`, or `worker.bundles_unconfined = true` if it may"
)
Remove = Callable[[Path], bool]
"""Removes a folder, against any obstacles that foreign code has put up. Returns whether it is gone.
Raises nothing."""
KEPT_VARIABLES: Final = ("LANG", "LC_ALL", "LC_CTYPE", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR")


class Workspace(msgspec.Struct, frozen=True, kw_only=True):
    """The command, folders and variables for the process of one execution."""

    command: tuple[str, ...]
    scratch: Path
    """Working directory of the process, which it may write to."""
    variables: dict[str, str]
    """Environment variables for a process without a cell; a cell sets these itself."""
    of_code: dict[str, str]
    """Environment variables of the code itself."""
    readable: tuple[Path, ...]
    """Further paths that the process must be able to read, in addition to the system's own
    files."""


class Workspaces:
    """Prepares workspaces, and removes them."""

    def __init__(self, folder: Path, *, environments: Environments, remove: Remove) -> None:
        self._folder = folder
        self._environments = environments
        self._remove = remove

    @property
    def environments(self) -> Environments:
        """The environments on this node."""
        return self._environments

    async def open(self) -> None:
        """Remove the folders of dead agents."""
        await self._environments.tidy()
        await asyncio.to_thread(self._sweep)

    @contextlib.asynccontextmanager
    async def bench(self, assignment: Assignment, observer: Observer) -> AsyncIterator[Workspace]:
        """Yield a workspace for the block. Raises `CannotMake`."""

        def tell(line: str) -> None:
            observer.log(line, LogLevel.INFO, {})

        async def fetch() -> bytes:
            response = await observer.request(CODE)
            if response.refusal:
                raise NoCode(response.refusal)
            return response.data

        async with contextlib.AsyncExitStack() as stack:
            environment = None
            if assignment.bundle is not None:
                borrowed = self._environments.borrowed(assignment.bundle, fetch, tell)
                environment = await stack.enter_async_context(borrowed)
            scratch = stack.enter_context(self._scratch(assignment.execution_id))
            stack.push_async_callback(asyncio.to_thread, self._clear, scratch)
            await asyncio.to_thread(_furnish, scratch)
            yield _bench(scratch, environment)

    @contextlib.contextmanager
    def _scratch(self, execution_id: str) -> Iterator[Path]:
        """Yield a folder that is locked as in use for the block."""
        scratch = self._folder / execution_id
        scratch.mkdir(parents=True, mode=0o700)
        lock = os.open(scratch / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield scratch
        finally:
            os.close(lock)

    def _sweep(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            for scratch in [*self._folder.iterdir()]:
                if not _is_used(scratch):
                    self._clear(scratch)

    def _clear(self, scratch: Path) -> None:
        """Remove the folder. If that fails, the next start tries again; the outcome of the
        execution stays as it is."""
        if not self._remove(scratch):
            log.warning("scratch folder not cleared away", folder=str(scratch))


def workshop_of(
    settings: WorkerSettings,
    folder: Path,
    *,
    install: Install,
    remove: Remove,
    sandbox: Sandbox | None = None,
) -> Workspaces | None:
    """The workshop of a node with these settings; `None` where it runs no code of others. Raises
    `ConfigError` where nothing would hold it."""
    if not settings.bundles:
        return None
    if settings.sandbox.level == "off" and not settings.bundles_unconfined:
        raise ConfigError(f"worker.bundles with worker.sandbox.level = 'off': {UNCONFINED}")
    environments = Environments(
        folder / "environments",
        install=install,
        most_bytes=int(settings.environments_mb * 1e6),
        compile=None if sandbox is None else Bytecode(sandbox),
    )
    return Workspaces(folder / "scratch", environments=environments, remove=remove)


def _bench(scratch: Path, environment: Environment | None) -> Workspace:
    programs = [] if environment is None else [environment.programs]
    python = environment.programs / "python" if environment else Path(sys.executable)
    kept = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
    places = [*map(str, programs), "/usr/local/bin", "/usr/bin", "/bin"]
    return Workspace(
        command=(
            *(str(python), "-I", str(RUNNER)),
            *([] if environment is None else [str(environment.code)]),
        ),
        scratch=scratch,
        variables={
            "LANG": "C.UTF-8",
            **kept,
            "PATH": os.pathsep.join(places),
            "HOME": str(scratch / "home"),
            "TMPDIR": str(scratch / "tmp"),
        },
        of_code={} if environment is None else _of_code(environment),
        readable=(RUNNER, *([] if environment is None else [environment.folder])),
    )


def _of_code(environment: Environment) -> dict[str, str]:
    variables = {"VIRTUAL_ENV": str(environment.programs.parent)}
    if environment.contents.kind is BundleKind.WHEEL and environment.contents.settings_module:
        variables["SCRAPY_SETTINGS_MODULE"] = environment.contents.settings_module
    return variables


def _furnish(scratch: Path) -> None:
    for name in ("home", "tmp"):
        (scratch / name).mkdir(mode=0o700)


def _is_used(scratch: Path) -> bool:
    try:
        if time.time() - scratch.stat().st_mtime < YOUNG_S:
            return True
        lock = os.open(scratch / LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False
