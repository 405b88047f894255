"""Sites that are taken for down, for programs."""

from crawlfleet.client.http.calls import Calls, segment
from crawlfleet.views.breakers import BreakerList, BreakerView


class BreakerCalls(Calls):
    """What can be asked about the sites that tasks depend on."""

    async def breakers(
        self, *, all: bool = False, project_id: str | None = None, limit: int = 100
    ) -> BreakerList:
        """The sites that are taken for down, for one project or for each; with `all` those, too,
        that have only failed."""
        query = {"all": "true" if all else "false", "limit": str(limit)}
        if project_id is not None:
            query["project_id"] = project_id
        return await self._get("/breakers", BreakerList, query)

    async def close_breaker(self, target: str, *, project_id: str | None = None) -> BreakerView:
        """Let all tasks of a project, or of each, for a site go on."""
        body = {} if project_id is None else {"project_id": project_id}
        return await self._post(f"/breakers/{segment(target)}:close", BreakerView, body)
