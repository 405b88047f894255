"""Converts between assignments and messages of the executor protocol."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from crawlfleet.core.text.nesting import is_too_deep
from crawlfleet.model.task import ErrorClass, TaskError
from crawlfleet.model.wire.node_protocol import Assignment
from crawlfleet.ports.execution import Attempt, NotBegun
from crawlfleet.worker.pool import protocol

NO_FIGURES: Final[Mapping[str, float]] = MappingProxyType({})
NO_SECRETS: Final[Mapping[str, str]] = MappingProxyType({})


def start_of(assignment: Assignment, secrets: Mapping[str, str] = NO_SECRETS) -> protocol.Start:
    """Return the order to begin an execution."""
    return protocol.Start(
        execution_id=assignment.execution_id,
        task_id=assignment.task_id,
        attempt=assignment.attempt,
        task_type=assignment.task_type,
        timeout_s=assignment.timeout_s,
        allocation=assignment.allocation,
        parent_id=assignment.parent_id,
        parameters=assignment.parameters,
        secrets={**secrets},
    )


def attempt_of(
    reply: protocol.Ending, elapsed_s: float, figures: Mapping[str, float] = NO_FIGURES
) -> Attempt:
    """Return the outcome of an ending, with the resources that the process used. Raises `NotBegun`
    for `Returned` and `Stopped`: the executor handed the execution back."""
    match reply:
        case protocol.Result(data=data, metrics=metrics):
            if (size := memoryview(data).nbytes) > protocol.MAX_RESULT_BYTES:
                return failed(ErrorClass.ERROR, protocol.too_large(size))
            if is_too_deep(bytes(data)):
                return failed(ErrorClass.ERROR, protocol.TOO_DEEP)
            return Attempt(data=data, metrics={**metrics, **figures, "elapsed_s": elapsed_s})
        case protocol.Error(error_class=error_class, message=message, details=details):
            return failed(error_class, message, details)
        case protocol.Returned() | protocol.Stopped():
            raise NotBegun("its executor handed it back")


def over_time(assignment: Assignment) -> Attempt:
    """Return the outcome of an execution that was stopped at its time limit."""
    return failed(
        ErrorClass.TIMEOUT, f"stopped after {assignment.timeout_s:g} s, the time limit of the task"
    )


def failed(error_class: ErrorClass, message: str, details: str = "") -> Attempt:
    error = TaskError(
        error_class=error_class,
        message=message[: protocol.MAX_MESSAGE_CHARS],
        details=details[-protocol.MAX_DETAILS_CHARS :],
    )
    return Attempt(error=error)
