"""The history for people, on which nothing depends: logs of executions, and samples of nodes.

It takes no part in commits. Writing the same again does not duplicate it; callers check beforehand
who may write.
"""

from collections.abc import Sequence
from typing import Final, Protocol

from crawlfleet.model.log import LogLevel, LogLine, LogPart, LogSize
from crawlfleet.model.node_sample import NodeSample, Resolution

LINE_BYTES: Final = 100
"""Bytes that count for a log line besides its message and fields: its ids, number, time and
level.
"""


class History(Protocol):
    """Stores logs and samples; they are durable when a call returns. Every method may raise
    `StoreUnavailable`.
    """

    async def append_logs(self, parts: Sequence[LogPart]) -> None:
        """Remove the lines that a part leaves out, then put its lines, each part in turn.

        A line replaces the one with its number.
        """
        ...

    async def logs(
        self, execution_id: str, *, after: int, limit: int, levels: Sequence[LogLevel] = ()
    ) -> list[LogLine]:
        """Return up to `limit` lines with a number above `after`, in order; of all levels if none
        is given.
        """
        ...

    async def remove_logs(self, *, before: float, limit: int) -> int:
        """Remove up to `limit` lines that are older than that, oldest first; returns how many."""
        ...

    async def oldest_log(self, *, since: float) -> float | None:
        """Return the time of the first line from `since` on; `None` when there is none."""
        ...

    async def log_size(self, *, since: float, until: float) -> LogSize:
        """Return the size of the lines from `since` on and before `until`.

        Each line counts the bytes of its message, of its fields as JSON if it has some, and
        `LINE_BYTES`.
        """
        ...

    async def append_samples(self, samples: Sequence[NodeSample]) -> None:
        """Put samples; one of the same node, resolution and instant is replaced."""
        ...

    async def samples(
        self, node_id: str, resolution: Resolution, *, since: float, until: float, limit: int
    ) -> list[NodeSample]:
        """Return up to `limit` samples from `since` on and before `until`, in order of time."""
        ...

    async def replace_samples(
        self,
        node_id: str,
        resolution: Resolution,
        *,
        since: float,
        until: float,
        by: Sequence[NodeSample],
    ) -> None:
        """Replace the samples of that time by others, or none, in one step."""
        ...
