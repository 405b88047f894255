"""Workflows in versions, and their runs."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0013"
down_revision = "0012"

TEXT = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")


def upgrade() -> None:
    _documents()
    _runs()


def _documents() -> None:
    op.create_table(
        "crawler_workflows",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("project_id", TEXT, nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("latest", sa.BigInteger(), nullable=False),
        sa.Column("steps", sa.BigInteger(), nullable=False),
        sa.Column("digest", TEXT, nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("description", TEXT, nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_workflows_name", "crawler_workflows", ["project_id", "name", "id"])
    op.create_table(
        "crawler_workflow_versions",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("workflow_id", TEXT, nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("document", TEXT, nullable=False),
        sa.Column("made_by", TEXT, nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_workflow_versions", "crawler_workflow_versions", ["workflow_id", "number"])


def _runs() -> None:
    op.create_table(
        "crawler_workflow_runs",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("project_id", TEXT, nullable=False),
        sa.Column("workflow_id", TEXT, nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("status", TEXT, nullable=False),
        sa.Column("parameters", TEXT, nullable=False),
        sa.Column("steps", sa.BigInteger(), nullable=False),
        sa.Column("attempt", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.Column("ended_at", sa.Double()),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("options", TEXT),
        sa.PrimaryKeyConstraint("id"),
    )
    table = "crawler_workflow_runs"
    op.create_index("ix_runs_workflow", table, ["workflow_id", "id"])
    op.create_index("ix_runs_project", table, ["project_id", "id"])
    op.create_index("ix_runs_status", table, ["status", "id"])
    lives, ended = sa.text("ended_at IS NULL"), sa.text("ended_at IS NOT NULL")
    op.create_index("ix_runs_live", table, ["id"], sqlite_where=lives, postgresql_where=lives)
    op.create_index(
        "ix_runs_ended", table, ["ended_at", "id"], sqlite_where=ended, postgresql_where=ended
    )
    op.create_table(
        "crawler_workflow_run_steps",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("run_id", TEXT, nullable=False),
        sa.Column("step", TEXT, nullable=False),
        sa.Column("status", TEXT, nullable=False),
        sa.Column("attempt", sa.BigInteger(), nullable=False),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.Column("started_at", sa.Double()),
        sa.Column("ended_at", sa.Double()),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.Column("reason", TEXT, nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
