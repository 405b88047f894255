"""Dead letters as the API shows them."""

from datetime import datetime
from typing import Self

import msgspec

from crawlfleet.model.task import Task
from crawlfleet.views.fields import instant, moment


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A task that was given up, and why."""

    id: str
    project_id: str
    cluster_id: str
    task_type: str
    status: str
    reason: str
    error_class: str | None
    message: str
    retry_count: int
    loss_count: int
    assigned_node: str | None
    created_at: datetime
    completed_at: datetime | None

    @classmethod
    def of(cls, task: Task) -> Self:
        return cls(
            id=task.id,
            project_id=task.project_id,
            cluster_id=task.cluster_id,
            task_type=task.task_type,
            status=str(task.status),
            reason=task.dead_reason or "",
            error_class=str(task.error.error_class) if task.error else None,
            message=task.error.message if task.error else "",
            retry_count=task.retry_count,
            loss_count=task.loss_count,
            assigned_node=task.assigned_node,
            created_at=moment(task.created_at),
            completed_at=instant(task.completed_at),
        )


class DeadLetterPage(msgspec.Struct, frozen=True, kw_only=True):
    items: list[DeadLetter]
    next_cursor: str | None
