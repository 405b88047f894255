"""The port of the master's store for the output of crawls."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Protocol

from crawlfleet.model.wire.output import OutputSummary, Segment, Stream


class OutputStore(Protocol):
    """Stores the output of tasks: runs of segments.

    `token` orders the runs of a task. Of a completed task readers see the newest run; of another,
    the newest run that has an item: a failed attempt without output does not hide that of an
    earlier one. With a run they see the runs that it continues. Every method may raise
    `OutputUnavailable`; then nothing was changed.
    """

    async def append(
        self,
        task_id: str,
        token: int,
        execution_id: str,
        stream: Stream,
        segment: Segment,
        data: bytes,
    ) -> bool:
        """Make a segment durable; returns whether it is new. A segment that is not beyond the last
        is a repetition and changes nothing. Raises `OutputUnavailable` when there is no room, and
        when the segments before it are missing.
        """
        ...

    async def summary(
        self, task_id: str, stream: Stream, *, completed: bool
    ) -> OutputSummary | None:
        """Return a summary of the readable output; `None` when nothing was ever stored."""
        ...

    def read(
        self, task_id: str, stream: Stream, *, completed: bool, skip: int = 0
    ) -> AsyncGenerator[bytes, None]:
        """Yield the output of a stream that counts, unpacked, in order. With `skip`, without the
        first so many items; each piece of `items` has whole lines. The caller closes the generator,
        which it need not read to its end.
        """
        ...

    async def keep_figures(self, task_id: str, figures: bytes) -> None:
        """Store the last figures of a crawl, in place of any earlier ones."""
        ...

    async def figures(self, task_id: str) -> bytes | None: ...

    async def cut(self, task_id: str, counted: Mapping[Stream, Mapping[str, int]]) -> None:
        """Settle which output of the present runs counts, whatever the runs say: of each named
        execution all segments through its number, and nothing of any other. These runs take no
        more: `append` raises `RunEnded`. Later runs are not affected.
        """
        ...

    async def tasks(self) -> Sequence[str]:
        """Return the ids of all tasks with stored output. Files of other programs are ignored."""
        ...

    async def sizes(self) -> Mapping[str, int]:
        """Return the stored bytes of each task, also those that do not count."""
        ...

    async def remove(self, task_id: str) -> None:
        """Remove all output of a task, and touch nothing else. May be called twice."""
        ...

    async def settle(self, task_id: str) -> None:
        """Allow removal of all but the newest run of a completed task, and the runs that it
        continues.
        """
        ...
