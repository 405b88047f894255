"""The ways in which a session of a node can end."""

from enum import StrEnum


class SessionEnd(StrEnum):
    LOST = "lost"
    DRAINED = "drained"
    STOPPED = "stopped"
