"""Calls about executions, and their logs."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, Final

from crawlfleet.client.http.calls import segment
from crawlfleet.client.resources.tasks import ENDED, TaskCalls
from crawlfleet.views.executions import ExecutionView, LogLineView, LogPage

LOOK_AGAIN_S: Final = 0.5


class ExecutionCalls(TaskCalls):
    """Calls about executions, the attempts at tasks, and their logs."""

    async def execution(self, execution_id: str) -> ExecutionView:
        """Return one attempt."""
        return await self._get(f"/executions/{segment(execution_id)}", ExecutionView)

    def logs(
        self, execution_id: str, *, after: int = 0, level: str = "debug", **search: Any
    ) -> AsyncIterator[LogLineView]:
        """Iterate over the log lines of an attempt so far, in order, from that level on.

        `search` is as in the API: `q`, a text that lines contain, or with `regex=True` an
        expression that they match; `since` and `until`, instants in ISO 8601.
        """
        path = f"/executions/{segment(execution_id)}/logs"
        query = {"after": after, "level": level, **search}
        return self._pages(path, LogPage, query, cursor="after")

    def task_logs(
        self, task_id: str, *, after: int = 0, level: str = "debug", **search: Any
    ) -> AsyncIterator[LogLineView]:
        """Iterate over the log lines of the newest attempt at a task, as `logs` does."""
        path = f"/tasks/{segment(task_id)}/logs"
        query = {"after": after, "level": level, **search}
        return self._pages(path, LogPage, query, cursor="after")

    def stream_logs(
        self,
        execution_id: str,
        *,
        after: int = 0,
        level: str = "debug",
        patience_s: float = 60.0,
        **search: Any,
    ) -> AsyncGenerator[LogLineView, None]:
        """Stream the log lines of an attempt, old and new, until it has ended.

        The stream goes on after a broken connection, without a gap, unless the master stays away
        for `patience_s`.
        """
        query = {"after": after, "level": level, "follow": True, **search}
        path = f"/executions/{segment(execution_id)}/logs"
        return self._stream(path, LogLineView, query, patience_s)

    async def follow_task(
        self, task_id: str, *, level: str = "debug", patience_s: float = 60.0, **search: Any
    ) -> AsyncIterator[tuple[str, LogLineView]]:
        """Stream the logs of the newest attempt at a task, and of later ones, until it ends.

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
                async for line in self.stream_logs(
                    id, level=level, patience_s=patience_s, **search
                ):
                    yield id, line
                shown.add(id)
            if not fresh and ended:
                return
            if not fresh:
                await asyncio.sleep(LOOK_AGAIN_S)
