"""Removes folders that hostile code has filled.

Such code can leave folders without permissions, links in folders that cannot be changed, and
thousands of nested folders. So the removal uses no paths: it opens each folder relative to its
parent, never follows links, and moves deep folders to the top before it removes them.
"""

import contextlib
import os
import secrets
from pathlib import Path
from typing import Final

_LOOK: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove(folder: Path) -> bool:
    """Remove a folder, or a file in its place, and return whether it is gone."""
    with contextlib.suppress(OSError):
        _remove(folder)
    try:
        folder.lstat()
    except OSError as error:
        return isinstance(error, FileNotFoundError)
    return False


def open_up(name: str | Path, within: int | None = None) -> int:
    """Open a folder for reading, after setting its mode to 0700. Raises `OSError` when it is no
    folder or belongs to another user."""
    seen = os.open(name, _LOOK, dir_fd=within)
    try:
        # By its descriptor: a link may have replaced the name meanwhile.
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
                return  # they belong to another user, or are busy
    finally:
        os.close(top)
    folder.rmdir()


def _remove_within(top: int, name: str) -> bool:
    """Remove one entry of the top folder; subfolders of it are moved to the top first."""
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
