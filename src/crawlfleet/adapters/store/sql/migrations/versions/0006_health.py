"""Nodes that can be removed, and more figures of nodes over time."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.add_column("crawler_nodes", sa.Column("archived_at", sa.Double()))
    is_archived = sa.text("archived_at IS NOT NULL")
    op.create_index(
        "ix_nodes_archived",
        "crawler_nodes",
        ["archived_at", "id"],
        sqlite_where=is_archived,
        postgresql_where=is_archived,
    )
    op.add_column("crawler_node_samples", sa.Column("disk_usage", sa.Double()))
    op.add_column("crawler_node_samples", sa.Column("wait_s", sa.Double()))
