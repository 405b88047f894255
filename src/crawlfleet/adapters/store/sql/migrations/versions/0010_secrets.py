"""Secrets of projects, sealed."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0010"
down_revision = "0009"

TEXT = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "crawler_secrets",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("project_id", TEXT, nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("sealed", TEXT, nullable=False),
        sa.Column("cause", TEXT, nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
