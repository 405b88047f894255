"""What projects have used, by the hour."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0017"
down_revision = "0016"

TEXT = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "crawler_usage",
        sa.Column("project_id", TEXT, nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("submitted", sa.BigInteger(), nullable=False),
        sa.Column("completed", sa.BigInteger(), nullable=False),
        sa.Column("failed", sa.BigInteger(), nullable=False),
        sa.Column("cancelled", sa.BigInteger(), nullable=False),
        sa.Column("attempts", sa.BigInteger(), nullable=False),
        sa.Column("cpu_s", sa.Double(), nullable=False),
        sa.Column("run_s", sa.Double(), nullable=False),
        sa.Column("pages", sa.BigInteger(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("peak_waiting", sa.BigInteger(), nullable=False),
        sa.Column("peak_running", sa.BigInteger(), nullable=False),
        sa.Column("storage_bytes", sa.BigInteger()),
        sa.PrimaryKeyConstraint("project_id", "at"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_usage_at", "crawler_usage", ["at"])
