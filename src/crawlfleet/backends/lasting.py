"""What never changes in a row. Not every store writes it again: nobody may rely on that."""

from operator import attrgetter
from typing import Final

from crawlfleet.model.task import EXECUTION_CHANGES, TASK_CHANGES, Execution, Task

_of_task: Final = attrgetter(*(n for n in Task.__struct_fields__ if n not in TASK_CHANGES))
_of_execution: Final = attrgetter(
    *(name for name in Execution.__struct_fields__ if name not in EXECUTION_CHANGES)
)


def assert_lasting(before: Task | Execution | None, after: Task | Execution) -> None:
    """Fail if a change of a row touches what never changes: a mistake of whoever decided it."""
    of = _of_task if isinstance(after, Task) else _of_execution
    assert before is None or of(before) == of(after), f"{after.id} has another beginning"
