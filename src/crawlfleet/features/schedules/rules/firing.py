"""Decides what a schedule does now: which due instants start something, and the outcome of the
others.

A decision covers everything that is late, in order. It comes out as a `FiringPlan`: the schedule
with its cursor moved, the firings that start nothing, and those that are to start a task or the run
of a workflow. The caller then tries to make these and commits the whole as one change. The cursor
and the firings are in that change, so that a due instant is dealt with once, or not at all.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from crawlfleet.features.schedules.model import (
    Firing,
    Origin,
    Outcome,
    Overlap,
    Schedule,
    WaitingFiring,
    firing_id,
)
from crawlfleet.features.schedules.rules.recurrence import Recurrence, put_off_by
from crawlfleet.features.workflows.model import Run
from crawlfleet.model.change import Change
from crawlfleet.model.event import Event

MAX_STARTS: Final = 100
"""Maximum number of starts in one decision of a schedule that does not coalesce."""
MAX_LOOKED_AT: Final = 2_000
"""Maximum number of due instants examined in one call, which blocks the event loop."""


class Span(msgspec.Struct, frozen=True):
    """Due instants that come to one firing."""

    first: float
    last: float
    count: int = 1

    def with_one_more(self, due: float) -> "Span":
        return Span(self.first, due, self.count + 1)


class LateFirings(msgspec.Struct, frozen=True, kw_only=True):
    """The due instants since the cursor whose time has come."""

    missed: Span | None = None
    """Due instants that are later than the grace allows."""
    timely: tuple[Span, ...] = ()
    """Due instants that are to start something, one start for each span."""
    through: float | None = None
    """The last due instant that was examined."""
    more: bool = False
    """Set when further due instants may be late: call `look` again before deciding."""


class FiringStart(msgspec.Struct, frozen=True, kw_only=True):
    """A firing that is to start a task, or a run."""

    firing: Firing
    """The firing as it will be stored on success, still without the id of the task or run."""


class FiringPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The decision about a schedule: its new row, the firings, and those that start something."""

    schedule: Schedule
    """The new row of the schedule; started tasks and runs are added later."""
    firings: tuple[Firing, ...] = ()
    starts: tuple[FiringStart, ...] = ()


def starts_at(schedule: Schedule, due: float) -> float:
    """Return the time at which a due instant starts something, with the jitter added."""
    return due + put_off_by(schedule.rule, schedule.id, schedule.edition, due)


def look(
    schedule: Schedule,
    recurrence: Recurrence,
    now: float,
    so_far: LateFirings = LateFirings(),  # noqa: B008 (frozen)
) -> LateFirings:
    """Return the late due instants of a schedule, in portions: pass the result in as `so_far` and
    call again while `more` is set."""
    rule = schedule.rule
    missed, timely, through = so_far.missed, [*so_far.timely], so_far.through
    later = recurrence.after(schedule.cursor if through is None else through)
    for looked_at, due in enumerate(later):
        begin = starts_at(schedule, due)
        if begin > now or (not rule.coalesce and len(timely) == MAX_STARTS):
            break
        if looked_at == MAX_LOOKED_AT:
            return LateFirings(missed=missed, timely=tuple(timely), through=through, more=True)
        through = due
        if rule.misfire_grace_s is not None and now - begin > rule.misfire_grace_s:
            missed = Span(due, due) if missed is None else missed.with_one_more(due)
        elif rule.coalesce and timely:
            timely[0] = timely[0].with_one_more(due)
        else:
            timely.append(Span(due, due))
    return LateFirings(missed=missed, timely=tuple(timely), through=through)


def decide(
    schedule: Schedule, late: LateFirings, *, now: float, running: Sequence[str]
) -> FiringPlan | None:
    """Decide about the late due instants and about the firing that waits; `None` when there is
    nothing to do.

    `running` are those of the schedule's tasks and runs that have not ended.
    """
    firings: list[Firing] = []
    starts: list[FiringStart] = []
    waiting = schedule.waiting
    room = schedule.rule.max_instances - len(running)
    if waiting is not None and room > 0:
        starts.append(FiringStart(firing=_from_waiting(schedule, waiting, now)))
        waiting = None
        room -= 1
    if late.missed is not None:
        firings.append(_missed(schedule, late.missed, now))
    for span in late.timely:
        firing = _firing(schedule, span, Outcome.STARTED, now)
        if room > 0:
            starts.append(FiringStart(firing=firing))
            room -= 1
        elif schedule.rule.overlap is Overlap.QUEUE and waiting is None:
            waiting = WaitingFiring(
                due_at=span.last,
                edition=schedule.edition,
                count=span.count,
                first_due_at=firing.first_due_at,
            )
            reason = f"waits until one of {_named(running)} has ended"
            firings.append(replace(firing, outcome=Outcome.QUEUED, reason=reason))
        else:
            reason = _no_room(schedule, running, waiting)
            firings.append(replace(firing, outcome=Outcome.SKIPPED, reason=reason))
    if not firings and not starts:
        return None
    cursor = schedule.cursor if late.through is None else max(late.through, schedule.cursor)
    moved = replace(
        schedule,
        cursor=cursor,
        waiting=waiting,
        running=tuple(running),
        version=schedule.version + 1,
    )
    return FiringPlan(schedule=moved, firings=tuple(firings), starts=tuple(starts))


def run_now(schedule: Schedule, *, now: float, running: Sequence[str], cause: str) -> FiringPlan:
    """Plan a firing at once that a user asked for, whatever the rule says."""
    firing = _firing(schedule, Span(now, now), Outcome.STARTED, now, Origin.RUN)
    moved = replace(schedule, running=tuple(running), version=schedule.version + 1)
    return FiringPlan(schedule=moved, starts=(FiringStart(firing=replace(firing, reason=cause)),))


def fill_back(
    schedule: Schedule, dues: Iterable[float], known: Iterable[Firing], *, now: float, cause: str
) -> FiringPlan:
    """Plan a firing for each of these instants that has not started anything, even if there is no
    room.

    `known` are the existing firings of these instants, by the rule or by users.
    """
    there = {each.id: each for each in known}
    begun = {
        round(each.due_at, 3)
        for each in there.values()
        if each.outcome in _UNDER_WAY and each.origin is not Origin.RUN
    }
    starts: list[FiringStart] = []
    for due in dues:
        if round(due, 3) in begun:
            continue
        firing = _firing(schedule, Span(due, due), Outcome.STARTED, now, Origin.BACKFILL)
        refused = there.get(firing.id)
        version = 1 if refused is None else refused.version + 1
        starts.append(FiringStart(firing=replace(firing, reason=cause, version=version)))
    moved = replace(schedule, version=schedule.version + 1)
    return FiringPlan(schedule=moved, starts=tuple(starts))


_UNDER_WAY: Final = frozenset({Outcome.STARTED, Outcome.QUEUED})


def settle(
    verdict: FiringPlan,
    made: Sequence[Change | str],
    *,
    now: float,
    cause: str,
) -> Change:
    """Return a plan as one change; `made` has the change for each start, or the reason why it was
    refused."""
    started: list[Firing] = []
    counted: list[str] = []
    for start, work in zip(verdict.starts, made, strict=True):
        if isinstance(work, str):
            started.append(replace(start.firing, outcome=Outcome.REFUSED, reason=work))
            continue
        begun = work.of(Run) or work.tasks
        name = "run_id" if work.of(Run) else "task_id"
        started.append(replace(start.firing, **{name: begun[0].id}))
        if start.firing.origin is not Origin.BACKFILL:
            counted.append(begun[0].id)
    works = [work for work in made if isinstance(work, Change)]
    firings = (*verdict.firings, *started)
    schedule = replace(
        verdict.schedule,
        running=(*verdict.schedule.running, *counted),
        last=max(firings, key=lambda each: (each.at, each.due_at))
        if firings
        else verdict.schedule.last,
        updated_at=now,
    )
    return Change(
        rows=(schedule, *firings, *(row for work in works for row in work.rows)),
        tasks=tuple(row for work in works for row in work.tasks),
        claims=tuple(claim for work in works for claim in work.claims),
        events=(
            *(_event(schedule, firing, now, cause) for firing in firings),
            *(event for work in works for event in work.events),
        ),
    )


def _firing(
    schedule: Schedule, span: Span, outcome: Outcome, now: float, origin: Origin = Origin.RULE
) -> Firing:
    return Firing(
        id=firing_id(schedule.id, schedule.edition, span.last, origin),
        schedule_id=schedule.id,
        project_id=schedule.project_id,
        due_at=span.last,
        at=now,
        outcome=outcome,
        origin=origin,
        edition=schedule.edition,
        count=span.count,
        first_due_at=span.first if span.count > 1 else None,
    )


def _missed(schedule: Schedule, span: Span, now: float) -> Firing:
    grace = schedule.rule.misfire_grace_s
    return replace(
        _firing(schedule, span, Outcome.MISSED, now),
        reason=f"no master was there within the grace of {grace:g} s",
    )


def _from_waiting(schedule: Schedule, waiting: WaitingFiring, now: float) -> Firing:
    """The row of the firing that waited, in its second version."""
    return Firing(
        id=firing_id(schedule.id, waiting.edition, waiting.due_at),
        schedule_id=schedule.id,
        project_id=schedule.project_id,
        due_at=waiting.due_at,
        at=now,
        outcome=Outcome.STARTED,
        edition=waiting.edition,
        count=waiting.count,
        first_due_at=waiting.first_due_at,
        version=2,
    )


def _no_room(schedule: Schedule, running: Sequence[str], waiting: WaitingFiring | None) -> str:
    most = schedule.rule.max_instances
    beside = ", and one waits already" if waiting is not None else ""
    if not running:
        return f"max_instances is {most}, and earlier ones were just started{beside}"
    return f"max_instances is {most}, and {_named(running)} had not ended{beside}"


def _named(running: Sequence[str]) -> str:
    some = ", ".join(running[:3])
    return some if len(running) <= 3 else f"{some} and {len(running) - 3} more"


def _event(schedule: Schedule, firing: Firing, now: float, cause: str) -> Event:
    details: dict[str, object] = {"firing_id": firing.id, "due_at": firing.due_at}
    if firing.task_id is not None:
        details["task_id"] = firing.task_id
    if firing.run_id is not None:
        details["run_id"] = firing.run_id
    if firing.count > 1:
        details["count"] = firing.count
    return Event(
        kind=f"schedule.{firing.outcome}",
        subject=schedule.id,
        at=now,
        cause=firing.reason or cause,
        details=details,
        project_id=schedule.project_id,
    )
