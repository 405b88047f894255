"""The user ids of cells, where the worker is root: each running cell is a different user.

The kernel counts many things by user (file watches, pipe pages, files in flight between
processes), and lets processes of one user stop and read each other where nothing else forbids it.
So two cells that run at the same time never share a user.
"""

from collections import deque
from typing import Final

SHARED_UID: Final = 60_877
"""The owner of folders that several cells write to; it owns nothing else."""
_UIDS: Final = range(60_878, 61_184)
"""Unassigned numbers that own nothing: Debian and systemd allocate from other ranges."""


class UserPool:
    """The free user ids of one node."""

    def __init__(self, key: str) -> None:
        """Start at a position that depends on the node's `key`, since nodes of one machine share
        the range."""
        begin = sum(key.encode()) * 31 % len(_UIDS)
        self._free = deque([*_UIDS[begin:], *_UIDS[:begin]])

    def take(self) -> int:
        """Return an id that no cell uses, or `SHARED_UID` when there are more cells than ids."""
        return self._free.popleft() if self._free else SHARED_UID

    def give_back(self, uid: int) -> None:
        """Free a user id that no process uses any more; it is the next one to be taken."""
        if uid != SHARED_UID:
            self._free.appendleft(uid)
