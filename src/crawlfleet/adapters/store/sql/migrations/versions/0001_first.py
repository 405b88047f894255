"""The first schema."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None

TEXT = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")
SEQUENCE = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def _partial_index(name: str, table: str, columns: list[str], where: str) -> None:
    rows = sa.text(where)
    op.create_index(name, table, columns, sqlite_where=rows, postgresql_where=rows)


def upgrade() -> None:
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
    op.create_table(
        "crawler_bundles",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("project_id", TEXT, nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("current", sa.BigInteger(), nullable=False),
        sa.Column("last", sa.BigInteger(), nullable=False),
        sa.Column("versions", TEXT),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
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
        sa.Column("configuration_version", sa.BigInteger(), nullable=False),
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
    _partial_index(
        "ix_deliveries_settled",
        "crawler_deliveries",
        ["settled_at", "id"],
        "settled_at IS NOT NULL",
    )
    _partial_index("ix_deliveries_waiting", "crawler_deliveries", ["id"], "settled_at IS NULL")
    op.create_index("ix_deliveries_webhook", "crawler_deliveries", ["webhook_id", "status", "id"])
    op.create_table(
        "crawler_events",
        sa.Column("seq", SEQUENCE, autoincrement=False, nullable=False),
        sa.Column("kind", TEXT, nullable=False),
        sa.Column("subject", TEXT, nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("cause", TEXT, nullable=False),
        sa.Column("from_state", TEXT),
        sa.Column("to_state", TEXT),
        sa.Column("details", TEXT),
        sa.Column("project_id", TEXT),
        sa.PrimaryKeyConstraint("seq"),
    )
    op.create_index("ix_events_subject", "crawler_events", ["subject", "seq"])
    op.create_table(
        "crawler_execution_logs",
        sa.Column("execution_id", TEXT, nullable=False),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("level", TEXT, nullable=False),
        sa.Column("message", TEXT, nullable=False),
        sa.Column("fields", TEXT),
        sa.PrimaryKeyConstraint("execution_id", "seq"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_execution_logs_at", "crawler_execution_logs", ["at"])
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
        sa.Column("options", TEXT),
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
        "crawler_measured_runs",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("series", TEXT, nullable=False),
        sa.Column("project_id", TEXT, nullable=False),
        sa.Column("task_id", TEXT, nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("verdict", TEXT, nullable=False),
        sa.Column("decision", TEXT, nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("options", TEXT),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_measured_runs_at", "crawler_measured_runs", ["at", "id"])
    op.create_index("ix_measured_runs_series", "crawler_measured_runs", ["series", "id"])
    op.create_index("ix_measured_runs_task", "crawler_measured_runs", ["task_id", "id"])
    op.create_table(
        "crawler_node_samples",
        sa.Column("node_id", TEXT, nullable=False),
        sa.Column("resolution", TEXT, nullable=False),
        sa.Column("at", sa.Double(), autoincrement=False, nullable=False),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.Column("cpu_usage", sa.Double(), nullable=False),
        sa.Column("memory_usage", sa.Double(), nullable=False),
        sa.Column("gpu_usage", sa.Double()),
        sa.Column("network_io", sa.Double(), nullable=False),
        sa.Column("disk_io", sa.Double(), nullable=False),
        sa.Column("load", sa.Double(), nullable=False),
        sa.Column("active_tasks", sa.Double(), nullable=False),
        sa.Column("ended", sa.BigInteger(), nullable=False),
        sa.Column("errors", sa.BigInteger(), nullable=False),
        sa.Column("latency_s", sa.Double()),
        sa.Column("disk_usage", sa.Double()),
        sa.Column("wait_s", sa.Double()),
        sa.PrimaryKeyConstraint("node_id", "resolution", "at"),
        sqlite_with_rowid=False,
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
        sa.Column("timeout_s", sa.Double(), nullable=False),
        sa.Column("beat", sa.BigInteger(), nullable=False),
        sa.Column("configuration_version", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    _partial_index(
        "ix_sessions_ended", "crawler_node_sessions", ["ended_at", "id"], "ended_at IS NOT NULL"
    )
    _partial_index("ix_sessions_live", "crawler_node_sessions", ["id"], "ended_at IS NULL")
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
        sa.Column("label_overrides", TEXT),
        sa.Column("description_override", TEXT),
        sa.Column("options", TEXT),
        sa.Column("archived_at", sa.Double()),
        sa.PrimaryKeyConstraint("id"),
    )
    _partial_index(
        "ix_nodes_archived", "crawler_nodes", ["archived_at", "id"], "archived_at IS NOT NULL"
    )
    op.create_table(
        "crawler_schedule_firings",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("schedule_id", TEXT, nullable=False),
        sa.Column("project_id", TEXT, nullable=False),
        sa.Column("due_at", sa.Double(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("outcome", TEXT, nullable=False),
        sa.Column("origin", TEXT, nullable=False),
        sa.Column("task_id", TEXT),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("options", TEXT),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_firings_at", "crawler_schedule_firings", ["at", "id"])
    op.create_index("ix_firings_schedule", "crawler_schedule_firings", ["schedule_id", "id"])
    op.create_table(
        "crawler_schedules",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("project_id", TEXT, nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("status", TEXT, nullable=False),
        sa.Column("rule", TEXT),
        sa.Column("task", TEXT, nullable=False),
        sa.Column("cursor", sa.Double(), nullable=False),
        sa.Column("edition", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.Column("removed_at", sa.Double()),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("options", TEXT),
        sa.PrimaryKeyConstraint("id"),
    )
    _partial_index(
        "ix_schedules_removed", "crawler_schedules", ["removed_at", "id"], "removed_at IS NOT NULL"
    )
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
    _partial_index(
        "ix_executions_live",
        "crawler_task_executions",
        ["id"],
        "status = 'assigned' OR status = 'running' OR status = 'stopping'",
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
        sa.Column("parent_id", TEXT),
        sa.Column("shard", sa.BigInteger()),
        sa.PrimaryKeyConstraint("id"),
    )
    _partial_index(
        "ix_tasks_completed", "crawler_tasks", ["completed_at", "id"], "completed_at IS NOT NULL"
    )
    _partial_index("ix_tasks_dead", "crawler_tasks", ["id"], "dead_reason IS NOT NULL")
    _partial_index(
        "ix_tasks_node", "crawler_tasks", ["assigned_node", "id"], "assigned_node IS NOT NULL"
    )
    _partial_index("ix_tasks_parent", "crawler_tasks", ["parent_id", "id"], "parent_id IS NOT NULL")
    op.create_index("ix_tasks_project", "crawler_tasks", ["project_id", "id"])
    op.create_index("ix_tasks_status", "crawler_tasks", ["status", "id", "project_id"])
    _partial_index(
        "ix_tasks_workflow", "crawler_tasks", ["workflow_id", "id"], "workflow_id IS NOT NULL"
    )
    op.create_table(
        "crawler_usage",
        sa.Column("project_id", TEXT, nullable=False),
        sa.Column("at", sa.Double(), autoincrement=False, nullable=False),
        sa.Column("submitted", sa.BigInteger(), nullable=False),
        sa.Column("completed", sa.BigInteger(), nullable=False),
        sa.Column("failed", sa.BigInteger(), nullable=False),
        sa.Column("cancelled", sa.BigInteger(), nullable=False),
        sa.Column("attempts", sa.BigInteger(), nullable=False),
        sa.Column("cpu_s", sa.Double(), nullable=False),
        sa.Column("run_s", sa.Double(), nullable=False),
        sa.Column("pages", sa.BigInteger(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("peak_waiting", sa.BigInteger(), nullable=False),
        sa.Column("peak_running", sa.BigInteger(), nullable=False),
        sa.Column("storage_bytes", sa.BigInteger()),
        sa.PrimaryKeyConstraint("project_id", "at"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_usage_at", "crawler_usage", ["at"])
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
        "crawler_workflow_run_steps",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("run_id", TEXT, nullable=False),
        sa.Column("step", TEXT, nullable=False),
        sa.Column("status", TEXT, nullable=False),
        sa.Column("attempt", sa.BigInteger(), nullable=False),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.Column("started_at", sa.Double()),
        sa.Column("ended_at", sa.Double()),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.Column("reason", TEXT, nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "crawler_workflow_runs",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("project_id", TEXT, nullable=False),
        sa.Column("workflow_id", TEXT, nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("status", TEXT, nullable=False),
        sa.Column("parameters", TEXT, nullable=False),
        sa.Column("steps", sa.BigInteger(), nullable=False),
        sa.Column("attempt", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.Column("ended_at", sa.Double()),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("options", TEXT),
        sa.PrimaryKeyConstraint("id"),
    )
    _partial_index(
        "ix_runs_ended", "crawler_workflow_runs", ["ended_at", "id"], "ended_at IS NOT NULL"
    )
    _partial_index("ix_runs_live", "crawler_workflow_runs", ["id"], "ended_at IS NULL")
    op.create_index("ix_runs_project", "crawler_workflow_runs", ["project_id", "id"])
    op.create_index("ix_runs_status", "crawler_workflow_runs", ["status", "id"])
    op.create_index("ix_runs_workflow", "crawler_workflow_runs", ["workflow_id", "id"])
    op.create_table(
        "crawler_workflow_versions",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("workflow_id", TEXT, nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("document", TEXT, nullable=False),
        sa.Column("made_by", TEXT, nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_workflow_versions", "crawler_workflow_versions", ["workflow_id", "number"])
    op.create_table(
        "crawler_workflows",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("project_id", TEXT, nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("latest", sa.BigInteger(), nullable=False),
        sa.Column("steps", sa.BigInteger(), nullable=False),
        sa.Column("digest", TEXT, nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("description", TEXT, nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_workflows_name", "crawler_workflows", ["project_id", "name", "id"])
    op.create_table(
        "projects",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("description", TEXT, nullable=False),
        sa.Column("status", TEXT, nullable=False),
        sa.Column("allowance", TEXT),
        sa.PrimaryKeyConstraint("id"),
    )
