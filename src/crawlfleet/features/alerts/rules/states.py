"""Computes the next state of an alert rule from an observation, and the notice that is due.

A rule holds beyond its limit, until the value is back at `clear_at`. It must hold for `for_s` to
fire, and not hold for `clear_s` to end, so that nothing flaps. All its subjects at one time are one
alert. The first notice is due `group_s` after the alert fires, another one when it has further
subjects, and another after `repeat_s`. No notice is sent during a silence; one follows after it if
the alert still fires.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from crawlfleet.features.alerts.model import AlertRule, AlertState, AlertStatus, Silence, Source
from crawlfleet.model.change import Change
from crawlfleet.model.event import Event

MAX_SUBJECTS: Final = 20
"""More are counted, not named."""
MORE_EVERY_S: Final = 300.0
"""Minimum time between two notices of a firing alert that found further subjects."""
OF_ALERTS: Final = "alert."
"""Prefix of the event kinds that alerts emit. No rule counts them: an alert that fires would cause
another one without end."""
SHARES: Final = frozenset({Source.ERROR_SHARE, Source.DISK_FREE})
NOUNS: Final = {
    Source.NODES_LOST: "nodes that fell silent",
    Source.NODES_ONLINE: "nodes online",
    Source.QUEUE_AGE: "seconds that a task has been waiting",
    Source.QUEUE_LENGTH: "tasks that wait",
    Source.ERROR_SHARE: "of the tasks that ended failed",
    Source.DISK_FREE: "of the master's disk is free",
    Source.EVENTS: "events",
}


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """The current measurement of an alert rule."""

    value: float | None = None
    """The measured value; `None` when there is none, such as the share of nothing."""
    subjects: tuple[str, ...] = ()
    """Ids of the subjects that the measurement is about, where they can be named."""
    count: int = 0
    """Number of subjects, including those that `subjects` does not name."""


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """A notice to send about a rule: its alert fires, or is over."""

    status: AlertStatus
    """`firing`, or `quiet` when it is over."""
    again: bool = False
    """Set when a notice was sent before for the same alert."""


def holds(rule: AlertRule, value: float | None, *, is_on: bool) -> bool:
    """Return true if the condition of a rule holds at a value. While the alert `is_on`, it holds
    until the value is back at `clear_at`."""
    if value is None:
        return False
    back = rule.clear_at if is_on and rule.clear_at is not None else None
    if rule.above is not None:
        return value > (rule.above if back is None else back)
    if rule.below is not None:
        return value < (rule.below if back is None else back)
    return False


def is_silenced(silences: Sequence[Silence], subjects: Sequence[str], now: float) -> bool:
    """Return true if no notice may be sent: the whole rule is silenced, or each of its subjects."""
    active = [each for each in silences if each.until > now]
    if any(not each.subject for each in active):
        return True
    silent = {each.subject for each in active}
    return bool(subjects) and silent.issuperset(subjects)


def step(rule: AlertRule, seen: Observation, now: float) -> tuple[AlertState, Notice | None]:
    """Return the state of a rule after an observation, and the notice to send, if any."""
    state = _moved(rule, seen, now)
    before = rule.state
    if state.status is AlertStatus.QUIET and before.fires and before.told_at:
        # Who was told that it fires hears that it is over, unless all of it is silenced.
        if is_silenced(rule.silences, (), now):
            return state, None
        return state, Notice(status=AlertStatus.QUIET)
    if state.status is not AlertStatus.FIRING:
        return state, None
    if not _is_due(rule, state, now) or is_silenced(rule.silences, state.subjects, now):
        return state, None
    told = msgspec.structs.replace(state, told_at=now, told=state.subjects)
    return told, Notice(status=AlertStatus.FIRING, again=bool(state.told_at))


def _moved(rule: AlertRule, seen: Observation, now: float) -> AlertState:
    state = rule.state
    is_on = state.fires
    if not rule.is_on or rule.removed_at is not None:
        return AlertState(since=now) if state.status is not AlertStatus.QUIET else state
    if holds(rule, seen.value, is_on=is_on):
        fresh = msgspec.structs.replace(
            state,
            value=seen.value or 0.0,
            subjects=seen.subjects[:MAX_SUBJECTS],
            count=max(seen.count, len(seen.subjects)),
        )
        match state.status:
            case AlertStatus.QUIET if rule.for_s > 0:
                return msgspec.structs.replace(fresh, status=AlertStatus.PENDING, since=now)
            case AlertStatus.PENDING if now - state.since < rule.for_s:
                return fresh
            case AlertStatus.QUIET | AlertStatus.PENDING:
                return msgspec.structs.replace(
                    fresh, status=AlertStatus.FIRING, since=now, fired_at=now
                )
            case AlertStatus.CLEARING:
                return msgspec.structs.replace(
                    fresh, status=AlertStatus.FIRING, since=state.fired_at
                )
        return fresh
    match state.status:
        case AlertStatus.PENDING:
            return AlertState(since=now)
        case AlertStatus.FIRING if rule.clear_s > 0:
            return msgspec.structs.replace(state, status=AlertStatus.CLEARING, since=now)
        case AlertStatus.CLEARING if now - state.since < rule.clear_s:
            return state
        case AlertStatus.FIRING | AlertStatus.CLEARING:
            return AlertState(since=now, value=seen.value or 0.0)
    return state


def _is_due(rule: AlertRule, state: AlertState, now: float) -> bool:
    if not state.told_at:
        return now - state.fired_at >= rule.group_s
    if not {*state.told}.issuperset(state.subjects):
        return now - state.told_at >= max(rule.group_s, MORE_EVERY_S)
    return now - state.told_at >= rule.repeat_s


def is_worth_keeping(before: AlertState, after: AlertState) -> bool:
    """Return true if a change of state is stored. Waits (`for_s`, `clear_s`) are not stored and
    begin again when another master leads."""
    return (
        (before.fires) != (after.fires)
        or before.told_at != after.told_at
        or before.told != after.told
    )


def change_of(rule: AlertRule, state: AlertState, notice: Notice | None, *, now: float) -> Change:
    """Return the change that stores the new state of a rule, with an event if there is a notice."""
    kept = msgspec.structs.replace(rule, state=state, version=rule.version + 1)
    events = (_event(rule, state, notice, now),) if notice is not None else ()
    return Change(rows=(kept,), events=events)


def _event(rule: AlertRule, state: AlertState, notice: Notice, now: float) -> Event:
    fires = notice.status is AlertStatus.FIRING
    about = state if fires else rule.state
    details: dict[str, Any] = {
        "rule": rule.name,
        "severity": str(rule.severity),
        "summary": summary(rule, about, fires=fires),
        "value": state.value,
        "subjects": list(about.subjects),
        "count": about.count,
        "again": notice.again,
    }
    if rule.description:
        details["description"] = rule.description
    return Event(
        kind="alert.firing" if fires else "alert.resolved",
        subject=rule.id,
        at=now,
        cause=details["summary"],
        from_state="firing" if notice.again or not fires else "quiet",
        to_state="firing" if fires else "resolved",
        details=details,
        project_id=rule.project_id,
    )


def summary(rule: AlertRule, state: AlertState, *, fires: bool) -> str:
    """Return a line that says what the alert is about, or that it is over."""
    if not fires:
        return f"{rule.name} is over"
    noun = f"events {rule.event}" if rule.source is Source.EVENTS else NOUNS[rule.source]
    limit = rule.above if rule.above is not None else rule.below
    beyond = "more" if rule.above is not None else "less"
    shown = _shown(rule.source, state.value)
    text = f"{rule.name}: {shown} {noun} ({beyond} than {_shown(rule.source, limit or 0.0)})"
    if state.subjects:
        more = state.count - len(state.subjects)
        named = ", ".join(state.subjects[:5])
        rest = len(state.subjects) - 5 + more
        text += f": {named}" + (f" and {rest} more" if rest > 0 else "")
    return text


def _shown(source: Source, value: float) -> str:
    return f"{value:.0%}" if source in SHARES else f"{value:.6g}"
