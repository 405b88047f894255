"""Task requests of steps, and the ids of their tasks."""

import hashlib
from typing import Any, Final

import msgspec

from crawlfleet.core.quality.expectations import in_series, of_step
from crawlfleet.features.workflows.model import TaskOptions, WorkflowDocument
from crawlfleet.model.ids import ALPHABET, TASK, instant_digits
from crawlfleet.model.requests import TaskRequest
from crawlfleet.model.task import StepRef

_OPTIONS: Final = TaskOptions.__struct_fields__


def request_of(
    document: WorkflowDocument, name: str, parameters: msgspec.Raw, index: int | None = None
) -> TaskRequest:
    """Return the task request of a step. Options of the step come before the document's defaults.

    `index` is the number of the instance, if the step has several.
    """
    step = document.steps[name]
    fields: dict[str, Any] = {}
    for option in _OPTIONS:
        value = getattr(step, option)
        if value is msgspec.UNSET:
            value = getattr(document.defaults, option)
        if value is not msgspec.UNSET:
            fields[option] = value
    return TaskRequest(
        task_type=step.task_type,
        project_id=document.project_id,
        parameters=parameters,
        expectations=in_series(step.expectations, of_step(document.name, name, index)),
        **fields,
    )


def task_id(ref: StepRef, run_created_at: float) -> str:
    """Return the id of an instance's task. It follows from the run, step, attempt and index, so a
    second attempt to create the task is refused.

    Like every other id it begins with an instant, here that of the run, and cannot be guessed
    without knowing the run's id.
    """
    named = f"{ref.run_id}/{ref.step}/{ref.attempt}/{ref.index}".encode()
    number = int.from_bytes(hashlib.blake2b(named, digest_size=10).digest(), "big")
    body = "".join(ALPHABET[number >> shift & 31] for shift in range(75, -1, -5))
    return f"{TASK}-{instant_digits(int(run_created_at * 1000))}{body}"
