"""Acceptance of measured runs: whether a step of a workflow waits until a person accepts its
items."""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from crawlfleet.core.quality.recording import told
from crawlfleet.model.quality import Decision, MeasuredRun, Verdict

MAX_NAMED: Final = 3
GONE: Final = (
    "held, and what was measured is gone, so that nobody can accept it: cancel the run, and start "
    "the workflow anew"
)


class Held(msgspec.Struct, frozen=True):
    """State of a step that waits for the decision of a person."""

    reason: str


class Rejected(msgspec.Struct, frozen=True):
    """State of a step whose items a person has rejected."""

    reason: str


def in_words(run: MeasuredRun) -> str:
    """Return the state of a measured run, as text that explains why a workflow does not
    continue."""
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


def concerned(decisions: Mapping[str, Decision]) -> tuple[list[str], int]:
    """Return the tasks of a step to name in the answer, from their decisions, and the number of
    further held ones."""
    rejected = [id for id, each in decisions.items() if each is Decision.REJECTED]
    if rejected:
        return rejected[:1], 0
    held = [id for id, each in decisions.items() if each is Decision.HELD]
    return held[:MAX_NAMED], len(held[MAX_NAMED:])


def held_by(runs: Iterable[MeasuredRun], more: int = 0) -> Held | Rejected | None:
    """Return the decision on a step from the newest runs of its tasks; `None` when none holds it.

    `more` is the number of held runs that are not in `runs`. One rejected run rejects the step;
    then nobody has to look at the others.
    """
    waiting: list[MeasuredRun] = []
    for run in runs:
        if run.decision is Decision.REJECTED:
            why = f": {run.reason}" if run.reason else ""
            return Rejected(f"{run.task_id} was rejected by {run.decided_by}{why}")
        if run.decision is Decision.HELD:
            waiting.append(run)
    if not waiting:
        # Those that are named were just decided about: of that one hears soon.
        return Held(f"held until somebody accepts or rejects {more} tasks") if more else None
    more += len(waiting[MAX_NAMED:])
    named = [f"{run.task_id}: {told(run.judgement)}" for run in waiting[:MAX_NAMED]]
    if more:
        named.append(f"and {more} more")
    verb = _verb(waiting[0])
    return Held(f"held until somebody accepts or rejects it ({verb}): {'; '.join(named)}")
