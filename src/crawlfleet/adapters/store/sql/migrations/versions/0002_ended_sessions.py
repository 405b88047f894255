"""Find ended sessions by when they ended, to remove them."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    ended = sa.text("ended_at IS NOT NULL")
    op.create_index(
        "ix_sessions_ended",
        "crawler_node_sessions",
        ["ended_at", "id"],
        sqlite_where=ended,
        postgresql_where=ended,
    )
