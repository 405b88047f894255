"""Makes the environments of bundles on this node: each once, for many executions, and removes them.

Each is a folder named after the digest of its archive, with the code and a virtual environment of
its own. It is made under another name and then renamed, so that a folder with its final name is
complete, however its maker died. A lock on a file beside it coordinates all agents of the machine
that make, use or remove it; the kernel releases the lock of an agent that is killed.
"""

import asyncio
import contextlib
import fcntl
import os
import shutil
import stat
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from crawlfleet.core.bundles import archives
from crawlfleet.core.bundles.archives import BadArchive, Contents
from crawlfleet.model.bundle import BundleRef
from crawlfleet.model.task import ErrorClass
from crawlfleet.ports.installer import Install, InstallFailed
from crawlfleet.telemetry import Component, logger
from crawlfleet.worker.code.bytecode import OUTPUT

log = logger(Component.WORKER)
LOOK_EVERY_S: Final = 0.1
REMEMBERED_S: Final = 60.0
"""Seconds for which a failed environment is not tried again: many tasks may want it at once."""
MADE: Final = "made.json"
_BUILDING: Final = "building"
_GONE: Final = "gone"

Fetch = Callable[[], Awaitable[bytes]]
"""Fetches the archive of a bundle."""
Tell = Callable[[str], None]
"""Adds a line to the log of the execution that waits."""
Compile = Callable[[Path], Awaitable[bool]]
"""Compiles the bytecode of an environment, if possible. Raises only `OSError`."""


class NoCode(Exception):
    """The archive of a bundle is not available; the message has the reason."""


class CannotMake(Exception):
    """An environment cannot be made; `error_class` says whether a retry can help."""

    def __init__(self, message: str, error_class: ErrorClass, details: str = "") -> None:
        super().__init__(message)
        self.error_class = error_class
        self.details = details


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """A bundle's code with its packages, for reading only."""

    folder: Path
    contents: Contents

    @property
    def code(self) -> Path:
        return self.folder / "code" / self.contents.root

    @property
    def programs(self) -> Path:
        """The folder with `python` and the programs of the installed packages."""
        return self.folder / "venv" / "bin"


class _Made(msgspec.Struct, frozen=True, kw_only=True):
    """The record that is written beside a complete environment."""

    contents: Contents
    bytes: int
    name: str


class Environments:
    """The environments on one machine; several agents may share the folder."""

    def __init__(
        self, folder: Path, *, install: Install, most_bytes: int, compile: Compile | None = None
    ) -> None:
        self._folder = folder
        self._install = install
        self._compile = compile
        self._most_bytes = most_bytes
        self._turns: dict[str, asyncio.Lock] = {}
        self._failed: dict[str, tuple[float, CannotMake]] = {}

    @contextlib.asynccontextmanager
    async def borrowed(
        self, ref: BundleRef, fetch: Fetch, tell: Tell
    ) -> AsyncIterator[Environment]:
        """Yield the environment of a bundle's version for the block; make it if there is none.
        Raises `CannotMake`."""
        await self._compile_again(ref.digest)
        with self._lock_file(ref.digest) as lock:
            environment = await self._shared(lock, ref, fetch, tell)
            try:
                with contextlib.suppress(OSError):
                    os.utime(environment.folder / MADE)
                yield environment
            finally:
                fcntl.flock(lock, fcntl.LOCK_UN)

    def kept(self) -> list[str]:
        """Return the digests of the environments, the one used last first. Reads the disk."""
        found = list[tuple[float, str]]()
        for path in self._folder.glob(f"*/{MADE}"):
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):  # it goes just now
                found.append((path.stat().st_mtime, path.parent.name))
        return [digest for _, digest in sorted(found, reverse=True)]

    async def tidy(self) -> None:
        """Remove incomplete environments of dead agents, and the least recently used ones beyond
        the limit; never one that is in use."""
        await asyncio.to_thread(self._tidy)

    async def _shared(self, lock: int, ref: BundleRef, fetch: Fetch, tell: Tell) -> Environment:
        """Yield the environment while its lock is held together with its other users."""
        while True:
            await _locked(lock, fcntl.LOCK_SH)
            found = await asyncio.to_thread(self._found, ref.digest)
            if found is not None:
                return found
            # Let go before waiting: two that hold it and both want more would wait for ever.
            fcntl.flock(lock, fcntl.LOCK_UN)
            async with self._turns.setdefault(ref.digest, asyncio.Lock()):
                # One of ours at a time, so that the others wait in order; then one of all agents.
                await _locked(lock, fcntl.LOCK_EX)
                if await asyncio.to_thread(self._found, ref.digest) is None:
                    await self._make(ref, fetch, tell)
                fcntl.flock(lock, fcntl.LOCK_UN)

    async def _make(self, ref: BundleRef, fetch: Fetch, tell: Tell) -> None:
        failed_at, failure = self._failed.get(ref.digest, (float("-inf"), None))
        if failure is not None and time.monotonic() - failed_at < REMEMBERED_S:
            raise failure
        self._failed.pop(ref.digest, None)
        place = self._folder / f".{ref.digest}.{os.getpid()}-{time.monotonic_ns()}.{_BUILDING}"
        # Nobody else makes it now: what is there was left by one who died.
        await asyncio.to_thread(_remove, [*self._folder.glob(f".{ref.digest}.*.{_BUILDING}")])
        began = time.monotonic()
        tell(f"making the environment of {ref}")
        try:
            archive = await fetch()
            contents = await asyncio.to_thread(_unpack, archive, place)
            await self._install(contents.requirements, str(place / "venv"), tell)
            await asyncio.to_thread(self._finish, ref, contents, place)
            await self._add_bytecode(ref.digest)
        except NoCode as error:
            # Perhaps only for this execution, which may be over: another one asks anew.
            raise CannotMake(f"there is no code of {ref}: {error}", ErrorClass.INVALID) from None
        except BadArchive as error:
            raise self._cannot(ref, str(error), ErrorClass.INVALID) from None
        except InstallFailed as error:
            raise self._cannot(ref, str(error), error.error_class, error.details) from None
        except OSError as error:
            why = f"{self._folder}: {error.strerror or error}; make room, or mend it"
            raise self._cannot(ref, why, ErrorClass.ERROR) from None
        finally:
            await asyncio.to_thread(_clear, place)
        tell(f"the environment of {ref} was made in {time.monotonic() - began:.1f} s")
        await self.tidy()

    def _cannot(
        self, ref: BundleRef, why: str, error_class: ErrorClass, details: str = ""
    ) -> CannotMake:
        failure = CannotMake(
            f"the environment of {ref} cannot be made: {why}", error_class, details
        )
        log.warning("environment not made", bundle=str(ref), error=why)
        if error_class is ErrorClass.INVALID:
            self._failed[ref.digest] = time.monotonic(), failure
        return failure

    async def _add_bytecode(self, digest: str) -> None:
        """Compile a complete environment under its final name: bytecode contains the paths of its
        sources."""
        folder = self._folder / digest
        if self._compile is not None and await self._compile(folder):
            await asyncio.to_thread(_measure_again, folder)

    async def _compile_again(self, digest: str) -> None:
        """Clear the output of a compiler that died, and compile again, unless the environment is in
        use now."""
        left = self._folder / digest / OUTPUT
        if not left.is_dir():
            return
        with self._taken(digest) as is_taken, contextlib.suppress(OSError):
            if is_taken:
                await asyncio.to_thread(_clear, left)
                await self._add_bytecode(digest)

    def _finish(self, ref: BundleRef, contents: Contents, place: Path) -> None:
        made = _Made(contents=contents, bytes=_opened(place), name=str(ref))
        (place / MADE).write_bytes(msgspec.json.encode(made))
        place.rename(self._folder / ref.digest)

    def _found(self, digest: str) -> Environment | None:
        folder = self._folder / digest
        made = _read(folder)
        return None if made is None else Environment(folder=folder, contents=made.contents)

    def _tidy(self) -> None:
        for path in self._folder.glob(f".*.{_GONE}"):
            _clear(path)
        for path in self._folder.glob(f".*.{_BUILDING}"):
            with self._taken(path.name.split(".")[1]) as is_taken:
                if is_taken:
                    _clear(path)
        left = self._most_bytes
        for digest in self.kept():
            made = _read(self._folder / digest)
            left -= made.bytes if made else 0
            if left < 0:
                self._evict(digest)

    def _evict(self, digest: str) -> None:
        with self._taken(digest) as is_taken:
            if is_taken:
                gone = self._folder / f".{digest}.{_GONE}"
                with contextlib.suppress(OSError):
                    (self._folder / digest).rename(gone)
                    log.info("environment cleared away", digest=digest)
                _clear(gone)

    @contextlib.contextmanager
    def _taken(self, digest: str) -> Iterator[bool]:
        """Lock an environment for the block; yield False if another execution or node uses it."""
        with self._lock_file(digest) as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                yield False
            else:
                yield True

    @contextlib.contextmanager
    def _lock_file(self, digest: str) -> Iterator[int]:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Never removed: whoever waits for a lock must wait for the same file as all others.
        lock = os.open(
            self._folder / f".{digest}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
        )
        try:
            yield lock
        finally:
            os.close(lock)


async def _locked(lock: int, kind: int) -> None:
    """Wait for a lock on a file, without a thread that could not be stopped."""
    while True:
        try:
            fcntl.flock(lock, kind | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            await asyncio.sleep(LOOK_EVERY_S)


def _unpack(archive: bytes, place: Path) -> Contents:
    """Write the files of an archive that was checked before. Raises `BadArchive`."""
    contents = archives.look_into(archive)
    _clear(place)
    code = place / "code"
    code.mkdir(parents=True)
    for member in archives.members(archive):
        path = code / member.name
        path.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
            file.write(member.data)
            os.fchmod(file.fileno(), 0o755 if member.is_program else 0o644)
    return contents


def _remove(folders: Iterable[Path]) -> None:
    for folder in folders:
        _clear(folder)


def _clear(folder: Path) -> None:
    """Remove an unused folder. Files that cannot be removed take up space until the next tidying
    tries again."""
    shutil.rmtree(folder, ignore_errors=True)
    if os.path.lexists(folder):
        log.warning("environment not cleared away", folder=str(folder), remedy="remove it by hand")


def _read(folder: Path) -> _Made | None:
    try:
        return msgspec.json.decode((folder / MADE).read_bytes(), type=_Made)
    except (FileNotFoundError, NotADirectoryError, msgspec.DecodeError):
        return None


def _measure_again(folder: Path) -> None:
    """Measure an environment again, after files were added to it."""
    made = _read(folder)
    if made is not None:
        told = msgspec.structs.replace(made, bytes=_opened(folder))
        new = folder / f"{MADE}.new"
        new.write_bytes(msgspec.json.encode(told))
        new.rename(folder / MADE)


def _opened(folder: Path) -> int:
    """Make the folder readable for all users, whatever the umask, since the code may run as another
    one. Returns its size in bytes."""
    size = 0
    for path in (folder, *folder.rglob("*")):
        found = path.lstat()
        size += found.st_size
        if stat.S_ISLNK(found.st_mode):
            continue
        mode = stat.S_IMODE(found.st_mode)
        wanted = mode | 0o444 | (0o111 if mode & 0o100 else 0)
        if mode != wanted:
            path.chmod(wanted)
    return size
