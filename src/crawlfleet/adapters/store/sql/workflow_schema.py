"""The tables of workflows, their versions and their runs; as in `schema`."""

from typing import Final

from sqlalchemy import Index, Table

from crawlfleet.adapters.store.sql.columns import (
    id_column,
    json_column,
    metadata,
    number_column,
    partial_index,
    real_column,
    text_column,
)

workflows: Final = Table(
    "crawler_workflows",
    metadata,
    id_column(),
    text_column("project_id"),
    text_column("name"),
    number_column("latest"),
    number_column("steps"),
    text_column("digest"),
    real_column("created_at"),
    real_column("updated_at"),
    number_column("version"),
    text_column("description"),
)
Index("ix_workflows_name", workflows.c.project_id, workflows.c.name, workflows.c.id)

workflow_versions: Final = Table(
    "crawler_workflow_versions",
    metadata,
    id_column(),
    text_column("workflow_id"),
    number_column("number"),
    text_column("document"),
    text_column("made_by"),
    real_column("created_at"),
    number_column("version"),
)
Index("ix_workflow_versions", workflow_versions.c.workflow_id, workflow_versions.c.number)

runs: Final = Table(
    "crawler_workflow_runs",
    metadata,
    id_column(),
    text_column("project_id"),
    text_column("workflow_id"),
    text_column("name"),
    number_column("number"),
    text_column("status"),
    text_column("parameters"),
    number_column("steps"),
    number_column("attempt"),
    real_column("created_at"),
    real_column("updated_at"),
    real_column("ended_at", null=True),
    number_column("version"),
    json_column("options"),
)
Index("ix_runs_workflow", runs.c.workflow_id, runs.c.id)
Index("ix_runs_project", runs.c.project_id, runs.c.id)
Index("ix_runs_status", runs.c.status, runs.c.id)
partial_index("ix_runs_live", runs.c.id, where=runs.c.ended_at.is_(None))
partial_index("ix_runs_ended", runs.c.ended_at, runs.c.id, where=runs.c.ended_at.is_not(None))

run_steps: Final = Table(
    "crawler_workflow_run_steps",
    metadata,
    id_column(),
    text_column("run_id"),
    text_column("step"),
    text_column("status"),
    number_column("attempt"),
    number_column("count"),
    real_column("started_at", null=True),
    real_column("ended_at", null=True),
    real_column("updated_at"),
    text_column("reason"),
    number_column("version"),
)
"""Their ids begin with that of their run, by which they are found."""
