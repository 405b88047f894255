"""Whether a step of a workflow waits for somebody who accepts what its tasks found."""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from crawlfleet.core.quality.recording import told
from crawlfleet.model.quality import Decision, MeasuredRun, Verdict

MOST_NAMED: Final = 3
GONE: Final = (
    "held, and what was measured is gone, so that nobody can accept it: cancel the run, and start "
    "the workflow anew"
)


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


def concerned(decisions: Mapping[str, Decision]) -> tuple[list[str], int]:
    """Of what was said of the tasks of a step: those that are named, and how many more are held."""
    rejected = [id for id, each in decisions.items() if each is Decision.REJECTED]
    if rejected:
        return rejected[:1], 0
    held = [id for id, each in decisions.items() if each is Decision.HELD]
    return held[:MOST_NAMED], len(held[MOST_NAMED:])


def held_by(runs: Iterable[MeasuredRun], more: int = 0) -> Held | Rejected | None:
    """What the newest runs of the tasks of a step come to, of which `more` are held that are not
    among them; `None` when nothing holds it.

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
        # Those that are named were just decided about: of that one hears soon.
        return Held(f"held until somebody accepts or rejects {more} tasks") if more else None
    more += len(waiting[MOST_NAMED:])
    named = [f"{run.task_id}: {told(run.judgement)}" for run in waiting[:MOST_NAMED]]
    if more:
        named.append(f"and {more} more")
    verb = _verb(waiting[0])
    return Held(f"held until somebody accepts or rejects it ({verb}): {'; '.join(named)}")
