"""Lease of a task: the input of every decision about an attempt."""

import msgspec

from crawlfleet.model.task import LEASED, Execution, ExecutionStatus, Task


class Lease(msgspec.Struct, frozen=True, gc=False):
    """Task with the execution that owns it, or that owned it and is stopping."""

    task: Task
    execution: Execution

    @property
    def owns(self) -> bool:
        """True if the execution still decides over the task."""
        return (
            self.task.status in LEASED
            and self.task.execution_id == self.execution.id
            and self.task.token == self.execution.token
            and self.execution.status is not ExecutionStatus.STOPPING
        )
