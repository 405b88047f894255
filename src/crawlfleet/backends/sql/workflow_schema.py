"""The tables of workflows, their versions and their runs; as in `schema`."""

from typing import Final

from sqlalchemy import Index, Table

from crawlfleet.backends.sql.schema import (
    _id,
    _json,
    _number,
    _partial_index,
    _real,
    _text,
)
from crawlfleet.backends.sql.schema import metadata as metadata

workflows: Final = Table(
    "crawler_workflows",
    metadata,
    _id(),
    _text("project_id"),
    _text("name"),
    _number("latest"),
    _number("steps"),
    _text("digest"),
    _real("created_at"),
    _real("updated_at"),
    _number("version"),
    _text("description"),
)
Index("ix_workflows_name", workflows.c.project_id, workflows.c.name, workflows.c.id)

workflow_versions: Final = Table(
    "crawler_workflow_versions",
    metadata,
    _id(),
    _text("workflow_id"),
    _number("number"),
    _text("document"),
    _text("made_by"),
    _real("created_at"),
    _number("version"),
)
Index("ix_workflow_versions", workflow_versions.c.workflow_id, workflow_versions.c.number)

runs: Final = Table(
    "crawler_workflow_runs",
    metadata,
    _id(),
    _text("project_id"),
    _text("workflow_id"),
    _text("name"),
    _number("number"),
    _text("status"),
    _text("parameters"),
    _number("steps"),
    _number("attempt"),
    _real("created_at"),
    _real("updated_at"),
    _real("ended_at", null=True),
    _number("version"),
    _json("options"),
)
Index("ix_runs_workflow", runs.c.workflow_id, runs.c.id)
Index("ix_runs_project", runs.c.project_id, runs.c.id)
Index("ix_runs_status", runs.c.status, runs.c.id)
_partial_index("ix_runs_live", runs.c.id, where=runs.c.ended_at.is_(None))
_partial_index("ix_runs_ended", runs.c.ended_at, runs.c.id, where=runs.c.ended_at.is_not(None))

run_steps: Final = Table(
    "crawler_workflow_run_steps",
    metadata,
    _id(),
    _text("run_id"),
    _text("step"),
    _text("status"),
    _number("attempt"),
    _number("count"),
    _real("started_at", null=True),
    _real("ended_at", null=True),
    _real("updated_at"),
    _text("reason"),
    _number("version"),
)
"""Their ids begin with that of their run, by which they are found."""
