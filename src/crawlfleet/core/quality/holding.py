"""Whether a step of a workflow waits for somebody who accepts what its tasks found."""

from collections.abc import Iterable
from typing import Final

import msgspec

from crawlfleet.core.quality.recording import told
from crawlfleet.model.quality import Decision, MeasuredRun, Verdict

MOST_NAMED: Final = 3


class Held(msgspec.Struct, frozen=True):
    """Somebody has to decide."""

    reason: str


class Rejected(msgspec.Struct, frozen=True):
    """Somebody has, against it."""

    reason: str


def in_words(run: MeasuredRun) -> str:
    """How a measured run stands, for who asks why something does not go on."""
    if run.verdict is Verdict.OK:
        return "its items are as expected"
    found = f"its items are not as expected ({run.verdict}): {told(run.judgement)}"
    if run.decision is Decision.HELD:
        return f"{found}; held until somebody accepts or rejects it ({_verb(run)})"
    return (
        found if run.decision is Decision.NONE else f"{found}; {run.decision} by {run.decided_by}"
    )


def _verb(run: MeasuredRun) -> str:
    return f"crawlfleet quality accept {run.task_id}"


def held_by(runs: Iterable[MeasuredRun]) -> Held | Rejected | None:
    """What the newest runs of the tasks of a step come to; `None` when nothing holds it.

    One that was rejected is enough to reject all; then nobody has to look at the others.
    """
    waiting: list[MeasuredRun] = []
    for run in runs:
        if run.decision is Decision.REJECTED:
            why = f": {run.reason}" if run.reason else ""
            return Rejected(f"{run.task_id} was rejected by {run.decided_by}{why}")
        if run.decision is Decision.HELD:
            waiting.append(run)
    if not waiting:
        return None
    named = [f"{run.task_id}: {told(run.judgement)}" for run in waiting[:MOST_NAMED]]
    if len(waiting) > MOST_NAMED:
        named.append(f"and {len(waiting) - MOST_NAMED} more")
    verb = _verb(waiting[0])
    return Held(f"held until somebody accepts or rejects it ({verb}): {'; '.join(named)}")
