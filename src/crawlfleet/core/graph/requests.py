"""The tasks of steps: what is submitted for an instance, and under which id."""

import hashlib
from typing import Any, Final

import msgspec

from crawlfleet.model.ids import ALPHABET, TASK, instant_digits
from crawlfleet.model.requests import TaskRequest
from crawlfleet.model.step import StepRef
from crawlfleet.model.workflow import Step, TaskOptions, WorkflowDocument

_OPTIONS: Final = TaskOptions.__struct_fields__


def request_of(document: WorkflowDocument, step: Step, parameters: msgspec.Raw) -> TaskRequest:
    """What is submitted for a step: its own options before those of the document."""
    fields: dict[str, Any] = {}
    for name in _OPTIONS:
        value = getattr(step, name)
        if value is msgspec.UNSET:
            value = getattr(document.defaults, name)
        if value is not msgspec.UNSET:
            fields[name] = value
    return TaskRequest(
        task_type=step.task_type,
        project_id=document.project_id,
        parameters=parameters,
        **fields,
    )


def task_id(ref: StepRef, run_created_at: float) -> str:
    """The one id that the task of an instance can have: whoever makes it twice is refused.

    Like every other id it begins with an instant, here that of the run, and cannot be guessed by
    somebody who does not know the run's.
    """
    named = f"{ref.run_id}/{ref.step}/{ref.attempt}/{ref.index}".encode()
    number = int.from_bytes(hashlib.blake2b(named, digest_size=10).digest(), "big")
    body = "".join(ALPHABET[number >> shift & 31] for shift in range(75, -1, -5))
    return f"{TASK}-{instant_digits(int(run_created_at * 1000))}{body}"
