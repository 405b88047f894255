"""The folder of a node's sandbox: scratch folders, and the key that marks what the node made.

One worker at a time holds the folder. Its holder removes what carries the key, except what another
living process made: then the folder was copied. It removes what carries another key only when the
process that made it is certainly dead.
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


class SandboxFolder:
    """The locked folder of one sandbox; the lock holds from construction until `close`."""

    def __init__(self, folder: Path) -> None:
        """Raises `ConfigError` when another worker holds the folder."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path = folder
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
        self.key = self._read_or_make_key()
        self._shared_temporary = _shared_temporary()

    def scratch(self, id: str) -> Path:
        """Make the scratch folder of a cell that has no mounts of its own."""
        made = self.cells / id
        made.mkdir(mode=0o700)
        return made

    def scratch_for(self, uid: int, id: str) -> Path:
        """Make the scratch folder of a cell that is another user and cannot enter this folder.

        The folder of that user lies in a folder of the agent, so that the user cannot replace it.
        """
        outer = self._shared_temporary / ownership.name_of(self.key, id)
        outer.mkdir(mode=0o700)
        inner = outer / "scratch"
        inner.mkdir(mode=0o700)
        os.chown(inner, uid, uid)
        outer.chmod(0o711)
        return inner

    def discard(self, scratch: Path) -> None:
        """Remove a scratch folder with everything in it."""
        made = scratch if scratch.parent == self.cells else scratch.parent
        if not remove(made):
            log.warning("the folder of a cell cannot be removed", folder=str(made))

    def sweep(self) -> int:
        """Remove the scratch folders that an earlier run of this worker or a dead worker left, and
        return their number."""
        left = [*self.cells.iterdir(), *self._left_in_temporary()]
        for each in left:
            if not remove(each):
                log.warning("the folder of a cell cannot be removed", folder=str(each))
        return len(left)

    def close(self) -> None:
        """Release the lock; may be called twice."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _left_in_temporary(self) -> Iterator[Path]:
        """Yield folders of this user only: other users can create folders with such names too."""
        for each in self._shared_temporary.iterdir():
            if ownership.is_ours(each.name) and ownership.was_left(each.name, self.key):
                with contextlib.suppress(OSError):
                    if each.lstat().st_uid == os.geteuid():
                        yield each

    def _read_or_make_key(self) -> str:
        file = self.path / KEY_NAME
        with contextlib.suppress(OSError):
            if key := file.read_text().strip():
                return key
        key = secrets.token_hex(6)
        file.write_text(key)
        return key


def _shared_temporary() -> Path:
    """Return a folder for temporary files that every user can enter."""
    usual = Path(tempfile.gettempdir()).resolve()
    if all(each.stat().st_mode & stat.S_IXOTH for each in (usual, *usual.parents)):
        return usual
    return Path("/tmp")  # noqa: S108 (the names made there cannot be guessed)
