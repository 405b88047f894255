"""Failures of SQLite: their meaning for the person who runs the store."""

import os
import sqlite3
from pathlib import Path
from typing import Final

from crawlfleet.errors import StoreUnavailable

REMEDIES: Final = {
    "SQLITE_FULL": "its disk is full; free some space, it goes on by itself",
    "SQLITE_BUSY": "another program has locked it; close that program",
    "SQLITE_LOCKED": "another program has locked it; close that program",
    "SQLITE_READONLY": "it may not be written; check the permissions of the file and its folder",
    "SQLITE_PERM": "it may not be opened; check the permissions of the file and its folder",
    "SQLITE_CANTOPEN": "it cannot be opened; check that its folder exists and may be written",
    "SQLITE_IOERR": "its disk does not read or write, or a quota or a limit of the size of files "
    "is used up; look into the system's log",
    "SQLITE_CORRUPT": "the file is damaged; stop, keep a copy, and restore a backup",
    "SQLITE_NOTADB": "the file is not a SQLite store; name another one, or move it away",
}
READ_ONLY: Final = (
    "its file system is read-only; make it writable again (`mount -o remount,rw`), it goes on by "
    "itself"
)
UNKNOWN: Final = "try again, and look into the system's log if it stays so"
DAMAGE: Final = ("SQLITE_CORRUPT", "SQLITE_NOTADB")


def explain(error: sqlite3.Error, path: Path) -> StoreUnavailable:
    """The error to raise for `error`: what happened, to which file, and what to do."""
    name = _name(error)
    remedy = next((text for known, text in REMEDIES.items() if name.startswith(known)), UNKNOWN)
    if is_on_read_only(path) and not is_damage(error):
        # The library says of it only that writing failed.
        remedy = READ_ONLY
    unavailable = StoreUnavailable(f"the store {path} failed: {remedy} ({name}: {error})")
    unavailable.__cause__ = error
    return unavailable


def is_damage(error: sqlite3.Error) -> bool:
    """Return whether the error says that the file is damaged."""
    return _name(error).startswith(DAMAGE)


def is_on_read_only(path: Path) -> bool:
    """Return whether the file is on a file system that is mounted read-only."""
    for each in (path, path.parent):
        try:
            return bool(os.statvfs(each).f_flag & os.ST_RDONLY)
        except OSError:
            continue
    return False


def _name(error: sqlite3.Error) -> str:
    return getattr(error, "sqlite_errorname", "") or type(error).__name__
