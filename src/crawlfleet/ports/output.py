"""Where a master keeps the output of crawls."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Protocol

from crawlfleet.model.wire.output import OutputSummary, Segment, Stream


class OutputStore(Protocol):
    """Keeps runs of segments, a folder for each task.

    `token` orders the runs of a task. Of one that has completed, readers see the newest run; of one
    that has not (yet), the newest that has an item: an attempt that came to nothing does not hide
    what an earlier one found. With a run they see those that it goes on from.
    Every method may raise `OutputUnavailable`; then nothing was changed.
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
        """Make a segment durable; whether it is new. One that is not beyond the last is old news
        and changes nothing. Raises `OutputUnavailable` when there is no room, and when those
        before it are not here."""
        ...

    async def summary(
        self, task_id: str, stream: Stream, *, completed: bool
    ) -> OutputSummary | None:
        """What there is to read; `None` when nothing was ever kept."""
        ...

    def read(
        self, task_id: str, stream: Stream, *, completed: bool, skip: int = 0
    ) -> AsyncGenerator[bytes, None]:
        """All that counts of a stream, unpacked, in order. With `skip`, so many items fewer at the
        beginning; each piece of `items` is of whole lines. To be closed by its reader, who may not
        read it to its end."""
        ...

    async def keep_figures(self, task_id: str, figures: bytes) -> None:
        """The last figures of a crawl, in place of any earlier ones."""
        ...

    async def figures(self, task_id: str) -> bytes | None: ...

    async def cut(self, task_id: str, counted: Mapping[Stream, Mapping[str, int]]) -> None:
        """Settle what counts of the runs that there are, whatever they or others say of them: of
        each execution that is named all through that number, and nothing of any other. They take
        no more: `append` raises `RunEnded`. Runs that begin later are not concerned."""
        ...

    async def tasks(self) -> Sequence[str]:
        """The ids of all tasks of which something is kept. What others put there is not told."""
        ...

    async def sizes(self) -> Mapping[str, int]:
        """How many bytes are kept of each task, whatever counts of them."""
        ...

    async def remove(self, task_id: str) -> None:
        """Forget all that was kept of a task, and touch nothing else. May be called twice."""
        ...

    async def settle(self, task_id: str) -> None:
        """The task has completed: all but its newest run, and those that it goes on from, may
        go."""
        ...
