"""Tasks for programs: submit, wait, look, and order about."""

import asyncio
import uuid
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping
from contextlib import aclosing
from typing import Any, Final, Unpack

from crawlfleet.client.http.calls import Calls, segment
from crawlfleet.client.http.fields import (
    CloneFields,
    DeadLetterChoice,
    TaskChoice,
    TaskFields,
    TaskFilters,
    TasksVerb,
    TaskVerb,
)
from crawlfleet.client.http.ids import listed, names
from crawlfleet.client.http.retries import within
from crawlfleet.views.dead_letters import DeadLetter, DeadLetterPage
from crawlfleet.views.events import EventPage, EventView
from crawlfleet.views.executions import ExecutionPage, ExecutionView
from crawlfleet.views.tasks import (
    BatchReply,
    BulkReply,
    TaskExplanation,
    TaskPage,
    TaskReceipt,
    TaskView,
)

LONG_POLL_S: Final = 20.0
MAX_BATCH: Final = 10_000
MAX_WAITING: Final = 64
ROUND_S: Final = 2.0
"""Within which each of several hundred tasks has its turn, if they are more than fit at once."""
SHORTEST_TURN_S: Final = 0.25
"""Thousands of tasks have longer rounds: the master has other things to do as well."""
NOTHING_DONE: Final = BulkReply(changed=0, unchanged=0, refused_count=0, refused=[])
ENDED: Final = frozenset({"completed", "failed", "timeout", "cancelled"})


class TaskCalls(Calls):
    """Calls about tasks."""

    async def submit(
        self, task_type: str, parameters: dict[str, Any] | None = None, **fields: Unpack[TaskFields]
    ) -> TaskReceipt:
        """Submit one task; `fields` are those of the API, such as `priority=7`."""
        body: dict[str, Any] = {"task_type": task_type, "parameters": parameters or {}, **fields}
        return await self._post("/tasks", TaskReceipt, self._once(body))

    async def submit_batch(self, tasks: Iterable[dict[str, Any]]) -> BatchReply:
        """Submit up to 10,000 tasks; returns an outcome for each, in order."""
        body = {"tasks": [self._once(task) for task in tasks]}
        return await self._post("/tasks:batch", BatchReply, body)

    async def task(self, task_id: str) -> TaskView:
        """Return one task, with all its fields."""
        return await self._get(f"/tasks/{segment(task_id)}", TaskView)

    async def wait(self, task_id: str, *, timeout_s: float | None = None) -> TaskView:
        """The task once it has ended; raises `TimeoutError` if it has not within `timeout_s`."""
        async with within(timeout_s, task_id):
            while True:
                task = await self._look(task_id, LONG_POLL_S)
                if task.status in ENDED:
                    return task

    async def wait_for_all(
        self, task_ids: Iterable[str], *, timeout_s: float | None = None
    ) -> list[TaskView]:
        """The tasks once all have ended, in the order of their ids; raises `TimeoutError` if they
        have not within `timeout_s`."""
        ids = listed(task_ids, "task_ids")
        ended: dict[str, TaskView] = {}
        async with within(timeout_s, f"{len(ids)} tasks"), aclosing(self.as_they_end(ids)) as ends:
            ended.update({task.id: task async for task in ends})
        return [ended[id] for id in ids]

    async def as_they_end(self, task_ids: Iterable[str]) -> AsyncGenerator[TaskView, None]:
        """Yield each task once it has ended, about in the order in which they end."""
        left = deque(dict.fromkeys(listed(task_ids, "task_ids")))
        looks: dict[asyncio.Task[TaskView], str] = {}
        try:
            while left or looks:
                wait_s = _turn_s(len(left) + len(looks))
                while left and len(looks) < MAX_WAITING:
                    id = left.popleft()
                    looks[asyncio.create_task(self._look(id, wait_s))] = id
                done, _ = await asyncio.wait(looks, return_when=asyncio.FIRST_COMPLETED)
                for look in done:
                    task = look.result()
                    id = looks.pop(look)
                    if task.status in ENDED:
                        yield task
                    else:
                        left.append(id)
        finally:
            for look in looks:
                look.cancel()

    async def _look(self, task_id: str, wait_s: float) -> TaskView:
        """The task once it has ended, or as it is after so long."""
        query = {"wait": f"{wait_s:g}"}
        return await self._get(f"/tasks/{segment(task_id)}", TaskView, query, wait_s=wait_s)

    def tasks(
        self, limit: int | None = None, **filters: Unpack[TaskFilters]
    ) -> AsyncIterator[TaskView]:
        """Tasks, newest first, page by page; at most `limit`.

        `filters` are those of the API, such as `status="failed,timeout"` or `project_id="shop"`.
        """
        return self._pages("/tasks", TaskPage, filters, limit=limit)

    async def executions(self, task_id: str) -> list[ExecutionView]:
        """The attempts of a task, oldest first."""
        return (await self._get(f"/tasks/{segment(task_id)}/executions", ExecutionPage)).items

    async def events(self, task_id: str) -> list[EventView]:
        """Return the events of a task, in order (the first 1,000)."""
        query = {"limit": "1000"}
        return (await self._get(f"/tasks/{segment(task_id)}/events", EventPage, query)).items

    async def explain(self, task_id: str) -> TaskExplanation:
        """Why a task is (not) running."""
        return await self._get(f"/tasks/{segment(task_id)}:explain", TaskExplanation)

    async def act(self, task_id: str, verb: TaskVerb, *, if_version: int | None = None) -> TaskView:
        """`cancel`, `pause`, `resume` or `retry` a task.

        With `if_version` only if that is still its version; raises `PreconditionFailed` if not.
        """
        return await self._post(f"/tasks/{segment(task_id)}:{verb}", TaskView, None, if_version)

    async def reprioritise(
        self, task_id: str, priority: int, *, if_version: int | None = None
    ) -> TaskView:
        """Change the priority of a task that waits."""
        path, body = f"/tasks/{segment(task_id)}:reprioritise", {"priority": priority}
        return await self._post(path, TaskView, body, if_version)

    async def clone(self, task_id: str, **changes: Unpack[CloneFields]) -> TaskReceipt:
        """Submit the same task again, with other `parameters` or `priority`."""
        return await self._post(
            f"/tasks/{segment(task_id)}:clone", TaskReceipt, self._once({**changes})
        )

    async def act_on(
        self,
        verb: TasksVerb,
        ids: Iterable[str] | None = None,
        *,
        priority: int | None = None,
        **filter: Unpack[TaskChoice],
    ) -> BulkReply:
        """`cancel`, `pause`, `resume`, `retry` or `reprioritise` many tasks.

        They are named by their `ids`, of which there may be none, or else chosen by a filter, such
        as `status=["failed"]` or `project_id="shop"`. Giving the same order again is safe.
        """
        body: dict[str, Any] = {} if priority is None else {"priority": priority}
        return await self._order_many(f"/tasks:{verb}", body, ids, filter)

    def dead_letters(
        self, limit: int | None = None, **filters: Unpack[DeadLetterChoice]
    ) -> AsyncIterator[DeadLetter]:
        """Tasks that were given up, newest first, page by page; at most `limit`.

        `filters` are those of the API, such as `error_class="network"`.
        """
        return self._pages("/dead-letters", DeadLetterPage, filters, limit=limit)

    async def requeue_dead_letters(
        self, ids: Iterable[str] | None = None, **filter: Unpack[DeadLetterChoice]
    ) -> BulkReply:
        """Send dead letters back to the queue: those of these `ids`, or those that a filter
        chooses, or all when neither is given.
        """
        return await self._order_many("/dead-letters:requeue", {}, ids, filter)

    async def discard_dead_letters(
        self, ids: Iterable[str] | None = None, **filter: Unpack[DeadLetterChoice]
    ) -> BulkReply:
        """Remove dead letters from the list: those of these `ids`, or those that a filter chooses,
        or all when neither is given.
        """
        return await self._order_many("/dead-letters:discard", {}, ids, filter)

    async def _order_many(
        self,
        path: str,
        body: dict[str, Any],
        ids: Iterable[str] | None,
        filter: Mapping[str, Any],
    ) -> BulkReply:
        if not names(ids, filter):
            return await self._order_portion(path, {**body, "filter": filter})
        named = listed(ids)
        total = NOTHING_DONE
        for start in range(0, len(named), MAX_BATCH):
            portion = named[start : start + MAX_BATCH]
            total = _added(total, await self._order_portion(path, {**body, "ids": portion}))
        return total

    async def _order_portion(self, path: str, body: dict[str, Any]) -> BulkReply:
        total = NOTHING_DONE
        while True:
            reply = await self._post(path, BulkReply, body)
            total = _added(total, reply)
            if reply.next_cursor is None:
                return total
            body["cursor"] = reply.next_cursor

    def _once(self, body: dict[str, Any]) -> dict[str, Any]:
        """A submission that may be sent again without making a second task.

        A client without patience sends nothing twice, and saves the master the keys.
        """
        if not self._patience_s or body.get("idempotency_key") is not None:
            return body
        return {**body, "idempotency_key": uuid.uuid4().hex}


def _turn_s(tasks: int) -> float:
    """Return for how long to wait for one task, before others that wait have their turn."""
    if tasks <= MAX_WAITING:
        return LONG_POLL_S
    return max(SHORTEST_TURN_S, ROUND_S * MAX_WAITING / tasks)


def _added(total: BulkReply, more: BulkReply) -> BulkReply:
    return BulkReply(
        changed=total.changed + more.changed,
        unchanged=total.unchanged + more.unchanged,
        refused_count=total.refused_count + more.refused_count,
        refused=total.refused + more.refused,
    )
