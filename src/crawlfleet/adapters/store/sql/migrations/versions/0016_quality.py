"""What was measured of the items of crawls."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0016"
down_revision = "0013"

TEXT = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")


def upgrade() -> None:
    table = "crawler_measured_runs"
    op.create_table(
        table,
        sa.Column("id", TEXT, nullable=False),
        sa.Column("series", TEXT, nullable=False),
        sa.Column("project_id", TEXT, nullable=False),
        sa.Column("task_id", TEXT, nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("verdict", TEXT, nullable=False),
        sa.Column("decision", TEXT, nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("options", TEXT),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_measured_runs_series", table, ["series", "id"])
    op.create_index("ix_measured_runs_task", table, ["task_id", "id"])
    op.create_index("ix_measured_runs_at", table, ["at", "id"])
