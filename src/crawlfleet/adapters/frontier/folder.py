"""Frontiers in a folder of the master; with several masters, one that they share."""

import asyncio
import contextlib
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from crawlfleet.adapters.frontier.redis.checkpoint import CheckpointFile
from crawlfleet.adapters.frontier.sqlite import SqliteFrontier
from crawlfleet.errors import StoreUnavailable
from crawlfleet.model import ids
from crawlfleet.model.crawl.frontier import FrontierRules
from crawlfleet.private_file import InUse, hold

T = TypeVar("T")
FILE: Final = "frontier.db"
CHECKPOINT: Final = "checkpoint.db"
_TASK: Final = re.compile(rf"{ids.TASK}-[{ids.ALPHABET}]{{{ids.BODY_LENGTH}}}")
_OURS: Final = re.compile(r"(frontier|checkpoint)\.db(-wal|-shm|-journal|\.lock)?")


class FolderShelf:
    """Implements `crawlfleet.ports.frontier.host.FrontierFolders`: a folder for each crawl."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def frontier(self, task_id: str, rules: FrontierRules) -> "LockedFrontier":
        return LockedFrontier(path=self._of(task_id) / FILE, rules=rules)

    async def has(self, task_id: str) -> bool:
        return await self._look((self._of(task_id) / FILE).exists)

    def checkpoint(self, task_id: str) -> CheckpointFile:
        return CheckpointFile(self._of(task_id) / CHECKPOINT)

    async def has_checkpoint(self, task_id: str) -> bool:
        return await self._look((self._of(task_id) / CHECKPOINT).exists)

    async def tasks(self) -> Sequence[str]:
        def names() -> list[str]:
            with contextlib.suppress(FileNotFoundError):
                return [each.name for each in self._folder.iterdir() if _TASK.fullmatch(each.name)]
            return []

        return await self._look(names)

    async def remove(self, task_id: str) -> None:
        folder = self._of(task_id)

        def clear() -> None:
            """Remove only files of frontiers; fails while another master has them open."""
            if not folder.is_dir():
                return
            busy = f"{folder} is in use by another master"
            with (
                hold(folder / f"{FILE}.lock", busy=busy),
                hold(folder / f"{CHECKPOINT}.lock", busy=busy),
            ):
                for path in [*folder.iterdir()]:
                    if _OURS.fullmatch(path.name):
                        path.unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # somebody else's things are left
                folder.rmdir()

        try:
            await asyncio.to_thread(clear)
        except (OSError, InUse) as error:
            raise StoreUnavailable(f"{folder} cannot be removed: {error}") from error

    async def _look(self, look: Callable[[], T]) -> T:
        try:
            return await asyncio.to_thread(look)
        except OSError as error:
            raise StoreUnavailable(f"{self._folder} cannot be read: {error}") from error

    def _of(self, task_id: str) -> Path:
        if not _TASK.fullmatch(task_id):
            raise ValueError(f"{task_id!r} is not the id of a task")
        return self._folder / task_id


class LockedFrontier(SqliteFrontier):
    """A frontier that another master may have open: then this one can be opened later."""

    async def open(self) -> Mapping[str, Any]:
        try:
            return await super().open()
        except InUse as error:
            busy = StoreUnavailable("another master has the frontier of this crawl; ask that one")
            raise busy from error
