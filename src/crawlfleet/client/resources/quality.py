"""What was measured of tasks, for programs."""

from collections.abc import AsyncIterator

from crawlfleet.client.http.calls import Calls, segment
from crawlfleet.views.quality import (
    MeasuredRunPage,
    MeasuredRunView,
    SeriesPage,
    SeriesView,
)


class QualityCalls(Calls):
    """What can be asked about the quality of what tasks find."""

    def quality(
        self, *, project_id: str | None = None, limit: int | None = None
    ) -> AsyncIterator[SeriesView]:
        """Series of measured tasks, each with its newest run."""
        return self._pages("/quality", SeriesPage, {"project_id": project_id}, limit=limit)

    def measured_runs(
        self, series: str, *, project_id: str | None = None, limit: int | None = None
    ) -> AsyncIterator[MeasuredRunView]:
        """The measured runs of a series, newest first."""
        query = {"project_id": project_id}
        return self._pages(f"/quality/{segment(series)}", MeasuredRunPage, query, limit=limit)

    async def task_quality(self, task_id: str) -> list[MeasuredRunView]:
        """What was measured of a task whenever it ended, newest first."""
        return (await self._get(f"/tasks/{segment(task_id)}/quality", MeasuredRunPage)).items

    async def accept(self, task_id: str, *, reason: str = "") -> MeasuredRunView:
        """Accept items that are not as expected: they are what is usual from now on."""
        path = f"/tasks/{segment(task_id)}:accept"
        return await self._post(path, MeasuredRunView, {"reason": reason})

    async def reject(self, task_id: str, *, reason: str = "") -> MeasuredRunView:
        """Reject items that are not as expected; a step that waits for that fails."""
        path = f"/tasks/{segment(task_id)}:reject"
        return await self._post(path, MeasuredRunView, {"reason": reason})
