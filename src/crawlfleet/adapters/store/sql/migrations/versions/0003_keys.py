"""Room for what keys and node tokens have learnt, the projects of events, and the audit log."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0003"
down_revision = "0002"

TEXT = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")


def upgrade() -> None:
    op.add_column("crawler_keys", sa.Column("options", TEXT))
    op.add_column("crawler_nodes", sa.Column("options", TEXT))
    op.add_column("crawler_events", sa.Column("project_id", TEXT))
    op.create_table(
        "crawler_audit",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("actor", TEXT, nullable=False),
        sa.Column("actor_id", TEXT, nullable=False),
        sa.Column("role", TEXT, nullable=False),
        sa.Column("address", TEXT, nullable=False),
        sa.Column("action", TEXT, nullable=False),
        sa.Column("subjects", TEXT),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.Column("project_id", TEXT),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_audit_at", "crawler_audit", ["at", "id"])
