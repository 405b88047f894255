"""Logs of executions, nodes over time, and what operators say about nodes."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0004"
down_revision = "0003"

TEXT = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")


def upgrade() -> None:
    op.add_column("crawler_nodes", sa.Column("label_overrides", TEXT))
    op.add_column("crawler_nodes", sa.Column("description_override", TEXT))
    op.create_table(
        "crawler_execution_logs",
        sa.Column("execution_id", TEXT, nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("level", TEXT, nullable=False),
        sa.Column("message", TEXT, nullable=False),
        sa.Column("fields", TEXT),
        sa.PrimaryKeyConstraint("execution_id", "seq"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_execution_logs_at", "crawler_execution_logs", ["at"])
    op.create_table(
        "crawler_node_samples",
        sa.Column("node_id", TEXT, nullable=False),
        sa.Column("resolution", TEXT, nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.Column("cpu_usage", sa.Double(), nullable=False),
        sa.Column("memory_usage", sa.Double(), nullable=False),
        sa.Column("gpu_usage", sa.Double()),
        sa.Column("network_io", sa.Double(), nullable=False),
        sa.Column("disk_io", sa.Double(), nullable=False),
        sa.Column("load", sa.Double(), nullable=False),
        sa.Column("active_tasks", sa.Double(), nullable=False),
        sa.Column("ended", sa.BigInteger(), nullable=False),
        sa.Column("errors", sa.BigInteger(), nullable=False),
        sa.Column("latency_s", sa.Double()),
        sa.PrimaryKeyConstraint("node_id", "resolution", "at"),
        sqlite_with_rowid=False,
    )
