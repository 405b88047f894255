"""What a failure of SQLite means to the person who runs the store."""

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
    "SQLITE_IOERR": "its disk does not read or write; look into the system's log",
    "SQLITE_CORRUPT": "the file is damaged; stop, keep a copy, and restore a backup",
    "SQLITE_NOTADB": "the file is not a SQLite store; name another one, or move it away",
}
UNKNOWN: Final = "try again, and look into the system's log if it stays so"


def explain(error: sqlite3.Error, path: Path) -> StoreUnavailable:
    """The error to raise for `error`: what happened, to which file, and what to do."""
    name = getattr(error, "sqlite_errorname", "") or type(error).__name__
    remedy = next((text for known, text in REMEDIES.items() if name.startswith(known)), UNKNOWN)
    unavailable = StoreUnavailable(f"the store {path} failed: {remedy} ({name}: {error})")
    unavailable.__cause__ = error
    return unavailable
