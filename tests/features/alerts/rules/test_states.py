"""When a rule fires, when people are told, and when it is over: tables of inputs and answers."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawlfleet.features.alerts.model import AlertRule, AlertStatus, Silence, Source
from crawlfleet.features.alerts.rules import states
from crawlfleet.features.alerts.rules.alerts import BUILT_INS, problems_of
from crawlfleet.features.alerts.rules.event_windows import EventWindows
from crawlfleet.features.alerts.rules.states import Observation, holds, step
from crawlfleet.model.event import Event
from tests.sampling import examples

Q, P, F, C = AlertStatus.QUIET, AlertStatus.PENDING, AlertStatus.FIRING, AlertStatus.CLEARING


def rule(**fields: Any) -> AlertRule:
    usual: dict[str, Any] = {"source": Source.QUEUE_LENGTH, "above": 10.0, "group_s": 0.0}
    return AlertRule(id="alert-x", name="x", **(usual | fields))


def play(
    start: AlertRule, values: list[float | None], *, every_s: float = 10.0
) -> list[tuple[AlertStatus, str]]:
    """The states and what people are told, with one observation every few seconds."""
    seen: list[tuple[AlertStatus, str]] = []
    for number, value in enumerate(values):
        state, notice = step(start, Observation(value=value), 1000.0 + number * every_s)
        told = "" if notice is None else ("again" if notice.again else str(notice.status))
        seen.append((state.status, told))
        start = msgspec.structs.replace(start, state=state)
    return seen


@pytest.mark.parametrize(
    ("fields", "value", "on", "held"),
    [
        ({}, 10.0, False, False),
        ({}, 10.1, False, True),
        ({"clear_at": 5.0}, 7.0, False, False),
        ({"clear_at": 5.0}, 7.0, True, True),
        ({"clear_at": 5.0}, 5.0, True, False),
        ({"above": None, "below": 3.0}, 2.0, False, True),
        ({"above": None, "below": 3.0, "clear_at": 6.0}, 5.0, True, True),
        ({"above": None, "below": 3.0, "clear_at": 6.0}, 6.0, True, False),
        ({}, None, True, False),
    ],
)
def test_a_limit_has_two_sides(
    fields: dict[str, Any], value: float | None, on: bool, held: bool
) -> None:
    assert holds(rule(**fields), value, is_on=on) is held


def test_it_fires_at_once_and_is_over_at_once_without_patience() -> None:
    assert play(rule(), [1, 11, 12, 3]) == [(Q, ""), (F, "firing"), (F, ""), (Q, "quiet")]


def test_it_has_to_hold_for_a_while_and_a_peak_is_forgotten() -> None:
    found = play(rule(for_s=20), [11, 1, 11, 11, 11, 11])
    assert found == [(P, ""), (Q, ""), (P, ""), (P, ""), (F, "firing"), (F, "")]


def test_a_dip_while_it_clears_tells_nobody_anything() -> None:
    found = play(rule(clear_s=20), [11, 1, 11, 1, 1, 1])
    assert found == [(F, "firing"), (C, ""), (F, ""), (C, ""), (C, ""), (Q, "quiet")]


def test_between_the_limits_nothing_flaps() -> None:
    found = play(rule(clear_at=5), [11, 9, 11, 6, 9, 5, 9, 11])
    assert [told for _, told in found] == ["firing", "", "", "", "", "quiet", "", "firing"]


def test_who_was_not_told_does_not_hear_that_it_is_over() -> None:
    assert play(rule(group_s=60), [11, 11, 1]) == [(F, ""), (F, ""), (Q, "")]


def test_people_are_told_again_after_a_while() -> None:
    found = play(rule(repeat_s=30), [11] * 8)
    assert [told for _, told in found] == ["firing", "", "", "again", "", "", "again", ""]


def test_further_things_are_told_together_and_not_too_often() -> None:
    start, told = rule(above=0.0, group_s=10.0), []
    for number in range(100):
        subjects = tuple(f"node-{n}" for n in range(min(number + 1, 30)))
        seen = Observation(value=len(subjects), subjects=subjects, count=len(subjects))
        state, notice = step(start, seen, 1000.0 + number * 5)
        start = msgspec.structs.replace(start, state=state)
        if notice is not None:
            told.append((number * 5, len(state.told), state.count))
    assert told == [(10, 3, 3), (310, 20, 30)]


def test_a_silence_holds_for_all_or_for_one_thing_and_ends() -> None:
    node = Observation(value=1, subjects=("node-1",), count=1)
    two = Observation(value=2, subjects=("node-1", "node-2"), count=2)

    def silenced(subject: str) -> AlertRule:
        until = Silence(id="s", until=2000.0, by="ann", at=0.0, subject=subject)
        return rule(above=0.0, silences=(until,))

    for subject, seen, is_told in (
        ("", two, False),
        ("node-1", node, False),
        ("node-1", two, True),
    ):
        state, notice = step(silenced(subject), seen, 1000.0)
        assert state.status is F
        assert (notice is not None) is is_told
    quiet, _ = step(silenced(""), two, 1000.0)
    still = msgspec.structs.replace(silenced(""), state=quiet)
    assert step(still, two, 1999.0)[1] is None
    after = step(still, two, 2001.0)[1]
    assert after is not None
    assert not after.again


def test_one_that_is_switched_off_is_quiet() -> None:
    on = rule(above=0.0)
    state, _ = step(on, Observation(value=1), 1000.0)
    off = msgspec.structs.replace(on, is_on=False, state=state)
    assert step(off, Observation(value=1), 1001.0)[0].status is Q


@settings(max_examples=examples(100), deadline=None)
@given(
    st.lists(st.one_of(st.none(), st.floats(0, 20)), max_size=60),
    st.sampled_from([0.0, 20.0]),
    st.sampled_from([0.0, 20.0]),
    st.sampled_from([None, 5.0]),
    st.sampled_from([0.0, 30.0]),
)
def test_firing_and_over_alternate_whatever_happens(
    values: list[float | None],
    for_s: float,
    clear_s: float,
    clear_at: float | None,
    group_s: float,
) -> None:
    start = rule(for_s=for_s, clear_s=clear_s, clear_at=clear_at, group_s=group_s)
    told = [each for _, each in play(start, values) if each and each != "again"]
    assert told == ["firing", "quiet"] * (len(told) // 2) + ["firing"] * (len(told) % 2)


def event(kind: str, at: float, **fields: Any) -> Event:
    return Event(**{"kind": kind, "subject": "task-1", "at": at, "cause": "", **fields})


def test_events_are_counted_within_the_window_by_project() -> None:
    windows = EventWindows()
    failures = rule(source=Source.EVENTS, event="task.failed", window_s=60.0, project_id="shop")
    share = rule(source=Source.ERROR_SHARE, least=3, window_s=60.0)
    other = msgspec.structs.replace(share, id="alert-y")
    windows.watch([failures, other])
    for number in range(10):
        windows.add(event("task.failed", 1000.0 + number, subject=f"t-{number}", project_id="shop"))
        windows.add(event("task.failed", 1000.0 + number, project_id="other"))
        windows.add(event("task.cancelled", 1000.0 + number, project_id="shop"))
    assert windows.observe(failures, 1010.0).value == 10
    assert windows.observe(failures, 1010.0).subjects[:2] == ("t-0", "t-1")
    assert windows.observe(other, 1010.0).value == 1.0
    for _ in range(60):
        windows.add(event("task.completed", 1010.0))
    assert windows.observe(other, 1010.0).value == 20 / 80
    assert windows.observe(failures, 1100.0).value == 0
    assert windows.observe(other, 1100.0).value is None


def test_no_rule_hears_of_alerts() -> None:
    windows = EventWindows()
    broad = rule(source=Source.EVENTS, event="a", window_s=60.0)
    windows.watch([broad])
    windows.add(event("alert.firing", 1000.0))
    windows.add(event("audit.noted", 1000.0))
    assert windows.observe(broad, 1000.0).value == 1


def test_the_built_in_rules_are_in_order_and_make_sense() -> None:
    assert {each.name for each in BUILT_INS} >= {
        "node-lost",
        "queue-age",
        "error-share",
        "schedule-missed",
    }
    for each in BUILT_INS:
        assert [*problems_of(each)] == []
        fires = step(each, Observation(value=0.05 if each.below else 1e6), 1.0)[0]
        assert states.summary(each, fires, fires=True).startswith(each.name)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"above": None}, "above"),
        ({"below": 1.0}, "above"),
        ({"clear_at": 11.0}, "clear_at"),
        ({"for_s": -1.0}, "for_s"),
        ({"window_s": 0.0}, "window_s"),
        ({"event": "task."}, "event"),
        ({"source": Source.EVENTS}, "event"),
        ({"source": Source.EVENTS, "event": "alert.firing"}, "event"),
        ({"source": Source.EVENTS, "event": "alert"}, "event"),
        ({"source": Source.EVENTS, "event": "a"}, "event"),
        ({"project_id": "shop"}, "project_id"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(fields: dict[str, Any], field: str) -> None:
    assert [each.field for each in problems_of(rule(**fields))] == [field]
