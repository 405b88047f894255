"""Quotas for programs."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

from crawlfleet.client.http.calls import Calls, as_query, segment
from crawlfleet.views.quotas import QuotaPage, QuotaView, UsageReport


class QuotaCalls(Calls):
    """What can be asked about what projects may have."""

    def quotas(self, limit: int | None = None) -> AsyncIterator[QuotaView]:
        """The quotas and shares of projects, in order of id."""
        return self._pages("/quotas", QuotaPage, {}, limit=limit)

    async def project_quotas(self, project_id: str) -> QuotaView:
        """The quotas of one project, and what it has of them now."""
        return await self._get(f"/projects/{segment(project_id)}/quotas", QuotaView)

    async def set_quotas(
        self, project_id: str, *, if_version: int | None = None, **fields: Any
    ) -> QuotaView:
        """Change its limits, such as `running`, or `over`, `weight` and `nodes`; `None` takes a
        limit away."""
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
        """What projects have used, by `day` (UTC) or by `hour`; the last 30 days when not said."""
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
