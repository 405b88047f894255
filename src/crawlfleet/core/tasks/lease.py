"""A task in the hands of a node: what every decision about an attempt begins with."""

import msgspec

from crawlfleet.model.task import LEASED, Execution, ExecutionStatus, Task


class Lease(msgspec.Struct, frozen=True, gc=False):
    """A task and the execution that owns it, or owned it and is being stopped."""

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
