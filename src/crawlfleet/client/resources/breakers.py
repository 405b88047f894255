"""Sites that are taken for down, for programs."""

from crawlfleet.client.http.calls import Calls, segment
from crawlfleet.views.breakers import BreakerList, BreakerView


class BreakerCalls(Calls):
    """Calls about circuit breakers of the targets that tasks depend on."""

    async def breakers(
        self, *, all: bool = False, project_id: str | None = None, limit: int = 100
    ) -> BreakerList:
        """Return open breakers, of a project or of all; with `all` also those that only count."""
        query = {"all": "true" if all else "false", "limit": str(limit)}
        if project_id is not None:
            query["project_id"] = project_id
        return await self._get("/breakers", BreakerList, query)

    async def close_breaker(self, target: str, *, project_id: str | None = None) -> BreakerView:
        """Close the breaker of a target for a project, or for each: its tasks go on."""
        body = {} if project_id is None else {"project_id": project_id}
        return await self._post(f"/breakers/{segment(target)}:close", BreakerView, body)
