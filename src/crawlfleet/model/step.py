"""Which part of a workflow's run a task is."""

import msgspec


class StepRef(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One instance of a step. The id of its task follows from these: it cannot be made twice."""

    run_id: str
    step: str
    attempt: int = 1
    """Grows when the step is done anew in the same run."""
    index: int = 0
    """Which of the instances, for a step with `for_each`."""
