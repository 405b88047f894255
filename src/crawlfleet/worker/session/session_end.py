"""How a session of a node ends."""

from enum import StrEnum


class SessionEnd(StrEnum):
    LOST = "lost"
    DRAINED = "drained"
    STOPPED = "stopped"
