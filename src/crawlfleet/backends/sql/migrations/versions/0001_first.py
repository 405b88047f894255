"""The first schema."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "crawler_claims",
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("expires_at", sa.Double(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("scope", "key"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_claims_expiry", "crawler_claims", ["expires_at"])
    op.create_index("ix_claims_holder", "crawler_claims", ["holder"])
    op.create_table(
        "crawler_clusters",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("configuration", sa.Text()),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "crawler_cursors",
        sa.Column("consumer", sa.Text(), nullable=False),
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
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("cause", sa.Text(), nullable=False),
        sa.Column("from_state", sa.Text()),
        sa.Column("to_state", sa.Text()),
        sa.Column("details", sa.Text()),
        sa.PrimaryKeyConstraint("seq"),
    )
    op.create_index("ix_events_subject", "crawler_events", ["subject", "seq"])
    op.create_table(
        "crawler_keys",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("secret_hash", sa.Text(), nullable=False),
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
        sa.Column("leader", sa.Text(), nullable=False),
        sa.Column("removed_seq", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "crawler_node_sessions",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("node_id", sa.Text(), nullable=False),
        sa.Column("started_at", sa.Double(), nullable=False),
        sa.Column("deadline", sa.Double(), nullable=False),
        sa.Column("last_heartbeat", sa.Double(), nullable=False),
        sa.Column("usage", sa.Text()),
        sa.Column("load", sa.Double(), nullable=False),
        sa.Column("ended_at", sa.Double()),
        sa.Column("end_cause", sa.Text(), nullable=False),
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
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("cluster_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("ip_address", sa.Text(), nullable=False),
        sa.Column("port", sa.BigInteger(), nullable=False),
        sa.Column("node_type", sa.Text(), nullable=False),
        sa.Column("region", sa.Text()),
        sa.Column("labels", sa.Text()),
        sa.Column("capabilities", sa.Text()),
        sa.Column("task_types", sa.Text()),
        sa.Column("resources", sa.Text()),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("health_status", sa.Text(), nullable=False),
        sa.Column("health_reason", sa.Text(), nullable=False),
        sa.Column("session_id", sa.Text()),
        sa.Column("token_hash", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "crawler_task_executions",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("task_id", sa.Text(), nullable=False),
        sa.Column("node_id", sa.Text(), nullable=False),
        sa.Column("session_id", sa.Text(), nullable=False),
        sa.Column("token", sa.BigInteger(), nullable=False),
        sa.Column("start_time", sa.Double(), nullable=False),
        sa.Column("running_at", sa.Double()),
        sa.Column("end_time", sa.Double()),
        sa.Column("reserved", sa.Text()),
        sa.Column("allocation", sa.Text()),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("error", sa.Text()),
        sa.Column("metrics", sa.Text()),
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
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("cluster_id", sa.Text(), nullable=False),
        sa.Column("workflow_id", sa.Text()),
        sa.Column("task_type", sa.Text(), nullable=False),
        sa.Column("parameters", sa.Text(), nullable=False),
        sa.Column("priority", sa.BigInteger(), nullable=False),
        sa.Column("min_resources", sa.Text()),
        sa.Column("capabilities", sa.Text()),
        sa.Column("node_type", sa.Text()),
        sa.Column("schedule_strategy", sa.Text()),
        sa.Column("target_region", sa.Text()),
        sa.Column("content_features", sa.Text()),
        sa.Column("timeout_s", sa.Double()),
        sa.Column("options", sa.Text()),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("token", sa.BigInteger(), nullable=False),
        sa.Column("not_before", sa.Double(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.Column("assigned_node", sa.Text()),
        sa.Column("assigned_at", sa.Double()),
        sa.Column("execution_id", sa.Text()),
        sa.Column("started_at", sa.Double()),
        sa.Column("completed_at", sa.Double()),
        sa.Column("result", sa.Text()),
        sa.Column("error", sa.Text()),
        sa.Column("dead_reason", sa.Text()),
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
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
