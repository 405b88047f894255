"""The folder of an output, opened once: files in it are reached by its descriptor, and by no link.

All sinks that write files open them here. A file that is a link is refused, whoever names it. Of
a task's file no folder on the way may be a link either, up to the one that the node has for sinks.
All here blocks.
"""

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from crawlfleet.errors import SinkUnusable

MODE: Final = 0o666
"""Mode of new files, before the umask of the process."""
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class SinkFolder:
    """An open folder; its files are reached by its descriptor."""

    def __init__(self, path: Path, *, below: Path | None = None) -> None:
        """Open it; raises `SinkUnusable` when it is not there, or a link leads to it from `below`.
        Without `below` the path is a person's own, whose folders may be links."""
        self._path = path
        self._descriptor = os.open(path, _FOLDER) if below is None else _walked(below, path)

    def __enter__(self) -> "SinkFolder":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def open(self, name: str, flags: int) -> int:
        """A descriptor of a file in it, which is made if `flags` say so; raises `SinkUnusable`
        for a link."""
        try:
            return os.open(
                name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, MODE, dir_fd=self._descriptor
            )
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise is_link(self._path / name) from error
            raise

    def found(self, name: str) -> os.stat_result | None:
        """Return the status of the file with this name; `None` when there is none. Raises
        `SinkUnusable` for anything but a file, such as a link.
        """
        try:
            found = os.stat(name, dir_fd=self._descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return None
        if stat.S_ISLNK(found.st_mode):
            raise is_link(self._path / name)
        if not stat.S_ISREG(found.st_mode):
            raise SinkUnusable(f"{self._path / name} is not a file; name one")
        return found

    def names(self) -> Iterator[str]:
        """Yield the names of all entries."""
        with os.scandir(self._descriptor) as entries:
            yield from (entry.name for entry in entries)

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        try:
            os.unlink(name, dir_fd=self._descriptor)
        except FileNotFoundError:
            return

    def truncate(self, name: str, length: int) -> None:
        """Cut a file to a length."""
        descriptor = self.open(name, os.O_WRONLY)
        try:
            os.ftruncate(descriptor, length)
        finally:
            os.close(descriptor)

    def sync(self) -> None:
        """Make the names in it durable."""
        os.fsync(self._descriptor)

    def close(self) -> None:
        """Close the folder. May be called twice."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def is_link(path: Path) -> SinkUnusable:
    """Return the error for a file or folder that is a link."""
    return SinkUnusable(f"{path} is a link, and output follows none; name the file itself")


def _walked(below: Path, path: Path) -> int:
    """The descriptor of a folder that lies below another, reached folder by folder."""
    if not below.is_dir():
        raise SinkUnusable(
            f"{below}, the folder of this node for sinks of tasks, is not there; make it, or set "
            "`worker.sinks_dir` (and `worker.sandbox.writable`, where the work is done in a cell)"
        )
    here, walked = os.open(below, _FOLDER), below
    for part in path.relative_to(below).parts:
        walked /= part
        try:
            if part == os.pardir:
                raise SinkUnusable(f"{path} leads out of {below}")
            following = os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=here)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR) and _leads_on(part, here):
                raise is_link(walked) from error
            raise
        finally:
            os.close(here)
        here = following
    return here


def _leads_on(name: str, folder: int) -> bool:
    return stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
