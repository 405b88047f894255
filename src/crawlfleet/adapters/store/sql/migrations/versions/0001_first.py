"""The first schema."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None

TEXT = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "crawler_claims",
        sa.Column("scope", TEXT, nullable=False),
        sa.Column("key", TEXT, nullable=False),
        sa.Column("holder", TEXT, nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("expires_at", sa.Double(), nullable=False),
        sa.Column("digest", TEXT, nullable=False),
        sa.PrimaryKeyConstraint("scope", "key"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_claims_expiry", "crawler_claims", ["expires_at"])
    op.create_index("ix_claims_holder", "crawler_claims", ["holder"])
    op.create_table(
        "crawler_clusters",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("project_id", TEXT, nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("description", TEXT, nullable=False),
        sa.Column("configuration", TEXT),
        sa.Column("status", TEXT, nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "crawler_cursors",
        sa.Column("consumer", TEXT, nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("consumer"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "crawler_events",
        sa.Column(
            "seq",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=False,
            nullable=False,
        ),
        sa.Column("kind", TEXT, nullable=False),
        sa.Column("subject", TEXT, nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("cause", TEXT, nullable=False),
        sa.Column("from_state", TEXT),
        sa.Column("to_state", TEXT),
        sa.Column("details", TEXT),
        sa.PrimaryKeyConstraint("seq"),
    )
    op.create_index("ix_events_subject", "crawler_events", ["subject", "seq"])
    op.create_table(
        "crawler_keys",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("role", TEXT, nullable=False),
        sa.Column("secret_hash", TEXT, nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("expires_at", sa.Double()),
        sa.Column("revoked_at", sa.Double()),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "crawler_leadership",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("leader", TEXT, nullable=False),
        sa.Column("removed_seq", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "crawler_node_sessions",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("node_id", TEXT, nullable=False),
        sa.Column("started_at", sa.Double(), nullable=False),
        sa.Column("deadline", sa.Double(), nullable=False),
        sa.Column("last_heartbeat", sa.Double(), nullable=False),
        sa.Column("usage", TEXT),
        sa.Column("load", sa.Double(), nullable=False),
        sa.Column("ended_at", sa.Double()),
        sa.Column("end_cause", TEXT, nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(
        "ix_sessions_live",
        "crawler_node_sessions",
        ["id"],
        sqlite_where=sa.text("ended_at IS NULL"),
        postgresql_where=sa.text("ended_at IS NULL"),
    )
    op.create_table(
        "crawler_nodes",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("cluster_id", TEXT, nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("description", TEXT, nullable=False),
        sa.Column("ip_address", TEXT, nullable=False),
        sa.Column("port", sa.BigInteger(), nullable=False),
        sa.Column("node_type", TEXT, nullable=False),
        sa.Column("region", TEXT),
        sa.Column("labels", TEXT),
        sa.Column("capabilities", TEXT),
        sa.Column("task_types", TEXT),
        sa.Column("resources", TEXT),
        sa.Column("status", TEXT, nullable=False),
        sa.Column("health_status", TEXT, nullable=False),
        sa.Column("health_reason", TEXT, nullable=False),
        sa.Column("session_id", TEXT),
        sa.Column("token_hash", TEXT, nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "crawler_task_executions",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("task_id", TEXT, nullable=False),
        sa.Column("node_id", TEXT, nullable=False),
        sa.Column("session_id", TEXT, nullable=False),
        sa.Column("token", sa.BigInteger(), nullable=False),
        sa.Column("start_time", sa.Double(), nullable=False),
        sa.Column("running_at", sa.Double()),
        sa.Column("end_time", sa.Double()),
        sa.Column("reserved", TEXT),
        sa.Column("allocation", TEXT),
        sa.Column("status", TEXT, nullable=False),
        sa.Column("error", TEXT),
        sa.Column("metrics", TEXT),
        sa.Column("retry_count", sa.BigInteger(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(
        "ix_executions_live",
        "crawler_task_executions",
        ["id"],
        sqlite_where=sa.text("status IN ('assigned', 'running', 'stopping')"),
        postgresql_where=sa.text("status IN ('assigned', 'running', 'stopping')"),
    )
    op.create_index("ix_executions_task", "crawler_task_executions", ["task_id", "token"])
    op.create_table(
        "crawler_tasks",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("project_id", TEXT, nullable=False),
        sa.Column("cluster_id", TEXT, nullable=False),
        sa.Column("workflow_id", TEXT),
        sa.Column("task_type", TEXT, nullable=False),
        sa.Column("parameters", TEXT, nullable=False),
        sa.Column("priority", sa.BigInteger(), nullable=False),
        sa.Column("min_resources", TEXT),
        sa.Column("capabilities", TEXT),
        sa.Column("node_type", TEXT),
        sa.Column("schedule_strategy", TEXT),
        sa.Column("target_region", TEXT),
        sa.Column("content_features", TEXT),
        sa.Column("timeout_s", sa.Double()),
        sa.Column("options", TEXT),
        sa.Column("status", TEXT, nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("token", sa.BigInteger(), nullable=False),
        sa.Column("not_before", sa.Double(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.Column("assigned_node", TEXT),
        sa.Column("assigned_at", sa.Double()),
        sa.Column("execution_id", TEXT),
        sa.Column("started_at", sa.Double()),
        sa.Column("completed_at", sa.Double()),
        sa.Column("result", TEXT),
        sa.Column("error", TEXT),
        sa.Column("dead_reason", TEXT),
        sa.Column("retry_count", sa.BigInteger(), nullable=False),
        sa.Column("max_retries", sa.BigInteger(), nullable=False),
        sa.Column("loss_count", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(
        "ix_tasks_completed",
        "crawler_tasks",
        ["completed_at", "id"],
        sqlite_where=sa.text("completed_at IS NOT NULL"),
        postgresql_where=sa.text("completed_at IS NOT NULL"),
    )
    op.create_index(
        "ix_tasks_dead",
        "crawler_tasks",
        ["id"],
        sqlite_where=sa.text("dead_reason IS NOT NULL"),
        postgresql_where=sa.text("dead_reason IS NOT NULL"),
    )
    op.create_index(
        "ix_tasks_node",
        "crawler_tasks",
        ["assigned_node", "id"],
        sqlite_where=sa.text("assigned_node IS NOT NULL"),
        postgresql_where=sa.text("assigned_node IS NOT NULL"),
    )
    op.create_index("ix_tasks_project", "crawler_tasks", ["project_id", "id"])
    op.create_index("ix_tasks_status", "crawler_tasks", ["status", "id", "project_id"])
    op.create_index(
        "ix_tasks_workflow",
        "crawler_tasks",
        ["workflow_id", "id"],
        sqlite_where=sa.text("workflow_id IS NOT NULL"),
        postgresql_where=sa.text("workflow_id IS NOT NULL"),
    )
    op.create_table(
        "projects",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
