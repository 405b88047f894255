"""The part of a store that keeps workflows, their versions, and their runs.

All are versioned rows and are written by `Store.commit`, the steps of a run together with the tasks
that they begin.
"""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from crawlfleet.features.workflows.model import Run, RunStatus, RunStep, Workflow, WorkflowVersion


class RunFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which runs to list; `None` does not restrict."""

    project_id: str | None = None
    workflow_id: str | None = None
    status: RunStatus | None = None


class Workflows(Protocol):
    """Every method may raise `StoreUnavailable`."""

    async def workflow(self, id: str) -> Workflow | None: ...

    async def find_workflows(
        self, *, project_id: str | None, name: str | None, after: str | None, limit: int
    ) -> list[Workflow]:
        """Up to `limit` workflows with an id above `after`, in order of id."""
        ...

    async def workflow_version(self, workflow_id: str, number: int) -> WorkflowVersion | None: ...

    async def workflow_versions(
        self, workflow_id: str, *, below: int | None, limit: int
    ) -> list[WorkflowVersion]:
        """Up to `limit` versions with a number below `below`, the newest first.

        Without their documents, which may be large.
        """
        ...

    async def workflow_run(self, id: str) -> Run | None: ...

    async def run_states(self, ids: Sequence[str]) -> dict[str, RunStatus]:
        """The states of the runs that there are among `ids`."""
        ...

    async def find_runs(self, filter: RunFilter, *, after: str | None, limit: int) -> list[Run]:
        """Up to `limit` runs with an id below `after`, the newest first."""
        ...

    async def live_runs(self, *, after: str | None, limit: int) -> list[Run]:
        """Up to `limit` runs that have not ended, with an id above `after`, in order of id."""
        ...

    async def run_steps(self, run_id: str) -> list[RunStep]:
        """How the steps of a run stand, in order of id; those that wait may be missing."""
        ...

    async def remove_runs(self, *, before: float, limit: int) -> int:
        """Remove up to `limit` runs that ended before then, with their steps; first those that
        ended first. Returns how many went."""
        ...
