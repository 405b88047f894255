"""Workflows and runs in plain dictionaries: a part of the memory store."""

from collections.abc import Sequence
from itertools import islice

from msgspec.structs import replace

from crawlfleet.adapters.store.acceptance import Present
from crawlfleet.adapters.store.memory.copies import share_all
from crawlfleet.adapters.store.memory.table import Table
from crawlfleet.features.workflows.model import (
    Run,
    RunStatus,
    RunStep,
    Workflow,
    WorkflowVersion,
    version_row_id,
)
from crawlfleet.model.task import EMPTY_OBJECT
from crawlfleet.ports.workflows import RunFilter


class MemoryWorkflows:
    """Implements `crawlfleet.ports.workflows.Workflows`."""

    _present: Present

    def __init__(self) -> None:
        self._workflows: Table[Workflow] = Table()
        self._versions: Table[WorkflowVersion] = Table()
        self._runs: Table[Run] = Table()
        self._run_steps: dict[str, Table[RunStep]] = {}
        """By run."""
        self._live_runs: dict[str, None] = {}

    async def workflow(self, id: str) -> Workflow | None:
        self._need_open()
        return self._workflows.rows.get(id)

    async def find_workflows(
        self, *, project_id: str | None, name: str | None, after: str | None, limit: int
    ) -> list[Workflow]:
        self._need_open()
        found = (
            each
            for each in self._workflows.beyond(after, newest_first=False)
            if project_id in (None, each.project_id) and name in (None, each.name)
        )
        return share_all(islice(found, max(limit, 0)))

    async def workflow_version(self, workflow_id: str, number: int) -> WorkflowVersion | None:
        self._need_open()
        found = self._versions.rows.get(version_row_id(workflow_id, number))
        return None if found is None else share_all([found])[0]

    async def workflow_versions(
        self, workflow_id: str, *, below: int | None, limit: int
    ) -> list[WorkflowVersion]:
        self._need_open()
        found = (
            replace(each, document=EMPTY_OBJECT)
            for each in self._versions.beyond(None, newest_first=True)
            if each.workflow_id == workflow_id and (below is None or each.number < below)
        )
        return [*islice(found, max(limit, 0))]

    async def workflow_run(self, id: str) -> Run | None:
        self._need_open()
        found = self._runs.rows.get(id)
        return None if found is None else share_all([found])[0]

    async def run_states(self, ids: Sequence[str]) -> dict[str, RunStatus]:
        self._need_open()
        rows = self._runs.rows
        return {wanted: rows[wanted].status for wanted in ids if wanted in rows}

    async def find_runs(self, filter: RunFilter, *, after: str | None, limit: int) -> list[Run]:
        self._need_open()
        found = (
            each
            for each in self._runs.beyond(after, newest_first=True)
            if filter.project_id in (None, each.project_id)
            and filter.workflow_id in (None, each.workflow_id)
            and filter.status in (None, each.status)
        )
        return share_all(islice(found, max(limit, 0)))

    async def live_runs(self, *, after: str | None, limit: int) -> list[Run]:
        self._need_open()
        found = sorted(id for id in self._live_runs if after is None or id > after)
        return share_all(self._runs.rows[id] for id in found[: max(limit, 0)])

    async def run_steps(self, run_id: str) -> list[RunStep]:
        self._need_open()
        return share_all(self._run_steps.get(run_id, Table()))

    async def remove_runs(self, *, before: float, limit: int) -> int:
        self._need_open()
        ended = sorted(
            (each.ended_at, each.id)
            for each in self._runs
            if each.ended_at is not None and each.ended_at < before
        )
        gone = [id for _, id in ended[: max(limit, 0)]]
        self._runs.remove(gone)
        for run_id in gone:
            del self._present.versions[Run][run_id]
            for step in self._run_steps.pop(run_id, Table()):
                del self._present.versions[RunStep][step.id]
        return len(gone)

    def _put_run(self, run: Run) -> None:
        self._runs.put(run)
        if run.ended_at is None:
            self._live_runs[run.id] = None
        else:
            self._live_runs.pop(run.id, None)

    def _put_step(self, step: RunStep) -> None:
        self._run_steps.setdefault(step.run_id, Table()).put(step)

    def _need_open(self) -> None:
        """Raises when the store is closed."""
        raise NotImplementedError
