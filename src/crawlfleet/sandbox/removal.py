"""Removes folders that foreign code has filled, whatever it did to keep them.

Such code can leave folders that may not be entered, links in folders that may not be changed, and
thousands of folders in each other. So nothing is reached by a path: every folder is opened where
it is, links are never followed, and what lies deep is pulled up before it is removed.
"""

import contextlib
import os
import secrets
from pathlib import Path
from typing import Final

_LOOK: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove(folder: Path) -> bool:
    """Remove a folder, or whatever is in its place; whether nothing is left."""
    with contextlib.suppress(OSError):
        _remove(folder)
    try:
        folder.lstat()
    except OSError as error:
        return isinstance(error, FileNotFoundError)
    return False


def open_up(name: str | Path, within: int | None = None) -> int:
    """A folder to read, whatever its mode was; it is its owner's from now on. Raises `OSError`
    when it is none, or somebody else's."""
    seen = os.open(name, _LOOK, dir_fd=within)
    try:
        # By its descriptor: in the place of the name there may be a link by now.
        os.chmod(f"/proc/self/fd/{seen}", 0o700)  # noqa: PTH101 (no path)
        return os.open(".", _READ, dir_fd=seen)
    finally:
        os.close(seen)


def _remove(folder: Path) -> None:
    if folder.is_symlink() or not folder.is_dir():
        folder.unlink()
        return
    top = open_up(folder)
    try:
        while names := _names_in(top):
            removed = [_remove_within(top, name) for name in names]
            if not any(removed):
                return  # somebody else's, or busy
    finally:
        os.close(top)
    folder.rmdir()


def _remove_within(top: int, name: str) -> bool:
    """One thing of the top; the folders in it come to the top, and have their turn there."""
    with contextlib.suppress(IsADirectoryError, PermissionError):
        os.unlink(name, dir_fd=top)
        return True
    try:
        within = open_up(name, top)
    except OSError:
        return False
    try:
        for each in _names_in(within):
            _take_out(within, each, top)
    finally:
        os.close(within)
    with contextlib.suppress(OSError):
        os.rmdir(name, dir_fd=top)
        return True
    return False


def _names_in(folder: int) -> list[str]:
    with os.scandir(folder) as entries:
        return [each.name for each in entries]


def _take_out(within: int, name: str, top: int) -> None:
    with contextlib.suppress(OSError):
        os.close(open_up(name, within))  # a folder only moves if it may be changed
        os.rename(name, secrets.token_hex(12), src_dir_fd=within, dst_dir_fd=top)
        return
    with contextlib.suppress(OSError):
        os.unlink(name, dir_fd=within)
