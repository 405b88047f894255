"""The tables of a SQL store, named as in the product's sources.

Instants are seconds since the epoch. What can be filtered by is a column; small values are JSON
text, null when they are empty; rarely used fields of a row share its column `options`.
`parameters` and `result` are the submitter's own JSON text, byte for byte.

Columns have the names of the struct's fields, or that name as their `key`. There are no foreign
keys: each would cost a lookup per write, and events and claims outlive what they speak of. An index
is here because a read of the port needs it; `tests/adapters/store/sqlite/test_sqlite_plans.py`
holds each of them to its purpose.
"""

from typing import Any, Final

from sqlalchemy import BigInteger, Column, Double, Index, Integer, Table

from crawlfleet.adapters.store.sql.columns import SEQUENCE as SEQUENCE
from crawlfleet.adapters.store.sql.columns import TEXT as TEXT
from crawlfleet.adapters.store.sql.columns import among as among
from crawlfleet.adapters.store.sql.columns import either, sql_table
from crawlfleet.adapters.store.sql.columns import id_column as _id
from crawlfleet.adapters.store.sql.columns import json_column as _json
from crawlfleet.adapters.store.sql.columns import metadata as metadata
from crawlfleet.adapters.store.sql.columns import number_column as _number
from crawlfleet.adapters.store.sql.columns import partial_index as _partial_index
from crawlfleet.adapters.store.sql.columns import real_column as _real
from crawlfleet.adapters.store.sql.columns import text_column as _text
from crawlfleet.adapters.store.tables import TABLES
from crawlfleet.model.task import LIVE_EXECUTION
from crawlfleet.ports import tables as declared

nodes: Final = Table(
    "crawler_nodes",
    metadata,
    _id(),
    _text("cluster_id"),
    _text("name"),
    _text("description"),
    _text("ip_address"),
    _number("port"),
    _text("node_type"),
    _text("region", null=True),
    _json("labels"),
    _json("capabilities"),
    _json("task_types"),
    _json("resources"),
    _text("status"),
    _text("health_status", key="health"),
    _text("health_reason"),
    _text("session_id", null=True),
    _text("token_hash"),
    _real("created_at"),
    _real("updated_at"),
    _number("version"),
    _json("label_overrides"),
    _text("description_override", null=True),
    _json("options"),
    _real("archived_at", null=True),
)
_partial_index(
    "ix_nodes_archived",
    nodes.c.archived_at,
    nodes.c.id,
    where=nodes.c.archived_at.is_not(None),
)

sessions: Final = Table(
    "crawler_node_sessions",
    metadata,
    _id(),
    _text("node_id"),
    _real("started_at"),
    _real("deadline"),
    _real("last_heartbeat"),
    _json("usage"),
    _real("load"),
    _real("ended_at", null=True),
    _text("end_cause"),
    _number("version"),
    _real("timeout_s"),
    _number("beat"),
    _number("configuration_version"),
)
_partial_index("ix_sessions_live", sessions.c.id, where=sessions.c.ended_at.is_(None))
_partial_index(
    "ix_sessions_ended",
    sessions.c.ended_at,
    sessions.c.id,
    where=sessions.c.ended_at.is_not(None),
)

tasks: Final = Table(
    "crawler_tasks",
    metadata,
    _id(),
    _text("project_id"),
    _text("cluster_id"),
    _text("workflow_id", null=True),
    _text("task_type"),
    _text("parameters"),
    _number("priority"),
    _json("min_resources"),
    _json("capabilities"),
    _text("node_type", null=True),
    _text("schedule_strategy", null=True),
    _text("target_region", null=True),
    _json("content_features"),
    _real("timeout_s", null=True),
    _json("options"),
    _text("status"),
    _number("version"),
    _number("token"),
    _real("not_before"),
    _real("created_at"),
    _real("updated_at"),
    _text("assigned_node", null=True),
    _real("assigned_at", null=True),
    _text("execution_id", null=True),
    _real("started_at", null=True),
    _real("completed_at", null=True),
    _text("result", null=True),
    _json("error"),
    _text("dead_reason", null=True),
    _number("retry_count"),
    _number("max_retries"),
    _number("loss_count"),
    _text("parent_id", null=True),
    Column("shard", BigInteger),
)
Index("ix_tasks_status", tasks.c.status, tasks.c.id, tasks.c.project_id)
Index("ix_tasks_project", tasks.c.project_id, tasks.c.id)
_partial_index(
    "ix_tasks_workflow",
    tasks.c.workflow_id,
    tasks.c.id,
    where=tasks.c.workflow_id.is_not(None),
)
_partial_index(
    "ix_tasks_node",
    tasks.c.assigned_node,
    tasks.c.id,
    where=tasks.c.assigned_node.is_not(None),
)
_partial_index(
    "ix_tasks_parent",
    tasks.c.parent_id,
    tasks.c.id,
    where=tasks.c.parent_id.is_not(None),
)
_partial_index("ix_tasks_dead", tasks.c.id, where=tasks.c.dead_reason.is_not(None))
_partial_index(
    "ix_tasks_completed",
    tasks.c.completed_at,
    tasks.c.id,
    where=tasks.c.completed_at.is_not(None),
)

executions: Final = Table(
    "crawler_task_executions",
    metadata,
    _id(),
    _text("task_id"),
    _text("node_id"),
    _text("session_id"),
    _number("token"),
    _real("start_time"),
    _real("running_at", null=True),
    _real("end_time", null=True),
    _json("reserved"),
    _json("allocation"),
    _text("status"),
    _json("error"),
    _json("metrics"),
    _number("retry_count"),
    _number("version"),
)
Index("ix_executions_task", executions.c.task_id, executions.c.token)
HOLDING: Final = either(executions.c.status, LIVE_EXECUTION)
_partial_index("ix_executions_live", executions.c.id, where=HOLDING)

execution_logs: Final = Table(
    "crawler_execution_logs",
    metadata,
    Column("execution_id", TEXT, primary_key=True),
    Column("seq", BigInteger, primary_key=True),
    _real("at"),
    _text("level"),
    _text("message"),
    _json("fields"),
    sqlite_with_rowid=False,
)
Index("ix_execution_logs_at", execution_logs.c.at)

node_samples: Final = Table(
    "crawler_node_samples",
    metadata,
    Column("node_id", TEXT, primary_key=True),
    Column("resolution", TEXT, primary_key=True),
    Column("at", Double, primary_key=True),
    _number("count"),
    _real("cpu_usage"),
    _real("memory_usage"),
    _real("gpu_usage", null=True),
    _real("network_io"),
    _real("disk_io"),
    _real("load"),
    _real("active_tasks"),
    _number("ended"),
    _number("errors"),
    _real("latency_s", null=True),
    _real("disk_usage", null=True),
    _real("wait_s", null=True),
    sqlite_with_rowid=False,
)

events: Final = Table(
    "crawler_events",
    metadata,
    Column("seq", SEQUENCE, primary_key=True, autoincrement=False),
    _text("kind"),
    _text("subject"),
    _real("at"),
    _text("cause"),
    _text("from_state", null=True),
    _text("to_state", null=True),
    _json("details"),
    _text("project_id", null=True),
)
Index("ix_events_subject", events.c.subject, events.c.seq)

audit: Final = Table(
    "crawler_audit",
    metadata,
    _id(),
    _real("at"),
    _text("actor"),
    _text("actor_id"),
    _text("role"),
    _text("address"),
    _text("action"),
    _json("subjects"),
    _number("count"),
    _text("project_id", null=True),
)
Index("ix_audit_at", audit.c.at, audit.c.id)

claims: Final = Table(
    "crawler_claims",
    metadata,
    Column("scope", TEXT, primary_key=True),
    Column("key", TEXT, primary_key=True),
    _text("holder"),
    _real("at"),
    _real("expires_at"),
    _text("digest"),
    sqlite_with_rowid=False,
)
Index("ix_claims_expiry", claims.c.expires_at)
Index("ix_claims_holder", claims.c.holder)

cursors: Final = Table(
    "crawler_cursors",
    metadata,
    Column("consumer", TEXT, primary_key=True),
    _number("seq"),
    sqlite_with_rowid=False,
)

leadership: Final = Table(
    "crawler_leadership",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    _number("epoch"),
    _text("leader"),
    _number("removed_seq"),
)
"""One row: the present leader, and the event number that no new event may fall below."""

DECLARED: Final[dict[declared.Table[Any], Table]] = {each: sql_table(each) for each in TABLES}
"""The tables that are declared as data; those above are on the way of every task, or no rows with
versions."""
