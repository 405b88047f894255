"""Sites that are taken for down, for programs."""

from crawlfleet.client.calls import Calls, segment
from crawlfleet.model.breaker_views import BreakerList, BreakerView


class BreakerCalls(Calls):
    """What can be asked about the sites that tasks depend on."""

    async def breakers(self, *, all: bool = False, limit: int = 100) -> BreakerList:
        """The sites that are taken for down; with `all` those, too, that have only failed."""
        query = {"all": "true" if all else "false", "limit": str(limit)}
        return await self._get("/breakers", BreakerList, query)

    async def close_breaker(self, target: str) -> BreakerView:
        """Let all tasks for a site go on."""
        return await self._post(f"/breakers/{segment(target)}:close", BreakerView, None)
