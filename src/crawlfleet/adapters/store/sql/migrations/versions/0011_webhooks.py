"""Webhooks, what is on its way to them, and rules for alerts."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0011"
down_revision = "0010"

TEXT = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "crawler_webhooks",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("project_id", TEXT),
        sa.Column("status", TEXT, nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.Column("removed_at", sa.Double()),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("options", TEXT),
        sa.PrimaryKeyConstraint("id"),
    )
    _partial_index(
        "ix_webhooks_removed", "crawler_webhooks", ["removed_at", "id"], "removed_at IS NOT NULL"
    )
    op.create_table(
        "crawler_deliveries",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("webhook_id", TEXT, nullable=False),
        sa.Column("subject", TEXT, nullable=False),
        sa.Column("kind", TEXT, nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("status", TEXT, nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("due_at", sa.Double(), nullable=False),
        sa.Column("body", TEXT, nullable=False),
        sa.Column("settled_at", sa.Double()),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("options", TEXT),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_deliveries_webhook", "crawler_deliveries", ["webhook_id", "status", "id"])
    _partial_index("ix_deliveries_waiting", "crawler_deliveries", ["id"], "settled_at IS NULL")
    _partial_index(
        "ix_deliveries_settled",
        "crawler_deliveries",
        ["settled_at", "id"],
        "settled_at IS NOT NULL",
    )
    op.create_table(
        "crawler_alert_rules",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("project_id", TEXT),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.Column("removed_at", sa.Double()),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("options", TEXT),
        sa.PrimaryKeyConstraint("id"),
    )


def _partial_index(name: str, table: str, columns: list[str], where: str) -> None:
    rows = sa.text(where)
    op.create_index(name, table, columns, sqlite_where=rows, postgresql_where=rows)
