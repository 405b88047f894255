"""Quotas for programs."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

from crawlfleet.client.http.calls import Calls, as_query, segment
from crawlfleet.views.quotas import QuotaPage, QuotaView, UsageReport


class QuotaCalls(Calls):
    """Calls about the quotas of projects and their use."""

    def quotas(self, limit: int | None = None) -> AsyncIterator[QuotaView]:
        """Iterate over the quotas and shares of projects, in order of id."""
        return self._pages("/quotas", QuotaPage, {}, limit=limit)

    async def project_quotas(self, project_id: str) -> QuotaView:
        """Return the quotas of one project, and its present use."""
        return await self._get(f"/projects/{segment(project_id)}/quotas", QuotaView)

    async def set_quotas(
        self, project_id: str, *, if_version: int | None = None, **fields: Any
    ) -> QuotaView:
        """Change a project's limits, such as `running`, or `over`, `weight` and `nodes`; `None`
        removes a limit.
        """
        path = f"/projects/{segment(project_id)}/quotas"
        return await self._patch(path, QuotaView, fields, if_version)

    async def usage(
        self,
        project_id: str | None = None,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        step: str = "day",
    ) -> UsageReport:
        """Return the use of projects by `day` (UTC) or `hour`, by default of the last 30 days."""
        instants = {"since": since, "until": until}
        query = as_query(
            {
                "project_id": project_id,
                "step": step,
                **{name: _sent(at) for name, at in instants.items() if at is not None},
            }
        )
        return await self._get("/usage", UsageReport, query)


def _sent(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
