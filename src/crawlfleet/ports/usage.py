"""The part of a store that keeps what projects have used.

Rows are added to by `Store.commit`, in the transaction of the changes that tell of it.
"""

from collections.abc import Sequence
from typing import Protocol

from crawlfleet.model.usage import UsageHour


class Usage(Protocol):
    """Every method may raise `StoreUnavailable`."""

    async def usage(
        self, *, since: float, until: float, project_id: str | None = None
    ) -> list[UsageHour]:
        """The hours that begin at `since` or later, and before `until`; of one project, or of all.

        In order of the hours, then of the projects. Hours in which a project did nothing are left
        out.
        """
        ...

    async def task_owners(self, ids: Sequence[str]) -> dict[str, str]:
        """The projects of the tasks that exist among `ids`."""
        ...

    async def remove_usage(self, *, before: float, limit: int) -> int:
        """Remove up to `limit` hours that began before then, the oldest first; how many went."""
        ...
