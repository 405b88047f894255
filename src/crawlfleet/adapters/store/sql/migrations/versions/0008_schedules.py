"""Schedules, and what became of their due instants."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0008"
down_revision = "0007"

TEXT = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "crawler_schedules",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("project_id", TEXT, nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("status", TEXT, nullable=False),
        sa.Column("rule", TEXT),
        sa.Column("task", TEXT, nullable=False),
        sa.Column("cursor", sa.Double(), nullable=False),
        sa.Column("edition", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.Column("removed_at", sa.Double()),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("options", TEXT),
        sa.PrimaryKeyConstraint("id"),
    )
    is_removed = sa.text("removed_at IS NOT NULL")
    op.create_index(
        "ix_schedules_removed",
        "crawler_schedules",
        ["removed_at", "id"],
        sqlite_where=is_removed,
        postgresql_where=is_removed,
    )
    op.create_table(
        "crawler_schedule_firings",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("schedule_id", TEXT, nullable=False),
        sa.Column("project_id", TEXT, nullable=False),
        sa.Column("due_at", sa.Double(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("outcome", TEXT, nullable=False),
        sa.Column("origin", TEXT, nullable=False),
        sa.Column("task_id", TEXT),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("options", TEXT),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_firings_schedule", "crawler_schedule_firings", ["schedule_id", "id"])
    op.create_index("ix_firings_at", "crawler_schedule_firings", ["at", "id"])
