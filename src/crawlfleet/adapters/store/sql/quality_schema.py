"""The table of measured runs; as in `schema`."""

from typing import Final

from sqlalchemy import Index, Table

from crawlfleet.adapters.store.sql.columns import (
    id_column,
    json_column,
    metadata,
    number_column,
    real_column,
    text_column,
)

measured_runs: Final = Table(
    "crawler_measured_runs",
    metadata,
    id_column(),
    text_column("series"),
    text_column("project_id"),
    text_column("task_id"),
    real_column("at"),
    text_column("verdict"),
    text_column("decision"),
    number_column("version"),
    json_column("options"),
)
Index("ix_measured_runs_series", measured_runs.c.series, measured_runs.c.id)
Index("ix_measured_runs_task", measured_runs.c.task_id, measured_runs.c.id)
Index("ix_measured_runs_at", measured_runs.c.at, measured_runs.c.id)
