"""Checks that rows keep the fields that never change. Some stores do not write these again."""

from collections.abc import Mapping
from operator import attrgetter
from typing import Any, Final

from crawlfleet.adapters.store.acceptance import rows_by_kind
from crawlfleet.model.change import Change
from crawlfleet.model.task import (
    EXECUTION_BLANKS,
    EXECUTION_CHANGES,
    EXECUTION_STEPS,
    TASK_BLANKS,
    TASK_CHANGES,
    TASK_STEPS,
    Execution,
    Task,
)

_of_task: Final = attrgetter(*(n for n in Task.__struct_fields__ if n not in TASK_CHANGES))
_of_execution: Final = attrgetter(
    *(name for name in Execution.__struct_fields__ if name not in EXECUTION_CHANGES)
)


def assert_lasting(before: Task | Execution | None, after: Task | Execution) -> None:
    """Fail if a change touches fields that never change: a defect in the code that decided it."""
    of = _of_task if isinstance(after, Task) else _of_execution
    assert before is None or of(before) == of(after), f"{after.id} has another beginning"


_ALWAYS: Final = ("status", "version", "updated_at")
_USUAL: Final[Mapping[type[Any], tuple[tuple[str, ...], Mapping[Any, tuple[str, ...]]]]] = {
    Task: (TASK_BLANKS, TASK_STEPS),
    Execution: (EXECUTION_BLANKS, EXECUTION_STEPS),
}


def assert_usual(change: Change, before: Mapping[type[Any], Mapping[str, Any]]) -> None:
    """Fail if a `usual` change touches more columns than such a change may: stores need not write
    these. `before` has the stored rows, by kind and id.
    """
    for kind, rows in rows_by_kind(change) if change.usual else ():
        assert kind in _USUAL or not rows, "only tasks and executions go their usual way"
        for row in rows:
            blanks, steps = _USUAL[kind]
            old = before[kind].get(row.id)
            if old is None:
                wrong = {name for name in blanks if getattr(row, name)}
            elif row.status in steps:
                names = {*row.__struct_fields__} - {*_ALWAYS, *steps[row.status]}
                wrong = {name for name in names if getattr(old, name) != getattr(row, name)}
            else:
                continue
            assert not wrong, f"{row.id} is {row.status}, and more than usual changed: {wrong}"
