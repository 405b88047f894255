"""Watches the files of an open SQLite database from outside of the library.

SQLite keeps its files open and never looks at their names again: it goes on committing into a
removed file, and those commits are gone with the process. So the writer checks before and after
each transaction whether the database and its log are still the files at their paths, are as long as
they were, and begin as this process left them. That costs a few system calls for a whole group of
commits.

Only this process writes into the files. When the time of the last write shows another writer, the
whole file is read once. A file that was moved away and comes back is used again. This process does
not use a damaged one again: more may be lost than is known.
"""

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

from crawlfleet.errors import StoreUnavailable

LOG: Final = "-wal"
INDEX: Final = "-shm"
MAGIC: Final = b"SQLite format 3\0"
HEADER_BYTES: Final = 100
CHANGES: Final = slice(24, 28)
"""Slice of a database header with its count of transactions."""
LOG_MAGICS: Final = (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83")
LOG_HEADER_BYTES: Final = 32
INDEX_FRAMES: Final = slice(16, 20)
"""Slice of the log's index with the number of pages in the log."""
INDEX_MOVED: Final = slice(96, 100)
"""Slice of the log's index with the number of those pages that are in the database as well."""
MAX_READINGS: Final = 3
"""After so many readings of the whole file that found nothing, the time of its last write is no
longer taken for a sign: some file systems change it by themselves."""

Identity = tuple[int, int]
"""The device and the number of a file."""


class DatabaseFile:
    """One open database. `check` and `note` are called by the thread that writes, `look` by any.

    It holds the file open beside SQLite, which must be closed first: the end of any other use of
    the file in the same process would take SQLite's locks away.
    """

    def __init__(self, path: Path, *, name: str, gone: str, halved: str, damaged: str) -> None:
        """`name` is what messages call it. The others say what to do: when the database is `gone`,
        when only a file beside it is, and when one is `damaged`.

        The database must be open already, so that its log is there.
        """
        self._path = path
        self._paths = tuple(path.with_name(f"{path.name}{end}") for end in ("", LOG, INDEX))
        self._name = name
        self._remedies = (gone, halved, halved)
        self._damaged = damaged
        self.damage = ""
        """Why this process must not use the file any more; never taken back."""
        self.is_overwritten = False
        """Set if the damage is that another database was written over this one."""
        self._readings = 0
        self._is_written = False
        self._written_ns = 0
        self._moved = b""
        self._identities = [_identity(each.stat()) for each in self._paths]
        self._descriptors = [os.open(each, os.O_RDONLY | os.O_CLOEXEC) for each in self._paths]
        self.note()

    def note(self) -> None:
        """Remember the files as they are: what was written lately was written by this process.

        But SQLite writes into the database only when it moves something there from the log. If it
        has moved nothing, another program has written there meanwhile, and the next `check` finds
        what.
        """
        database, log = (os.fstat(each) for each in self._descriptors[:2])
        self._sizes = database.st_size, log.st_size
        self._headers = self._read_headers()
        moved = self._read_index()[INDEX_MOVED] + self._headers[1]
        if moved != self._moved:
            self._moved = moved
            self._written_ns = database.st_mtime_ns
        self._is_written = False

    def begin(self) -> None:
        """Allow writes by this process: until `note`, checks look at the names of the files only.

        Raises `StoreUnavailable` when a write would be lost.
        """
        self.check()
        self._is_written = True

    def check(self) -> None:
        """Raise `StoreUnavailable` when committed data is not in the files at these paths."""
        if self.damage:
            raise StoreUnavailable(self.damage)
        self.check_names()
        if not self._is_written and (why := self._find_damage()):
            self.condemn(why)
            raise StoreUnavailable(self.damage)

    def check_names(self) -> None:
        """Raise `StoreUnavailable` when the paths name other files, without reading these."""
        for path, identity, remedy in zip(
            self._paths, self._identities, self._remedies, strict=True
        ):
            if why := _why_not(path, identity):
                raise StoreUnavailable(f"{self._name} cannot be used: {why}. {remedy}")

    def look(self) -> None:
        """Check as `check` does, while another thread may write. It may overlook damage, which the
        next `check` finds.
        """
        if self.damage:
            raise StoreUnavailable(self.damage)
        self.check_names()
        known = self._sizes, self._headers, self._written_ns
        if self._is_written:
            return
        found = self._find_change()
        meanwhile = self._sizes, self._headers, self._written_ns
        if found and not self._is_written and known == meanwhile:
            self.condemn(found)
            raise StoreUnavailable(self.damage)

    def condemn(self, why: str) -> None:
        """The file is damaged, and is not used by this process any more."""
        if not self.damage:
            self.damage = f"{self._name} is damaged: {why}. {self._damaged}"

    @property
    def may_be_settled(self) -> bool:
        """Return whether SQLite may move its log into the database when it is closed, and remove
        the log: not when the database was damaged, nor when the log's name is another file's.
        """
        if self.damage:
            return False
        try:
            return _identity(self._paths[1].stat()) == self._identities[1]
        except OSError:
            return True

    def close(self) -> None:
        for each in self._descriptors:
            os.close(each)
        self._descriptors = []

    def _find_damage(self) -> str:
        if why := self._find_change():
            return why
        if os.fstat(self._descriptors[0]).st_mtime_ns == self._written_ns:
            return ""
        if self._readings < MAX_READINGS:
            self._readings += 1
            if why := read_whole(self._path):
                return f"another program wrote into it, and now {why}"
        self.note()
        self._written_ns = os.fstat(self._descriptors[0]).st_mtime_ns
        return ""

    def _find_change(self) -> str:
        """Return what another program did to the files, by its traces; "" if nothing."""
        headers = self._read_headers()
        (database, log), (known, known_log) = headers, self._headers
        if database != known:
            if not database.startswith(MAGIC):
                return "its beginning was overwritten"
            if database[CHANGES] < known[CHANGES]:
                self.is_overwritten = True
                return "an older database, such as a copy, was written over it"
        for path, descriptor, before in zip(
            self._paths, self._descriptors, self._sizes, strict=False
        ):
            if (size := os.fstat(descriptor).st_size) < before and not self._is_log_moved(size):
                return f"{path.name} was cut from {before} to {size} bytes"
        is_begun = log.startswith(LOG_MAGICS) or self._is_log_moved(len(log))
        if log != known_log and not is_begun:
            return f"the beginning of {self._paths[1].name} was overwritten"
        return ""

    def _is_log_moved(self, size: int) -> bool:
        """Return whether a log of that size is one that another program has moved into the
        database, and that SQLite knows as empty.
        """
        return size == 0 and self._read_index()[INDEX_FRAMES] == bytes(4)

    def _read_index(self) -> bytes:
        return os.pread(self._descriptors[2], INDEX_MOVED.stop, 0)

    def _read_headers(self) -> tuple[bytes, bytes]:
        database, log, _ = self._descriptors
        return os.pread(database, HEADER_BYTES, 0), os.pread(log, LOG_HEADER_BYTES, 0)


def read_whole(path: Path) -> str:
    """Read all of a database in a connection of its own; returns what is wrong with it, or ""."""
    try:
        uri = f"{path.absolute().as_uri()}?mode=ro"
        with closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as connection:
            ((found,),) = connection.execute("PRAGMA quick_check(1)").fetchall()
    except sqlite3.Error as error:
        return f"it cannot be read ({error})"
    return "" if found == "ok" else f"it is not sound ({found})"


def _identity(status: os.stat_result) -> Identity:
    return status.st_dev, status.st_ino


def _why_not(path: Path, identity: Identity) -> str:
    """Return why a file is not the one that was opened at this path; "" if it is."""
    try:
        found = _identity(path.stat())
    except FileNotFoundError:
        return f"{path.name} was removed or moved away while it was open"
    except OSError as error:
        return f"{path.name} cannot be looked at ({error.strerror})"
    return "" if found == identity else f"another file was put in the place of {path.name}"
