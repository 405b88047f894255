"""Whom the cells of a worker that is root become: each somebody else.

The kernel counts many things by user (watches of files, pages of pipes, files on their way between
processes), and lets processes of one user stop and read each other where nothing else forbids it.
So two cells that run at once have no user in common.
"""

from collections import deque
from typing import Final

COMMON: Final = 60_877
"""Whose the folders are that several cells write to; and nothing else."""
_OWN: Final = range(60_878, 61_184)
"""Nobody has these numbers, and nothing belongs to them: Debian and systemd give out others."""


class Users:
    """Those that are free."""

    def __init__(self, key: str) -> None:
        """By the `key` of a node: those of one machine begin at different ones."""
        begin = sum(key.encode()) * 31 % len(_OWN)
        self._free = deque([*_OWN[begin:], *_OWN[:begin]])

    def take(self) -> int:
        """One that no cell is; the common one when there are more cells than that."""
        return self._free.popleft() if self._free else COMMON

    def give_back(self, uid: int) -> None:
        """Nothing runs as that user any more. It is the first to be used again."""
        if uid != COMMON:
            self._free.appendleft(uid)
