"""What executions say: so far, as they say it, and over all attempts at a task."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Final

from crawlfleet.client.calls import API, as_query, segment
from crawlfleet.client.stream import stream
from crawlfleet.client.tasks import ENDED, TaskCalls
from crawlfleet.model.views import ExecutionView, LogLineView, LogPage

LOOK_AGAIN_S: Final = 0.5


class LogCalls(TaskCalls):
    """Calls about executions and their logs."""

    async def execution(self, execution_id: str) -> ExecutionView:
        """One attempt."""
        return await self._get(f"/executions/{segment(execution_id)}", ExecutionView)

    def logs(
        self, execution_id: str, *, after: int = 0, level: str = "debug"
    ) -> AsyncIterator[LogLineView]:
        """What an attempt has said so far, in order, from that level on."""
        return self._lines(f"/executions/{segment(execution_id)}/logs", after, level)

    def task_logs(
        self, task_id: str, *, after: int = 0, level: str = "debug"
    ) -> AsyncIterator[LogLineView]:
        """What the newest attempt at a task has said so far."""
        return self._lines(f"/tasks/{segment(task_id)}/logs", after, level)

    async def _lines(self, path: str, after: int, level: str) -> AsyncIterator[LogLineView]:
        query = {"after": str(after), "level": level, "limit": "1000"}
        while True:
            page = await self._get(path, LogPage, query)
            for line in page.items:
                yield line
            if page.next_cursor is None:
                return
            query["after"] = page.next_cursor

    def stream_logs(
        self,
        execution_id: str,
        *,
        after: int = 0,
        level: str = "debug",
        patience_s: float = 60.0,
    ) -> AsyncGenerator[LogLineView, None]:
        """What an attempt has said and says, until it has ended.

        Goes on after a broken connection, without a gap, unless the master stays away for
        `patience_s`.
        """
        query = as_query({"after": after, "level": level, "follow": "true"})
        return stream(
            self._transport,
            f"{API}/executions/{segment(execution_id)}/logs",
            LogLineView,
            key=self._key,
            query=query,
            patience_s=patience_s,
        )

    async def follow_task(
        self, task_id: str, *, level: str = "debug", patience_s: float = 60.0
    ) -> AsyncIterator[tuple[str, LogLineView]]:
        """What the newest attempt at a task says, and those that follow it, until the task ends.

        Each line comes with the id of its attempt.
        """
        shown: set[str] | None = None
        while True:
            ended = (await self.task(task_id)).status in ENDED
            attempts = [attempt.id for attempt in await self.executions(task_id)]
            if shown is None:
                shown = set(attempts[:-1])
            fresh = [id for id in attempts if id not in shown]
            for id in fresh:
                async for line in self.stream_logs(id, level=level, patience_s=patience_s):
                    yield id, line
                shown.add(id)
            if not fresh and ended:
                return
            if not fresh:
                await asyncio.sleep(LOOK_AGAIN_S)
