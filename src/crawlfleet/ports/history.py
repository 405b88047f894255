"""What is kept for people to look at, and decides nothing: logs of executions, nodes over time.

None of it takes part in commits. What is written here again is not there twice; whether somebody
may write it has been decided before.
"""

from collections.abc import Sequence
from typing import Final, Protocol

from crawlfleet.model.log import LogLevel, LogLine, LogPart, LogSize
from crawlfleet.model.node_sample import NodeSample, Resolution

LINE_BYTES: Final = 100
"""What a line takes besides its message and its fields: whose it is, its number, time and level."""


class History(Protocol):
    """Durable when it is answered. Every method may raise `StoreUnavailable`."""

    async def append_logs(self, parts: Sequence[LogPart]) -> None:
        """Forget the lines that a part leaves out, then put its lines, each part in turn.

        A line replaces the one with its number.
        """
        ...

    async def logs(
        self, execution_id: str, *, after: int, limit: int, levels: Sequence[LogLevel] = ()
    ) -> list[LogLine]:
        """Up to `limit` lines with a number above `after`, in order; of all levels if none."""
        ...

    async def remove_logs(self, *, before: float, limit: int) -> int:
        """Remove up to `limit` lines that are older than that, the oldest first; how many went."""
        ...

    async def oldest_log(self, *, since: float) -> float | None:
        """When the first line from `since` on was said; nothing when there is none."""
        ...

    async def log_size(self, *, since: float, until: float) -> LogSize:
        """How much was said from `since` on and before `until`.

        For each line the bytes of its message, of its fields as JSON if it has some, and
        `LINE_BYTES`.
        """
        ...

    async def append_samples(self, samples: Sequence[NodeSample]) -> None:
        """Put samples; one of the same node, resolution and instant is replaced."""
        ...

    async def samples(
        self, node_id: str, resolution: Resolution, *, since: float, until: float, limit: int
    ) -> list[NodeSample]:
        """Up to `limit` samples from `since` on and before `until`, in order of time."""
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
        """In one step remove the samples of that time and put others, or none, in their place."""
        ...
