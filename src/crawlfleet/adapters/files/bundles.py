"""The archives of bundles in a folder of the master; with several masters, one that they share."""

import asyncio
import contextlib
import hashlib
import os
import re
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar

from crawlfleet.errors import OutputUnavailable

T = TypeVar("T")
ENDING: Final = ".bundle"
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


class BundleFolder:
    """Implements `crawlfleet.ports.files.BundleStore`: a file for each archive."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def put(self, digest: str, archive: bytes) -> None:
        path = self._of(digest)

        def write() -> None:
            with contextlib.suppress(FileNotFoundError):
                if _is(path.read_bytes(), digest):
                    os.utime(path)
                    return
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            draft = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
            try:
                with draft.open("wb") as file:
                    file.write(archive)
                    file.flush()
                    os.fsync(file.fileno())
                draft.replace(path)
            finally:
                draft.unlink(missing_ok=True)
            _sync(self._folder)

        await self._trying(write)

    async def get(self, digest: str) -> bytes | None:
        path = self._of(digest)

        def read() -> bytes | None:
            with contextlib.suppress(FileNotFoundError):
                archive = path.read_bytes()
                return archive if _is(archive, digest) else None
            return None

        return await self._trying(read)

    async def older_than(self, seconds: float) -> Sequence[str]:
        def find() -> list[str]:
            # By the clock that the files were dated by, as near as one gets to it.
            before = time.time() - seconds
            found = []
            with contextlib.suppress(FileNotFoundError):
                for path in self._folder.iterdir():
                    if not (path.suffix == ENDING and _DIGEST.fullmatch(path.stem)):
                        continue
                    with contextlib.suppress(FileNotFoundError):
                        if path.stat().st_mtime < before:
                            found.append(path.stem)
            return sorted(found)

        return await self._trying(find)

    async def remove(self, digest: str) -> None:
        path = self._of(digest)
        await self._trying(lambda: path.unlink(missing_ok=True))

    def _of(self, digest: str) -> Path:
        if not _DIGEST.fullmatch(digest):
            raise ValueError(f"{digest!r} is no digest")
        return self._folder / f"{digest}{ENDING}"

    async def _trying(self, work: Callable[[], T]) -> T:
        try:
            return await asyncio.to_thread(work)
        except OSError as error:
            raise OutputUnavailable(
                f"{self._folder} cannot be used: {error.strerror or error}; make room, or mend it"
            ) from error


def _is(archive: bytes, digest: str) -> bool:
    return hashlib.sha256(archive).hexdigest() == digest


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
