"""The index of live executions, limited by comparisons: SQLite writes it faster than with `IN`."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"

LIVE = "status = 'assigned' OR status = 'running' OR status = 'stopping'"


def upgrade() -> None:
    op.drop_index("ix_executions_live", "crawler_task_executions")
    op.create_index(
        "ix_executions_live",
        "crawler_task_executions",
        ["id"],
        sqlite_where=sa.text(LIVE),
        postgresql_where=sa.text(LIVE),
    )
