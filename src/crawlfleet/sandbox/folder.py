"""The folder of a node's sandbox: scratch folders, and the key that marks what belongs to it.

One worker holds it at a time. Whoever holds it may remove what carries its key, unless a process
made it that lives: then the folder was copied. What another made is removed only when that one is
dead.
"""

import contextlib
import fcntl
import os
import secrets
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from crawlfleet.errors import ConfigError
from crawlfleet.sandbox import ownership
from crawlfleet.sandbox.removal import remove
from crawlfleet.telemetry import Component, logger

KEY_NAME: Final = "key"
LOCK_NAME: Final = "lock"
log = logger(Component.WORKER)


class Premises:
    """Held from when it is made until it is closed."""

    def __init__(self, folder: Path) -> None:
        """Raises `ConfigError` when another worker holds it."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder = folder
        self._lock = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise ConfigError(
                f"{folder} is in use by another worker; give each worker a data folder "
                "or an identity of its own"
            ) from None
        self.base = folder / "root"
        self.cells = folder / "cells"
        for each in (self.base, self.cells):
            each.mkdir(mode=0o700, exist_ok=True)
        self.key = self._find_key()
        self._abroad = _open_to_all()

    def scratch(self, id: str) -> Path:
        """A new folder for a cell that has no mounts of its own."""
        made = self.cells / id
        made.mkdir(mode=0o700)
        return made

    def scratch_for(self, uid: int, id: str) -> Path:
        """The same for another user, who may not come near here: a folder of theirs in one of
        ours, so that they cannot put another in its place."""
        outer = self._abroad / ownership.name_of(self.key, id)
        outer.mkdir(mode=0o700)
        inner = outer / "scratch"
        inner.mkdir(mode=0o700)
        os.chown(inner, uid, uid)
        outer.chmod(0o711)
        return inner

    def discard(self, scratch: Path) -> None:
        """Remove a scratch folder with all that is in it."""
        mine = scratch if scratch.parent == self.cells else scratch.parent
        if not remove(mine):
            log.warning("the folder of a cell cannot be removed", folder=str(mine))

    def sweep(self) -> int:
        """Remove scratch folders that an earlier life left, or another worker that is dead for
        certain; how many."""
        left = [*self.cells.iterdir(), *self._left_abroad()]
        for each in left:
            if not remove(each):
                log.warning("the folder of a cell cannot be removed", folder=str(each))
        return len(left)

    def close(self) -> None:
        """Let go of it; may be called twice."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _left_abroad(self) -> Iterator[Path]:
        """Made by this user: others may call theirs so, too."""
        for each in self._abroad.iterdir():
            if ownership.is_ours(each.name) and ownership.was_left(each.name, self.key):
                with contextlib.suppress(OSError):
                    if each.lstat().st_uid == os.geteuid():
                        yield each

    def _find_key(self) -> str:
        file = self.folder / KEY_NAME
        with contextlib.suppress(OSError):
            if key := file.read_text().strip():
                return key
        key = secrets.token_hex(6)
        file.write_text(key)
        return key


def _open_to_all() -> Path:
    """A folder for temporary files that every user can come to."""
    usual = Path(tempfile.gettempdir()).resolve()
    if all(each.stat().st_mode & stat.S_IXOTH for each in (usual, *usual.parents)):
        return usual
    return Path("/tmp")  # noqa: S108 (what is made there has a name that nobody knows before)
