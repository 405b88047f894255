"""Filters of tasks and audit entries, for stores without a database."""

from crawlfleet.model.audit import AuditEntry, AuditFilter
from crawlfleet.model.task import Task
from crawlfleet.ports.store import TaskFilter


def matches(task: Task, filter: TaskFilter) -> bool:
    """Return whether the task passes the filter."""
    return (
        (not filter.status or task.status in filter.status)
        and filter.project_id in (None, task.project_id)
        and filter.task_type in (None, task.task_type)
        and filter.workflow_id in (None, task.workflow_id)
        and filter.assigned_node in (None, task.assigned_node)
        and filter.dead in (None, task.dead_reason is not None)
        and filter.cluster_id in (None, task.cluster_id)
        and filter.error_class in (None, task.error and task.error.error_class)
        and (filter.reason is None or filter.reason in (task.dead_reason or ""))
        and filter.parent_id in (None, task.parent_id)
    )


def is_wanted(entry: AuditEntry, filter: AuditFilter) -> bool:
    """Return whether the entry passes the filter."""
    return (
        filter.actor in (None, entry.actor, entry.actor_id)
        and filter.action in (None, entry.action)
        and (filter.subject is None or filter.subject in entry.subjects)
        and (filter.since is None or entry.at >= filter.since)
        and (filter.until is None or entry.at < filter.until)
    )
