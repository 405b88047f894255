"""What a change uses, and what that comes to over time."""

import math
from typing import Any

import msgspec
import pytest

from crawlfleet.core.usage import counted, in_all, over_time
from crawlfleet.model.change import Change
from crawlfleet.model.event import Event
from crawlfleet.model.task import Execution, ExecutionStatus, Task, TaskStatus
from crawlfleet.model.usage import UsageHour, UsageSums

HOUR = 1_793_998_800.0
DAY_S = 86_400.0


def event(before: str | None, after: str, kind: str = "task") -> Event:
    return Event(
        kind=f"{kind}.{after}",
        subject="task-1",
        at=HOUR,
        cause="",
        from_state=before,
        to_state=after,
        project_id="shop",
    )


def ended(task_type: str = "web_crawl", **fields: Any) -> Change:
    task = Task(
        id="task-1",
        project_id="shop",
        task_type=task_type,
        created_at=HOUR,
        updated_at=HOUR,
        status=TaskStatus.COMPLETED,
    )
    execution = Execution(
        id="exec-1",
        task_id="task-1",
        node_id="node-1",
        session_id="sess-1",
        token=1,
        start_time=HOUR,
        **{"status": ExecutionStatus.COMPLETED, "version": 3, **fields},
    )
    return Change(
        tasks=(task,), executions=(execution,), events=(event("processing", "completed"),)
    )


def used(change: Change) -> dict[str, Any]:
    (after,) = counted([change], now=HOUR + 59.5)
    if not after.usage:
        return {}
    (row,) = after.usage
    assert (row.project_id, row.at) == ("shop", HOUR)
    return {
        name: value
        for name, value in msgspec.structs.asdict(row).items()
        if value and name not in {"project_id", "at"}
    }


def test_what_an_execution_tells_at_its_end_is_counted() -> None:
    told = {"cpu_s": 1.5, "pages_crawled": 40, "data_size": 2e6, "other": 7}
    change = ended(running_at=HOUR + 1, end_time=HOUR + 3.5, metrics=told)
    assert used(change) == {
        "completed": 1,
        "attempts": 1,
        "cpu_s": 1.5,
        "run_s": 2.5,
        "pages": 40,
        "bytes": 2_000_000,
    }


@pytest.mark.parametrize(
    ("task_type", "fields", "pages"),
    [
        ("http_fetch", {}, 1),
        ("http_fetch", {"metrics": {"fetched": 12}}, 12),
        ("http_fetch", {"status": ExecutionStatus.FAILED}, 0),
        ("python", {}, 0),
        ("python", {"metrics": {"pages_crawled": 3}}, 3),
        ("web_crawl", {"status": ExecutionStatus.LOST}, 0),
        ("web_crawl", {"metrics": {"pages_crawled": float("nan")}}, 0),
        ("web_crawl", {"metrics": {"pages_crawled": -5}}, 0),
        ("web_crawl", {"metrics": {"pages_crawled": float("inf")}}, 0),
        ("web_crawl", {"metrics": {"pages_crawled": 1e300}}, 10**15),
    ],
)
def test_pages_are_what_can_be_believed(task_type: str, fields: dict[str, Any], pages: int) -> None:
    assert used(ended(task_type, **fields)).get("pages", 0) == pages


def test_only_what_moves_is_counted() -> None:
    moved = [
        event(None, "pending"),
        event("failed", "failed"),
        event("processing", "timeout"),
        event("pending", "cancelled"),
        event("processing", "pending"),
        event(None, "running", kind="run"),
    ]
    assert used(Change(events=tuple(moved))) == {"submitted": 1, "failed": 1, "cancelled": 1}
    assert used(Change(events=(event("assigned", "processing"),))) == {}
    live = ended(status=ExecutionStatus.RUNNING)
    assert "attempts" not in used(live)


def test_hours_come_together_in_days() -> None:
    rows = [
        UsageHour(project_id="b", at=DAY_S, pages=1, peak_running=2, storage_bytes=7),
        UsageHour(project_id="a", at=DAY_S + 7200, pages=2, cpu_s=0.5),
        UsageHour(project_id="b", at=DAY_S + 3600, pages=4, peak_running=1),
        UsageHour(project_id="b", at=3 * DAY_S, pages=8),
    ]
    days = over_time(rows, DAY_S)
    assert days == [
        UsageHour(project_id="a", at=DAY_S, pages=2, cpu_s=0.5),
        UsageHour(project_id="b", at=DAY_S, pages=5, peak_running=2, storage_bytes=7),
        UsageHour(project_id="b", at=3 * DAY_S, pages=8, storage_bytes=7),
    ]
    assert over_time(days, 3600.0) == days
    total = in_all(days)
    assert (total["pages"], total["cpu_s"], total["failed"]) == (15, 0.5, 0)
    assert "peak_running" not in total


def test_what_many_changes_of_a_commit_used_comes_to_a_row_for_each_project_and_hour() -> None:
    sums = UsageSums()
    for number in range(1, 4):
        sums.take(
            (
                UsageHour(
                    project_id="shop",
                    at=HOUR,
                    completed=1,
                    run_s=0.5,
                    peak_running=number % 3,
                    storage_bytes=number if number < 3 else None,
                ),
            )
        )
    sums.take((UsageHour(project_id="shop", at=HOUR + 3600.0, failed=1),))
    sums.take((UsageHour(project_id="news", at=HOUR, pages=7),))

    assert sums.rows() == [
        UsageHour(
            project_id="shop", at=HOUR, completed=3, run_s=1.5, peak_running=2, storage_bytes=2
        ),
        UsageHour(project_id="shop", at=HOUR + 3600.0, failed=1),
        UsageHour(project_id="news", at=HOUR, pages=7),
    ]


@pytest.mark.parametrize(
    ("told", "counts"),
    [(2.5, 2.5), (-1.0, None), (math.nan, None), (math.inf, None), (-math.inf, None), (1e18, 1e15)],
)
def test_only_amounts_that_can_be_believed_count(told: float, counts: float | None) -> None:
    found = used(ended(metrics={"cpu_s": told}))

    assert found.get("cpu_s") == counts
