"""Executions and their logs, as the API shows them."""

from datetime import datetime
from typing import Annotated, Any, Self

import msgspec

from crawlfleet.model.log import LogLevel, LogLine, Progress
from crawlfleet.model.resources import Resources
from crawlfleet.model.task import Execution, ExecutionStatus, TaskError
from crawlfleet.views.fields import instant, moment, names

ExecutionState = Annotated[str, names(ExecutionStatus)]


class ProgressView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Progress of an execution, in the unit that its executor counts."""

    done: float
    total: float | None = None
    at: datetime

    @classmethod
    def of(cls, progress: Progress) -> Self:
        return cls(done=progress.done, total=progress.total, at=moment(progress.at))


class ExecutionView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One attempt."""

    id: str
    task_id: str
    node_id: str
    token: int
    status: ExecutionState
    start_time: datetime
    running_at: datetime | None = None
    end_time: datetime | None = None
    retry_count: int = 0
    allocation: Resources = Resources()
    error: TaskError | None = None
    metrics: dict[str, float] = {}
    progress: ProgressView | None = None
    """Progress while the execution runs; afterwards `metrics` has the last values."""

    @classmethod
    def of(cls, execution: Execution, progress: Progress | None = None) -> Self:
        return cls(
            id=execution.id,
            task_id=execution.task_id,
            node_id=execution.node_id,
            token=execution.token,
            status=str(execution.status),
            start_time=moment(execution.start_time),
            running_at=instant(execution.running_at),
            end_time=instant(execution.end_time),
            retry_count=execution.retry_count,
            allocation=execution.allocation,
            error=execution.error,
            metrics=execution.metrics,
            progress=None if progress is None else ProgressView.of(progress),
        )


class LogLineView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of an execution's log."""

    seq: int
    at: datetime
    level: Annotated[str, names(LogLevel)]
    message: str
    fields: dict[str, Any] = {}

    @classmethod
    def of(cls, line: LogLine) -> Self:
        return cls(
            seq=line.seq,
            at=moment(line.at),
            level=str(line.level),
            message=line.message,
            fields=line.fields,
        )


class ExecutionPage(msgspec.Struct, frozen=True, kw_only=True):
    items: list[ExecutionView]
    next_cursor: str | None


class LogPage(msgspec.Struct, frozen=True, kw_only=True):
    execution_id: str | None
    """Execution that wrote the log; `null` for a task that was not attempted yet."""
    items: list[LogLineView]
    next_cursor: str | None
