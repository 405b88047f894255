"""Messages to a node about its leases: assignments and stop orders."""

from collections.abc import Iterable, Iterator
from typing import Final

from crawlfleet.core.isolation import demanded
from crawlfleet.core.tasks.lease import Lease
from crawlfleet.model.task import Execution
from crawlfleet.model.wire.node_protocol import Assignment, StopOrder

BYTES_AT_ONCE: Final = 2_000_000
"""Limit of the parameters in one message, in bytes: packing a larger one would hold up all other
work of master and node."""


def stop_order(execution: Execution) -> StopOrder:
    """Return the order to a node to stop an execution."""
    return StopOrder(execution_id=execution.id, task_id=execution.task_id, token=execution.token)


def portion(leases: Iterable[Lease]) -> Iterator[Assignment]:
    """Yield the assignments of as many leases as fit into one message, at least of one."""
    size = 0
    for number, lease in enumerate(leases):
        size += len(memoryview(lease.task.parameters))
        if number and size > BYTES_AT_ONCE:
            return
        yield assignment(lease)


def assignment(lease: Lease) -> Assignment:
    """Return everything that a node needs to do the work of a lease."""
    task = lease.task
    return Assignment(
        execution_id=lease.execution.id,
        task_id=task.id,
        token=lease.execution.token,
        task_type=task.task_type,
        parameters=task.parameters,
        timeout_s=task.timeout_s,
        allocation=lease.execution.allocation,
        attempt=task.retry_count + task.loss_count + 1,
        parent_id=task.parent_id,
        isolation=demanded(task.capabilities),
        bundle=task.bundle,
        secrets=task.secrets,
    )
