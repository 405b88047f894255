"""No read walks through a table or sorts what an index has in order already."""

import sqlite3
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from crawlfleet.adapters.store.sql.queries import Plan
from crawlfleet.adapters.store.sql.rows import CHANGED, EVENT, RowMap
from crawlfleet.adapters.store.sql.schema import sessions, tasks
from crawlfleet.adapters.store.sql.statements import FILTERS
from crawlfleet.adapters.store.sqlite import statements
from crawlfleet.adapters.store.sqlite.migrate import prepare
from crawlfleet.adapters.store.sqlite.statements import STATEMENTS, bound
from crawlfleet.adapters.store.tables import TABLES
from crawlfleet.features.schedules.table import firings_of, old_firings, removed_schedules
from crawlfleet.features.webhooks.table import (
    deliveries_to,
    removed_webhooks,
    settled_deliveries,
    waiting_deliveries,
)
from crawlfleet.features.workflows.model import RunStatus
from crawlfleet.features.workflows.table import (
    RunFilter,
    ended_runs,
    find_runs,
    find_workflows,
    live_runs,
    runs_among,
    steps_of,
    versions_of,
)
from crawlfleet.ports.kernel_tables import (
    configurations_of,
    measured_runs_in,
    measured_runs_of,
    newest_of_series,
    old_measured_runs,
    old_usage,
    surplus_measured_runs,
    usage_between,
)
from crawlfleet.ports.tables import Table


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


QUERIES = STATEMENTS.queries
FIND = QUERIES.find
IDS = QUERIES.ids


@pytest.mark.parametrize(
    ("asked", "index"),
    [
        (FIND(configurations_of("c", before=9, limit=9)), "INDEX ix_configurations_cluster"),
        (FIND(firings_of("s", after=None, limit=9)), "INDEX ix_firings_schedule (schedule_id=?)"),
        (FIND(firings_of("s", after="x", limit=9)), "ix_firings_schedule (schedule_id=? AND id<?)"),
        (IDS(old_firings(before=1.0, limit=9)), "USING INDEX ix_firings_at (at<?)"),
        (IDS(removed_schedules(before=1.0, limit=9)), "COVERING INDEX ix_schedules_removed"),
        (FIND(versions_of("w", before=9, limit=9)), "USING INDEX ix_workflow_versions"),
        (FIND(live_runs(after="x", limit=9)), "USING INDEX ix_runs_live"),
        (FIND(steps_of("r")), "SEARCH crawler_workflow_run_steps USING INDEX sqlite_auto"),
        (IDS(ended_runs(before=1.0, limit=9)), "USING COVERING INDEX ix_runs_ended (ended_at<?)"),
        (FIND(find_runs(RunFilter(workflow_id="w"), after="x", limit=9)), "ix_runs_workflow"),
        (FIND(find_runs(RunFilter(project_id="p"), after="x", limit=9)), "ix_runs_project"),
        (FIND(find_runs(RunFilter(status=RunStatus.RUNNING), after="x", limit=9)), "runs_status"),
        (FIND(runs_among(["r"]), ("id", "status")), "SEARCH crawler_workflow_runs USING"),
        (
            FIND(find_workflows(project_id="p", name="n", after=None, limit=9)),
            "INDEX ix_workflows_name",
        ),
        (FIND(usage_between(since=1.0, until=2.0)), "INDEX ix_usage_at (at>? AND at<?)"),
        (QUERIES.remove_keys(old_usage(before=1.0, limit=9)), "COVERING INDEX ix_usage_at (at<?)"),
        (
            FIND(deliveries_to("w", limit=9)),
            "INDEX ix_deliveries_webhook (webhook_id=? AND status=",
        ),
        (FIND(deliveries_to("w", after="x", limit=9)), "(webhook_id=? AND status=? AND id<?)"),
        (FIND(waiting_deliveries(after=None, limit=9)), "USING INDEX ix_deliveries_waiting"),
        (FIND(waiting_deliveries(after="x", limit=9)), "INDEX ix_deliveries_waiting (id>?)"),
        (QUERIES.count(deliveries_to("w"), "status"), "COVERING INDEX ix_deliveries_webhook"),
        (IDS(settled_deliveries(before=1.0, limit=9)), "COVERING INDEX ix_deliveries_settled"),
        (IDS(removed_webhooks(before=1.0, limit=9)), "COVERING INDEX ix_webhooks_removed"),
        (FIND(measured_runs_in("s", after=None, limit=9)), "ix_measured_runs_series (series=?)"),
        (FIND(measured_runs_in("s", after="x", limit=9)), "series (series=? AND id<?)"),
        (FIND(measured_runs_of(["t"])), "USING INDEX ix_measured_runs_task"),
        (
            QUERIES.newest(newest_of_series(project_id="p", after=None, limit=9)),
            "COVERING INDEX ix_measured_runs_series (series>? AND",
        ),
        (IDS(old_measured_runs(before=1.0, limit=9)), "USING INDEX ix_measured_runs_at (at<?)"),
        (IDS(surplus_measured_runs(keep=9, limit=9)), "INDEX ix_measured_runs_series"),
    ],
)
def test_each_declared_query_uses_its_index(
    connection: sqlite3.Connection, asked: Plan[str], index: str
) -> None:
    rows = connection.execute(f"EXPLAIN QUERY PLAN {asked.statement}", bound(asked.runs[0]))
    steps = [row[3] for row in rows]
    assert any(index in step for step in steps), steps
    assert not [step for step in steps if "SCAN crawler" in step and " USING " not in step]


@pytest.mark.parametrize("table", TABLES, ids=repr)
def test_rows_are_removed_by_their_ids_and_those_that_they_own_by_an_index(
    connection: sqlite3.Connection, table: Table[Any]
) -> None:
    if table.key == ("id",):
        assert f"SEARCH {table.name} USING" in plan(connection, QUERIES.remove(table))
    for owned in table.owns:
        how = plan(connection, QUERIES.remove_owned(owned))
        assert f"SEARCH {owned.table.name} USING" in how


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
