"""The API for programs: `async with Client(url, key) as fleet: await fleet.submit("sleep")`."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from crawlfleet.client.stream import stream
from crawlfleet.client.transport import Transport
from crawlfleet.model.statistics import Statistics
from crawlfleet.model.views import (
    AuditPage,
    AuditView,
    BatchReply,
    BulkReply,
    EventPage,
    EventView,
    ExecutionPage,
    ExecutionView,
    FleetStatus,
    JoinTokenPage,
    JoinTokenView,
    KeyPage,
    KeyView,
    LogLineView,
    LogPage,
    NewJoinToken,
    NewKey,
    NodeHistoryView,
    NodePage,
    NodeView,
    TaskExplanation,
    TaskPage,
    TaskReceipt,
    TaskView,
)

T = TypeVar("T")
LONG_POLL_S: Final = 20.0
LOOK_AGAIN_S: Final = 0.5
MOST_AT_ONCE: Final = 10_000
NOTHING_DONE: Final = BulkReply(changed=0, unchanged=0, refused_count=0, refused=[])
ENDED: Final = frozenset({"completed", "failed", "timeout", "cancelled"})


class Client:
    """A fleet as its users see it. Errors are those of `crawlfleet.errors`."""

    def __init__(self, url: str, key: str) -> None:
        self.url = url
        self._transport = Transport(url)
        self._key = key

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._transport.__aexit__(kind, error, trace)

    async def submit(
        self, task_type: str, parameters: dict[str, Any] | None = None, **fields: Any
    ) -> TaskReceipt:
        """Submit one task; `fields` are those of the API, such as `priority=7`."""
        body = {"task_type": task_type, "parameters": parameters or {}, **fields}
        return await self._post("/tasks", TaskReceipt, body)

    async def submit_batch(self, tasks: Iterable[dict[str, Any]]) -> BatchReply:
        """Submit up to 10,000 tasks; an outcome for each, in order."""
        return await self._post("/tasks:batch", BatchReply, {"tasks": list(tasks)})

    async def task(self, task_id: str) -> TaskView:
        """The whole task."""
        return await self._get(f"/tasks/{task_id}", TaskView)

    async def wait(self, task_id: str) -> TaskView:
        """The task once it has ended, however long that takes."""
        while True:
            task = await self._transport.call(
                "GET",
                f"/api/v1/tasks/{task_id}",
                TaskView,
                key=self._key,
                query={"wait": f"{LONG_POLL_S:g}"},
                wait_s=LONG_POLL_S,
            )
            if task.status in ENDED:
                return task

    async def tasks(self, limit: int | None = None, **filters: str) -> AsyncIterator[TaskView]:
        """Tasks, newest first, page by page; at most `limit`."""
        query = {**filters, "limit": str(min(limit or 500, 500))}
        left = limit
        while True:
            page = await self._get("/tasks", TaskPage, query)
            for task in page.items[:left]:
                yield task
            left = None if left is None else left - len(page.items)
            if page.next_cursor is None or (left is not None and left <= 0):
                return
            query["cursor"] = page.next_cursor

    async def executions(self, task_id: str) -> list[ExecutionView]:
        """The attempts of a task, oldest first."""
        return (await self._get(f"/tasks/{task_id}/executions", ExecutionPage)).items

    async def events(self, task_id: str) -> list[EventView]:
        """What happened to a task, in order (the first 1,000 events)."""
        page = await self._get(f"/tasks/{task_id}/events", EventPage, {"limit": "1000"})
        return page.items

    async def newest_events(
        self, limit: int = 100, *, kind: str = "", subject: str | None = None
    ) -> list[EventView]:
        """The last events of the fleet, in order (1,000 at most)."""
        query = {"newest": "true", "limit": str(limit), **_filter(kind, subject)}
        return (await self._get("/events", EventPage, query)).items

    async def events_after(
        self,
        after: int = 0,
        *,
        limit: int | None = None,
        kind: str = "",
        subject: str | None = None,
    ) -> AsyncIterator[EventView]:
        """Events of the fleet with a higher number, in order, page by page; at most `limit`."""
        query = {"after": str(after), "limit": str(min(limit or 1000, 1000))}
        query |= _filter(kind, subject)
        left = limit
        while True:
            page = await self._get("/events", EventPage, query)
            for event in page.items[:left]:
                yield event
            left = None if left is None else left - len(page.items)
            if page.next_cursor is None or (left is not None and left <= 0):
                return
            query["after"] = page.next_cursor

    def stream_events(
        self,
        after: int | None = None,
        *,
        kind: str = "",
        subject: str | None = None,
        patience_s: float = 60.0,
    ) -> AsyncGenerator[EventView, None]:
        """Events of the fleet as they happen: after that number, or from now on.

        `kind` is how their kind begins, `subject` what they are about. Goes on after a broken
        connection, without a gap, unless the master stays away for `patience_s`.
        """
        query = _filter(kind, subject) | ({} if after is None else {"after": str(after)})
        return self._stream("/events", EventView, query, patience_s)

    async def execution(self, execution_id: str) -> ExecutionView:
        """One attempt."""
        return await self._get(f"/executions/{execution_id}", ExecutionView)

    async def logs(
        self, execution_id: str, *, after: int = 0, level: str = "debug"
    ) -> AsyncIterator[LogLineView]:
        """What an attempt has said so far, in order, from that level on."""
        query = {"after": str(after), "level": level, "limit": "1000"}
        while True:
            page = await self._get(f"/executions/{execution_id}/logs", LogPage, query)
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
        query = {"after": str(after), "level": level, "follow": "true"}
        return self._stream(f"/executions/{execution_id}/logs", LogLineView, query, patience_s)

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

    async def explain(self, task_id: str) -> TaskExplanation:
        """Why a task is (not) running."""
        return await self._get(f"/tasks/{task_id}:explain", TaskExplanation)

    async def act(self, task_id: str, verb: str) -> TaskView:
        """`cancel`, `pause`, `resume` or `retry` a task."""
        return await self._post(f"/tasks/{task_id}:{verb}", TaskView)

    async def act_on(
        self,
        verb: str,
        ids: Iterable[str] = (),
        *,
        priority: int | None = None,
        **filter: Any,
    ) -> BulkReply:
        """`cancel`, `pause`, `resume`, `retry` or `reprioritise` many tasks.

        They are named by their `ids`, or chosen by a filter, such as `status=["failed"]` or
        `project_id="shop"`. Giving the same order again is safe.
        """
        body: dict[str, Any] = {} if priority is None else {"priority": priority}
        named = list(ids)
        if not named:
            return await self._act_on(verb, {**body, "filter": filter})
        total = NOTHING_DONE
        for start in range(0, len(named), MOST_AT_ONCE):
            portion = named[start : start + MOST_AT_ONCE]
            total = _added(total, await self._act_on(verb, {**body, "ids": portion}))
        return total

    async def _act_on(self, verb: str, body: dict[str, Any]) -> BulkReply:
        total = NOTHING_DONE
        while True:
            reply = await self._post(f"/tasks:{verb}", BulkReply, body)
            total = _added(total, reply)
            if reply.next_cursor is None:
                return total
            body["cursor"] = reply.next_cursor

    async def reprioritise(self, task_id: str, priority: int) -> TaskView:
        """Change the priority of a task that waits."""
        return await self._post(f"/tasks/{task_id}:reprioritise", TaskView, {"priority": priority})

    async def clone(self, task_id: str, **changes: Any) -> TaskReceipt:
        """Submit the same task again, with other `parameters` or `priority`."""
        return await self._post(f"/tasks/{task_id}:clone", TaskReceipt, changes)

    async def nodes(self) -> list[NodeView]:
        """All nodes, in order of their registration."""
        return (await self._get("/nodes", NodePage)).items

    async def node(self, node_id: str) -> NodeView:
        """One node."""
        return await self._get(f"/nodes/{node_id}", NodeView)

    async def order(self, node_id: str, verb: str) -> NodeView:
        """`drain`, `maintenance`, `resume`, `unregister`, `rotate-token` or `revoke` a node."""
        return await self._post(f"/nodes/{node_id}:{verb}", NodeView)

    async def change_node(
        self,
        node_id: str,
        *,
        labels: Mapping[str, str | None] | None = None,
        description: str | None = None,
        version: int | None = None,
    ) -> NodeView:
        """Set labels (`None` removes one) and the description of a node.

        With the `version` that the node had when you looked, `PreconditionFailed` is raised if
        it has changed since.
        """
        body: dict[str, Any] = {"labels": labels or {}}
        if description is not None:
            body["description"] = description
        headers = {} if version is None else {"If-Match": f'"{version}"'}
        return await self._transport.call(
            "PATCH",
            f"/api/v1/nodes/{node_id}",
            NodeView,
            key=self._key,
            body=body,
            headers=headers,
        )

    async def node_history(
        self,
        node_id: str,
        *,
        resolution: str = "minute",
        since: datetime | None = None,
        limit: int = 1500,
    ) -> NodeHistoryView:
        """A node over time: `raw`, or means of a `minute` or an `hour`; the last `limit`."""
        query = {"resolution": resolution, "limit": str(limit)}
        if since is not None:
            query["since"] = since.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return await self._get(f"/nodes/{node_id}/history", NodeHistoryView, query)

    async def keys(self) -> list[KeyView]:
        """All keys, oldest first, dead ones as well."""
        return (await self._get("/keys", KeyPage)).items

    async def key(self, key_id: str) -> KeyView:
        """One key."""
        return await self._get(f"/keys/{key_id}", KeyView)

    async def create_key(self, name: str, role: str, **fields: Any) -> NewKey:
        """A new key; `fields` are `project_id` and `expires_in_s`. Its secret is shown once."""
        return await self._post("/keys", NewKey, {"name": name, "role": role, **fields})

    async def rotate_key(self, key_id: str, **fields: Any) -> NewKey:
        """A new secret for a key; `fields` are `grace_s` and `expires_in_s`."""
        return await self._post(f"/keys/{key_id}:rotate", NewKey, fields)

    async def revoke_key(self, key_id: str) -> KeyView:
        """Make a key worthless at once."""
        return await self._post(f"/keys/{key_id}:revoke", KeyView)

    async def join_tokens(self) -> list[JoinTokenView]:
        """All join tokens, oldest first, dead ones as well."""
        return (await self._get("/join-tokens", JoinTokenPage)).items

    async def create_join_token(self, **fields: Any) -> NewJoinToken:
        """A new join token: `name`, `cluster_id`, `uses`, `expires_in_s`."""
        return await self._post("/join-tokens", NewJoinToken, fields)

    async def revoke_join_token(self, join_token_id: str) -> JoinTokenView:
        """Let no more nodes join with a token."""
        return await self._post(f"/join-tokens/{join_token_id}:revoke", JoinTokenView)

    async def audit(self, limit: int | None = None, **filters: str) -> AsyncIterator[AuditView]:
        """Who changed what, newest first, page by page; at most `limit`.

        `filters` are `actor`, `action`, `subject`, `since` and `until` (ISO 8601).
        """
        query = {**filters, "limit": str(min(limit or 500, 500))}
        left = limit
        while True:
            page = await self._get("/audit", AuditPage, query)
            for entry in page.items[:left]:
                yield entry
            left = None if left is None else left - len(page.items)
            if page.next_cursor is None or (left is not None and left <= 0):
                return
            query["cursor"] = page.next_cursor

    async def status(self) -> FleetStatus:
        """The fleet in a few numbers."""
        return await self._get("/status", FleetStatus)

    async def statistics(self) -> Statistics:
        """How the fleet does, and did in the last hour."""
        return await self._get("/statistics", Statistics)

    def _stream(
        self, path: str, type: type[T], query: dict[str, str], patience_s: float
    ) -> AsyncGenerator[T, None]:
        return stream(
            self._transport,
            f"/api/v1{path}",
            type,
            key=self._key,
            query=query,
            patience_s=patience_s,
        )

    async def _get(self, path: str, type: type[T], query: dict[str, str] | None = None) -> T:
        return await self._transport.call("GET", f"/api/v1{path}", type, key=self._key, query=query)

    async def _post(self, path: str, type: type[T], body: Any = None) -> T:
        return await self._transport.call("POST", f"/api/v1{path}", type, key=self._key, body=body)


def _filter(kind: str, subject: str | None) -> dict[str, str]:
    given = {"kind": kind, "subject": subject}
    return {name: value for name, value in given.items() if value}


def _added(total: BulkReply, more: BulkReply) -> BulkReply:
    return BulkReply(
        changed=total.changed + more.changed,
        unchanged=total.unchanged + more.unchanged,
        refused_count=total.refused_count + more.refused_count,
        refused=total.refused + more.refused,
    )
