"""Files that belong to one owner, or to one process: secrets, and locks."""

import fcntl
import os
from pathlib import Path
from typing import BinaryIO

from crawlfleet.errors import ConfigError


class InUse(ConfigError):
    """Another process has the file."""


def keep_private() -> None:
    """Make files that this process writes from now on readable by their owner only."""
    os.umask(0o077)


def private_folder(folder: Path) -> Path:
    """Return the folder, made if missing. Files that this process writes from now on are readable
    by their owner only."""
    keep_private()
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def write_private(path: Path, content: bytes) -> None:
    """Replace the file durably; a reader sees the old content or the new, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(descriptor)
    draft.replace(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)  # the name is durable once its folder is
    finally:
        os.close(folder)


def hold(path: Path, *, busy: str) -> BinaryIO:
    """Take a file for this process until it is closed, or the process ends, however it does.

    Raises `InUse` with the message `busy` when another process has it.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock = path.open("ab")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        lock.close()
        raise InUse(busy) from error
    return lock
