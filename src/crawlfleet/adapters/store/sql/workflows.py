"""The part of a SQL store that is about workflows."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Final, Generic, TypeVar

import msgspec

from crawlfleet.adapters.store.sql import maintenance, rows
from crawlfleet.adapters.store.sql.rows import RowMap
from crawlfleet.adapters.store.sql.statements import Rows, Statements, Values
from crawlfleet.features.workflows.model import (
    Run,
    RunStatus,
    RunStep,
    Workflow,
    WorkflowVersion,
    version_row_id,
)
from crawlfleet.ports.workflows import RunFilter

S = TypeVar("S", bound=msgspec.Struct)
T = TypeVar("T")
LARGEST: Final = 2**63 - 1


class SqlWorkflows(ABC, Generic[T]):
    """Implements `crawlfleet.ports.workflows.Workflows`."""

    _statements: Statements[T]

    @abstractmethod
    async def _decode(
        self, mapping: RowMap[S], statement: T, runs: Sequence[Values], choose: Any = None
    ) -> list[S]: ...

    @abstractmethod
    async def _one(self, mapping: RowMap[S], id: str) -> S | None: ...

    @abstractmethod
    async def _fetch(self, statement: T, values: Values) -> Rows: ...

    @abstractmethod
    async def _write(self, job: Any) -> Any: ...

    async def workflow(self, id: str) -> Workflow | None:
        return await self._one(rows.WORKFLOW, id)

    async def find_workflows(
        self, *, project_id: str | None, name: str | None, after: str | None, limit: int
    ) -> list[Workflow]:
        values = _given({"project_id": project_id, "name": name, "after": after})
        statement = self._statements.of_workflows.find_workflows(frozenset(values))
        return await self._decode(rows.WORKFLOW, statement, [values | {"limit": max(limit, 0)}])

    async def workflow_version(self, workflow_id: str, number: int) -> WorkflowVersion | None:
        return await self._one(rows.WORKFLOW_VERSION, version_row_id(workflow_id, number))

    async def workflow_versions(
        self, workflow_id: str, *, below: int | None, limit: int
    ) -> list[WorkflowVersion]:
        values: Values = {
            "workflow_id": workflow_id,
            "below": LARGEST if below is None else below,
            "limit": max(limit, 0),
        }
        return await self._decode(
            rows.WORKFLOW_VERSION, self._statements.of_workflows.versions, [values]
        )

    async def workflow_run(self, id: str) -> Run | None:
        return await self._one(rows.RUN, id)

    async def run_states(self, ids: Sequence[str]) -> dict[str, RunStatus]:
        found = await self._fetch(self._statements.of_workflows.run_states, {"ids": list(ids)})
        return {id: RunStatus(status) for id, status in found}

    async def find_runs(self, filter: RunFilter, *, after: str | None, limit: int) -> list[Run]:
        values = _given(
            {
                "project_id": filter.project_id,
                "workflow_id": filter.workflow_id,
                "status": None if filter.status is None else filter.status.value,
                "after": after,
            }
        )
        statement = self._statements.of_workflows.find_runs(frozenset(values))
        return await self._decode(rows.RUN, statement, [values | {"limit": max(limit, 0)}])

    async def live_runs(self, *, after: str | None, limit: int) -> list[Run]:
        values: Values = {"after": after or "", "limit": max(limit, 0)}
        return await self._decode(rows.RUN, self._statements.of_workflows.live_runs, [values])

    async def run_steps(self, run_id: str) -> list[RunStep]:
        values = maintenance.steps_of(run_id)
        return await self._decode(rows.RUN_STEP, self._statements.of_workflows.steps, [values])

    async def remove_runs(self, *, before: float, limit: int) -> int:
        return int(await self._write(maintenance.remove_runs(before, limit)))


def _given(values: Values) -> Values:
    return {name: value for name, value in values.items() if value is not None}
