"""Calls about the quality of tasks' items."""

from collections.abc import AsyncIterator

from crawlfleet.client.http.calls import Calls, segment
from crawlfleet.views.quality import (
    MeasuredRunPage,
    MeasuredRunView,
    SeriesPage,
    SeriesView,
)


class QualityCalls(Calls):
    """Calls about the quality of tasks' items."""

    def quality(
        self, *, project_id: str | None = None, limit: int | None = None
    ) -> AsyncIterator[SeriesView]:
        """Iterate over series of measured tasks, each with its newest run."""
        return self._pages("/quality", SeriesPage, {"project_id": project_id}, limit=limit)

    def measured_runs(
        self, series: str, *, project_id: str | None = None, limit: int | None = None
    ) -> AsyncIterator[MeasuredRunView]:
        """Iterate over the measured runs of a series, newest first."""
        query = {"project_id": project_id}
        return self._pages(f"/quality/{segment(series)}", MeasuredRunPage, query, limit=limit)

    async def task_quality(self, task_id: str) -> list[MeasuredRunView]:
        """Return the measured runs of a task, newest first: one for each time that it completed."""
        return (await self._get(f"/tasks/{segment(task_id)}/quality", MeasuredRunPage)).items

    async def accept(self, task_id: str, *, reason: str = "") -> MeasuredRunView:
        """Accept items that are not as expected: from now on they count as normal."""
        path = f"/tasks/{segment(task_id)}:accept"
        return await self._post(path, MeasuredRunView, {"reason": reason})

    async def reject(self, task_id: str, *, reason: str = "") -> MeasuredRunView:
        """Reject unexpected items; a workflow step that waits for the decision fails."""
        path = f"/tasks/{segment(task_id)}:reject"
        return await self._post(path, MeasuredRunView, {"reason": reason})
