"""The statements about workflows and their runs."""

from functools import cache
from typing import Generic

from sqlalchemy import bindparam, delete, literal_column, select

from crawlfleet.adapters.store.sql.dialect import Dialect, T, limited
from crawlfleet.adapters.store.sql.workflow_schema import (
    run_steps,
    runs,
    workflow_versions,
    workflows,
)


class WorkflowStatements(Generic[T]):
    """All of them in one dialect."""

    def __init__(self, dialect: Dialect[T]) -> None:
        self._dialect = dialect
        finish = dialect.finish
        self.find_workflows = cache(self._find_workflows)
        self.find_runs = cache(self._find_runs)
        versions = workflow_versions.c
        without_document = [
            literal_column("'{}'").label("document") if each.key == "document" else each
            for each in workflow_versions.columns
        ]
        self.versions = finish(
            limited(
                select(*without_document)
                .where(versions.workflow_id == bindparam("workflow_id"))
                .where(versions.number < bindparam("below"))
                .order_by(versions.number.desc())
            )
        )
        self.live_runs = finish(
            limited(
                select(runs)
                .where(runs.c.ended_at.is_(None))
                .where(runs.c.id > bindparam("after", type_=runs.c.id.type))
                .order_by(runs.c.id)
            )
        )
        self.run_states = finish(
            select(runs.c.id, runs.c.status).where(dialect.among_given(runs.c.id, "ids"))
        )
        self.steps = finish(
            select(run_steps)
            .where(run_steps.c.id > bindparam("first", type_=run_steps.c.id.type))
            .where(run_steps.c.id < bindparam("last", type_=run_steps.c.id.type))
            .order_by(run_steps.c.id)
        )
        old = limited(
            select(runs.c.id)
            .where(runs.c.ended_at < bindparam("before"))
            .order_by(runs.c.ended_at, runs.c.id)
        ).subquery()
        self.old_runs = finish(select(dialect.collect(old.c.id)))
        self.remove_runs = finish(delete(runs).where(dialect.among_given(runs.c.id, "ids")))
        self.remove_steps = finish(
            delete(run_steps)
            .where(run_steps.c.id > bindparam("first", type_=run_steps.c.id.type))
            .where(run_steps.c.id < bindparam("last", type_=run_steps.c.id.type))
        )

    def _find_workflows(self, given: frozenset[str]) -> T:
        """Up to `limit` workflows, in order of id; `given` names the parameters that restrict."""
        columns = workflows.c
        conditions = {
            "project_id": columns.project_id == bindparam("project_id"),
            "name": columns.name == bindparam("name"),
            "after": columns.id > bindparam("after", type_=columns.id.type),
        }
        statement = select(workflows).where(*(conditions[name] for name in sorted(given)))
        return self._dialect.finish(limited(statement.order_by(columns.id)))

    def _find_runs(self, given: frozenset[str]) -> T:
        """Up to `limit` runs, newest first; `given` names the parameters that restrict."""
        columns = runs.c
        conditions = {
            "project_id": columns.project_id == bindparam("project_id"),
            "workflow_id": columns.workflow_id == bindparam("workflow_id"),
            "status": columns.status == bindparam("status"),
            "after": columns.id < bindparam("after", type_=columns.id.type),
        }
        statement = select(runs).where(*(conditions[name] for name in sorted(given)))
        return self._dialect.finish(limited(statement.order_by(columns.id.desc())))
