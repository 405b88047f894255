"""Projects that can be closed, and clusters whose settings have versions."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0005"
down_revision = "0004"

TEXT = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")
ADDED: dict[str, tuple[tuple[str, Any, str], ...]] = {
    "projects": (
        ("description", TEXT, "''"),
        ("status", TEXT, "'active'"),
    ),
    "crawler_clusters": (("configuration_version", sa.BigInteger(), "0"),),
    "crawler_node_sessions": (
        ("timeout_s", sa.Double(), "0"),
        ("beat", sa.BigInteger(), "0"),
        ("configuration_version", sa.BigInteger(), "0"),
    ),
}


def upgrade() -> None:
    for table, columns in ADDED.items():
        for name, kind, default in columns:
            before = sa.text(default)
            op.add_column(table, sa.Column(name, kind, nullable=False, server_default=before))
    op.create_table(
        "crawler_cluster_configurations",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("cluster_id", TEXT, nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("settings", TEXT),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("cause", TEXT, nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(
        "ix_configurations_cluster", "crawler_cluster_configurations", ["cluster_id", "number"]
    )
