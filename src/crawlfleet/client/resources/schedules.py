"""Schedules for programs."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

from crawlfleet.client.http.calls import Calls, as_query, segment
from crawlfleet.features.schedules.views import (
    BackfillReply,
    DuePage,
    FiringPage,
    FiringView,
    ScheduleExplanation,
    SchedulePage,
    ScheduleView,
)


class ScheduleCalls(Calls):
    """Calls about schedules.

    With `if_version` a change is made only if that is still the version; `PreconditionFailed` if
    not.
    """

    def schedules(
        self, limit: int | None = None, *, project_id: str | None = None, name: str | None = None
    ) -> AsyncIterator[ScheduleView]:
        """Iterate over the schedules, in order of their creation."""
        query = {"project_id": project_id, "name": name}
        return self._pages("/schedules", SchedulePage, query, limit=limit)

    async def schedule(self, schedule_id: str) -> ScheduleView:
        """Return one schedule, and its last firing."""
        return await self._get(_path(schedule_id), ScheduleView)

    async def create_schedule(
        self,
        name: str,
        task: dict[str, Any] | None = None,
        *,
        workflow: str | dict[str, Any] | None = None,
        **rule: Any,
    ) -> ScheduleView:
        """Create a schedule that submits a task or runs a workflow: `workflow` is its name or id,
        or an object with `name`, `version` and `parameters`. `rule` has `cron` or `every_s`,
        `time_zone` and so on, as in the API. Instants may be `datetime`.
        """
        work = {"task": task} if workflow is None else {"workflow": _called(workflow)}
        if task is not None:
            work["task"] = task
        body = {"name": name, **work, **_sent(rule)}
        return await self._post("/schedules", ScheduleView, body)

    async def change_schedule(
        self, schedule_id: str, *, if_version: int | None = None, **fields: Any
    ) -> ScheduleView:
        """Change a schedule's `task`, `workflow` or rule; fields that are left out stay."""
        if "workflow" in fields:
            fields["workflow"] = _called(fields["workflow"])
        return await self._patch(_path(schedule_id), ScheduleView, _sent(fields), if_version)

    async def pause_schedule(
        self, schedule_id: str, *, if_version: int | None = None
    ) -> ScheduleView:
        """Start nothing for it until it is resumed."""
        return await self._post(f"{_path(schedule_id)}:pause", ScheduleView, None, if_version)

    async def resume_schedule(
        self, schedule_id: str, *, if_version: int | None = None
    ) -> ScheduleView:
        """Resume a paused schedule."""
        return await self._post(f"{_path(schedule_id)}:resume", ScheduleView, None, if_version)

    async def remove_schedule(
        self, schedule_id: str, *, if_version: int | None = None
    ) -> ScheduleView | None:
        """Remove a schedule; work that it has started goes on. Returns `None` when the answer was
        lost, and the schedule is gone.
        """
        return await self._remove(f"{_path(schedule_id)}:remove", ScheduleView, None, if_version)

    async def run_schedule(self, schedule_id: str, *, force: bool = False) -> FiringView:
        """Start a schedule's work at once. Not repeated by itself: it might start two."""
        path = f"{_path(schedule_id)}:run"
        return await self._post_once(path, FiringView, {"force": force})

    async def backfill_schedule(
        self, schedule_id: str, since: datetime, until: datetime, *, dry_run: bool = False
    ) -> BackfillReply:
        """Make up for due instants of a range that started nothing."""
        body = _sent({"since": since, "until": until, "dry_run": dry_run})
        return await self._post(f"{_path(schedule_id)}:backfill", BackfillReply, body)

    async def schedule_next(
        self, schedule_id: str, *, count: int = 10, after: datetime | None = None
    ) -> DuePage:
        """Return the next times at which a schedule is due."""
        query = as_query(_sent({"count": count, "after": after}))
        return await self._get(f"{_path(schedule_id)}/next", DuePage, query)

    async def preview_schedule(
        self, *, count: int = 10, after: datetime | None = None, **rule: Any
    ) -> DuePage:
        """Return the times at which a rule of `cron` or `every_s`, `time_zone` and so on would be
        due.
        """
        query = as_query(_sent({"count": count, "after": after, **rule}))
        return await self._get("/schedules:preview", DuePage, query)

    def schedule_history(
        self, schedule_id: str, limit: int | None = None
    ) -> AsyncIterator[FiringView]:
        """Iterate over the past firings of a schedule and their outcomes, newest first."""
        return self._pages(f"{_path(schedule_id)}/history", FiringPage, {}, limit=limit)

    async def explain_schedule(self, schedule_id: str) -> ScheduleExplanation:
        """Why it is (not) running."""
        return await self._get(f"{_path(schedule_id)}:explain", ScheduleExplanation)


def _path(schedule_id: str) -> str:
    return f"/schedules/{segment(schedule_id)}"


def _called(workflow: str | dict[str, Any]) -> dict[str, Any]:
    return {"name": workflow} if isinstance(workflow, str) else workflow


def _sent(fields: dict[str, Any]) -> dict[str, Any]:
    """Instants as the API reads them; without a zone they are local to this machine."""
    return {
        name: value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        if isinstance(value, datetime)
        else value
        for name, value in fields.items()
    }
