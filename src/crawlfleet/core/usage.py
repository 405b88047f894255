"""Usage: the amounts that a change uses, and their sums over hours and days.

Usage is counted at the commit, from the change itself: the events of its tasks and the executions
that it ends. The store adds it to the rows of the hour in the same transaction, and only if the
change is committed. So changes that are repeated, refused or decided anew are counted once.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from crawlfleet.model.change import Change
from crawlfleet.model.task import LIVE_EXECUTION, Execution, ExecutionStatus
from crawlfleet.model.usage import ADDED, HOUR_S, LARGEST, UsageHour

FETCHING: Final = frozenset({"web_crawl", "http_fetch", "scrapy_spider"})
"""Types of tasks that fetch pages, and report how many."""
MOST: Final = 1e15
"""Upper bound of one report; a larger amount is not believed."""
_ENDS: Final = {
    "completed": "completed",
    "failed": "failed",
    "timeout": "failed",
    "cancelled": "cancelled",
}
_PAGES: Final = ("pages_crawled", "fetched")

_NOTHING: Final[Mapping[str, Any]] = {
    field.name: field.default for field in msgspec.structs.fields(UsageHour) if field.name in ADDED
}

Sums = dict[str, dict[str, Any]]


def counted(changes: Iterable[Change], *, now: float) -> list[Change]:
    """Return the changes, each with its usage in this hour."""
    hour = now // HOUR_S * HOUR_S
    return [_counted(change, hour) for change in changes]


def _counted(change: Change, hour: float) -> Change:
    if change.usage:
        return change
    sums: Sums = {}
    for event in change.events:
        before, after = event.from_state, event.to_state
        if after is None or event.project_id is None or before == after:
            continue
        name = "submitted" if before is None else _ENDS.get(after)
        if name is not None and event.kind.startswith("task."):
            amounts = sums.setdefault(event.project_id, {})
            amounts[name] = amounts.get(name, 0) + 1
    for execution in change.executions:
        if execution.status not in LIVE_EXECUTION and (project_id := _project_of(change)):
            task_type = change.tasks[0].task_type if change.tasks else ""
            _count_execution(execution, task_type, sums.setdefault(project_id, {}))
    if not sums:
        return change
    usage = [UsageHour(project_id=id, at=hour, **amounts) for id, amounts in sums.items()]
    return msgspec.structs.replace(change, usage=tuple(usage))


def _project_of(change: Change) -> str | None:
    if change.tasks:
        return change.tasks[0].project_id
    return next((event.project_id for event in change.events if event.project_id), None)


def _count_execution(execution: Execution, task_type: str, amounts: dict[str, Any]) -> None:
    amounts["attempts"] = amounts.get("attempts", 0) + 1
    if execution.running_at is not None and execution.end_time is not None:
        ran_s = max(execution.end_time - execution.running_at, 0.0)
        amounts["run_s"] = amounts.get("run_s", 0.0) + round(ran_s, 6)
    told = execution.metrics
    if cpu_s := _amount(told.get("cpu_s", 0.0)):
        amounts["cpu_s"] = amounts.get("cpu_s", 0.0) + cpu_s
    if size := int(_amount(told.get("data_size", 0.0))):
        amounts["bytes"] = amounts.get("bytes", 0) + size
    if pages := _pages(task_type, execution.status, told):
        amounts["pages"] = amounts.get("pages", 0) + pages


def _pages(task_type: str, status: ExecutionStatus, told: Mapping[str, float]) -> int:
    for name in _PAGES:
        if name in told:
            return int(_amount(told[name]))
    # One that is asked for a single page tells of nothing but that page.
    return int(task_type == "http_fetch" and status is ExecutionStatus.COMPLETED)


def _amount(told: float) -> float:
    """Return a reported amount, at most `MOST`; 0 if it is negative, infinite or no number. The
    order of tests is for speed, since nearly all amounts are believable."""
    if 0.0 <= told <= MOST:
        return float(told)
    return MOST if MOST < told < math.inf else 0.0


def over_time(rows: Iterable[UsageHour], step_s: float) -> list[UsageHour]:
    """The hours in steps of a day or an hour, by instant and project; steps without are left out.

    The storage of a step is how it was at its end; where it was not measured, how it was before.
    """
    steps: dict[tuple[float, str], dict[str, Any]] = {}
    stored: dict[str, int] = {}
    for row in sorted(rows, key=lambda each: each.at):
        key = row.at // step_s * step_s, row.project_id
        sums = steps.get(key)
        if sums is None:
            sums = steps[key] = {**dict.fromkeys(LARGEST, 0), **_NOTHING}
        for name in ADDED:
            sums[name] += getattr(row, name)
        for name in LARGEST:
            sums[name] = max(sums[name], getattr(row, name))
        if row.storage_bytes is not None:
            stored[row.project_id] = row.storage_bytes
        sums["storage_bytes"] = stored.get(row.project_id)
    return [
        UsageHour(project_id=project_id, at=at, **sums)
        for (at, project_id), sums in sorted(steps.items())
    ]


def in_all(rows: Iterable[UsageHour]) -> dict[str, Any]:
    """Return the sums of all fields that can be added up."""
    sums = {**_NOTHING}
    for row in rows:
        for name in ADDED:
            sums[name] += getattr(row, name)
    return sums
