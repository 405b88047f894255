"""Tasks that are split into shards."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0007"
down_revision = "0006"

TEXT = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")


def upgrade() -> None:
    op.add_column("crawler_tasks", sa.Column("parent_id", TEXT))
    op.add_column("crawler_tasks", sa.Column("shard", sa.BigInteger()))
    is_shard = sa.text("parent_id IS NOT NULL")
    op.create_index(
        "ix_tasks_parent",
        "crawler_tasks",
        ["parent_id", "id"],
        sqlite_where=is_shard,
        postgresql_where=is_shard,
    )
