"""No read walks through a table or sorts what an index has in order already."""

import sqlite3
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from crawlfleet.adapters.store.sql.rows import CHANGED, EVENT, RowMap
from crawlfleet.adapters.store.sql.schema import sessions, tasks
from crawlfleet.adapters.store.sql.statements import FILTERS
from crawlfleet.adapters.store.sqlite import statements
from crawlfleet.adapters.store.sqlite.migrate import prepare
from crawlfleet.adapters.store.sqlite.statements import STATEMENTS


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    path: Path = tmp_path_factory.mktemp("plans") / "store.db"
    prepare(path)
    opened = sqlite3.connect(path)
    yield opened
    opened.close()


def plan(connection: sqlite3.Connection, statement: str) -> str:
    values = dict.fromkeys(
        (
            *FILTERS,
            "after",
            "limit",
            "ids",
            "names",
            "states",
            "task_id",
            "subject",
            "actor",
            "action",
            "since",
            "until",
            "before",
            "never",
            "execution_id",
            "levels",
            "first",
            "last",
            "node_id",
            "resolution",
            "since",
            "until",
            "cluster_id",
            "below",
            "schedule_id",
            "workflow_id",
            "webhook_id",
            "series",
            "keep",
        ),
        1,
    )
    rows = connection.execute(f"EXPLAIN QUERY PLAN {statement}", values | {"name": "c"})
    return "; ".join(row[3] for row in rows)


INDEX_OF = {
    "parent_id": "ix_tasks_parent",
    "workflow_id": "ix_tasks_workflow",
    "assigned_node": "ix_tasks_node",
    "status": "ix_tasks_status",
    "project_id": "ix_tasks_project",
}


@pytest.mark.slow
@pytest.mark.parametrize("dead", [None, True, False])
@pytest.mark.parametrize(
    "given",
    [given for count in range(4) for given in combinations(FILTERS, count)],
    ids="+".join,
)
def test_tasks_are_found_by_the_most_selective_index(
    connection: sqlite3.Connection, given: tuple[str, ...], dead: bool | None
) -> None:
    for after in (False, True):
        for newest_first in (False, True):
            how = plan(connection, STATEMENTS.find_tasks(given, dead, after, newest_first, True))
            assert "TEMP B-TREE" not in how
            if dead:
                assert "ix_tasks_dead" in how
            elif given and given[0] in INDEX_OF:
                assert f"SEARCH crawler_tasks USING INDEX {INDEX_OF[given[0]]}" in how


@pytest.mark.parametrize(
    ("statement", "index"),
    [
        (STATEMENTS.live_sessions, "ix_sessions_live"),
        (STATEMENTS.live_executions, "ix_executions_live"),
        (STATEMENTS.attempts, "SEARCH crawler_task_executions USING INDEX ix_executions_task"),
        (STATEMENTS.unfinished_ids, "SEARCH crawler_tasks USING COVERING INDEX ix_tasks_status"),
        (STATEMENTS.count_tasks(False), "COVERING INDEX ix_tasks_status"),
        (STATEMENTS.count_tasks(True), "COVERING INDEX ix_tasks_status"),
        (STATEMENTS.count_by_project, "COVERING INDEX ix_tasks_status"),
        (STATEMENTS.count_unfinished, "SEARCH crawler_tasks USING INDEX ix_tasks_status"),
        (STATEMENTS.shards, "SEARCH crawler_tasks USING INDEX ix_tasks_parent"),
        (STATEMENTS.shards, "SEARCH crawler_task_executions USING INDEX sqlite_autoindex"),
        (STATEMENTS.configurations, "USING INDEX ix_configurations_cluster"),
        (STATEMENTS.of_schedules.firings, "crawler_schedule_firings USING INDEX ix_firings_sch"),
        (STATEMENTS.of_schedules.firings_before, "USING INDEX ix_firings_schedule"),
        (STATEMENTS.of_schedules.old_firings, "USING INDEX ix_firings_at (at<?)"),
        (STATEMENTS.of_schedules.remove_firings, "SEARCH crawler_schedule_firings USING"),
        (STATEMENTS.of_schedules.remove_firings_of, "USING INDEX ix_firings_schedule"),
        (STATEMENTS.of_schedules.removed_schedules, "USING COVERING INDEX ix_schedules_removed"),
        (STATEMENTS.of_schedules.remove_schedules, "SEARCH crawler_schedules USING"),
        (STATEMENTS.of_workflows.versions, "USING INDEX ix_workflow_versions"),
        (STATEMENTS.of_workflows.live_runs, "USING INDEX ix_runs_live"),
        (STATEMENTS.of_workflows.steps, "SEARCH crawler_workflow_run_steps USING INDEX sqlite_aut"),
        (STATEMENTS.of_workflows.remove_steps, "SEARCH crawler_workflow_run_steps USING"),
        (STATEMENTS.of_workflows.old_runs, "USING COVERING INDEX ix_runs_ended (ended_at<?)"),
        (STATEMENTS.of_workflows.remove_runs, "SEARCH crawler_workflow_runs USING"),
        (STATEMENTS.of_workflows.find_runs(frozenset({"workflow_id"})), "INDEX ix_runs_workflow"),
        (STATEMENTS.of_workflows.find_runs(frozenset({"project_id"})), "INDEX ix_runs_project"),
        (STATEMENTS.of_workflows.find_runs(frozenset({"status"})), "INDEX ix_runs_status"),
        (
            STATEMENTS.of_workflows.find_workflows(frozenset({"project_id", "name"})),
            "INDEX ix_workflows_name",
        ),
        (STATEMENTS.of_usage.all, "USING INDEX ix_usage_at (at>? AND at<?)"),
        (STATEMENTS.of_usage.of_project, "SEARCH crawler_usage USING PRIMARY KEY (project_id=?"),
        (STATEMENTS.of_usage.count_old, "USING COVERING INDEX ix_usage_at (at<?)"),
        (STATEMENTS.of_workflows.run_states, "SEARCH crawler_workflow_runs USING"),
        (STATEMENTS.of_webhooks.deliveries, "USING INDEX ix_deliveries_webhook (webhook_id=? AND"),
        (STATEMENTS.of_webhooks.deliveries_before, "USING INDEX ix_deliveries_webhook"),
        (STATEMENTS.of_webhooks.waiting, "USING INDEX ix_deliveries_waiting"),
        (STATEMENTS.of_webhooks.waiting_after, "USING INDEX ix_deliveries_waiting (id>?)"),
        (STATEMENTS.of_webhooks.count_deliveries, "COVERING INDEX ix_deliveries_webhook"),
        (STATEMENTS.of_webhooks.settled_deliveries, "COVERING INDEX ix_deliveries_settled"),
        (STATEMENTS.of_webhooks.remove_deliveries, "SEARCH crawler_deliveries USING"),
        (STATEMENTS.of_webhooks.removed_webhooks, "USING COVERING INDEX ix_webhooks_removed"),
        (STATEMENTS.of_webhooks.remove_webhooks, "SEARCH crawler_webhooks USING"),
        (STATEMENTS.of_quality.runs, "USING INDEX ix_measured_runs_series (series=?)"),
        (STATEMENTS.of_quality.runs_before, "INDEX ix_measured_runs_series (series=? AND id<?)"),
        (STATEMENTS.of_quality.of_tasks, "USING INDEX ix_measured_runs_task"),
        (STATEMENTS.of_quality.decisions, "USING INDEX ix_measured_runs_task"),
        (STATEMENTS.of_quality.series, "COVERING INDEX ix_measured_runs_series (series>? AND"),
        (STATEMENTS.of_quality.old_runs, "USING INDEX ix_measured_runs_at (at<?)"),
        (STATEMENTS.of_quality.surplus_runs, "INDEX ix_measured_runs_series"),
        (STATEMENTS.of_quality.remove_runs, "SEARCH crawler_measured_runs USING"),
        (STATEMENTS.find_events(False), "SEARCH crawler_events USING INTEGER PRIMARY KEY"),
        (STATEMENTS.find_events(True), "SEARCH crawler_events USING INDEX ix_events_subject"),
        (STATEMENTS.by_ids(tasks), "SEARCH crawler_tasks USING INDEX sqlite_autoindex"),
        (statements.versions(sessions), "SEARCH crawler_node_sessions USING INDEX"),
        (statements.CLAIMS_NAMED, "SEARCH crawler_claims USING PRIMARY KEY"),
        (STATEMENTS.cursor, "SEARCH crawler_cursors USING PRIMARY KEY"),
        (STATEMENTS.ended_tasks, "SEARCH crawler_tasks USING INDEX ix_tasks_completed"),
        (STATEMENTS.remove_tasks, "SEARCH crawler_tasks USING"),
        (STATEMENTS.remove_attempts, "SEARCH crawler_task_executions USING"),
        (STATEMENTS.remove_endless_claims, "SEARCH crawler_claims USING INDEX ix_claims_holder"),
        (statements.OPEN_SESSIONS, "SEARCH crawler_node_sessions USING"),
        (STATEMENTS.remove_claims, "SEARCH crawler_claims USING COVERING INDEX ix_claims_expiry"),
        (STATEMENTS.ended_sessions, "USING COVERING INDEX ix_sessions_ended (ended_at<?)"),
        (STATEMENTS.remove_sessions, "SEARCH crawler_node_sessions USING"),
        (STATEMENTS.find_audit(frozenset()), "SCAN crawler_audit USING INDEX sqlite_autoindex"),
        (STATEMENTS.old_audit, "SEARCH crawler_audit USING COVERING INDEX ix_audit_at (at<?)"),
        (STATEMENTS.remove_audit, "SEARCH crawler_audit USING"),
        (STATEMENTS.old_events, "SEARCH crawler_events USING INTEGER PRIMARY KEY (rowid<?)"),
        (STATEMENTS.find_logs(False), "SEARCH crawler_execution_logs USING PRIMARY KEY"),
        (STATEMENTS.find_logs(True), "SEARCH crawler_execution_logs USING PRIMARY KEY"),
        (STATEMENTS.forget_lines, "SEARCH crawler_execution_logs USING PRIMARY KEY"),
        (STATEMENTS.remove_logs, "USING COVERING INDEX ix_execution_logs_at (at<?)"),
        (STATEMENTS.remove_logs, "SEARCH crawler_execution_logs USING PRIMARY KEY"),
        (STATEMENTS.oldest_log, "USING COVERING INDEX ix_execution_logs_at (at>?)"),
        (STATEMENTS.log_size, "SEARCH crawler_execution_logs USING INDEX ix_execution_logs_at"),
        (STATEMENTS.find_samples, "SEARCH crawler_node_samples USING PRIMARY KEY"),
        (STATEMENTS.remove_samples, "SEARCH crawler_node_samples USING PRIMARY KEY"),
        (STATEMENTS.remove_events, "SEARCH crawler_events USING INTEGER PRIMARY KEY"),
    ],
)
def test_each_read_uses_its_index(
    connection: sqlite3.Connection, statement: str, index: str
) -> None:
    assert index in plan(connection, statement)


@pytest.mark.parametrize("mapping", [*CHANGED, EVENT], ids=lambda mapping: mapping.table.name)
def test_an_insert_makes_no_table_of_its_own(
    connection: sqlite3.Connection, mapping: RowMap[Any]
) -> None:
    """Such as one of the values that an index is limited to, for each row."""
    values = [1] * (2 * len(mapping.columns) + 1)
    steps = connection.execute(f"EXPLAIN {statements.put(mapping, 2)}", values)
    operations = {row[1] for row in steps}
    assert "MakeRecord" in operations
    assert "OpenEphemeral" not in operations
