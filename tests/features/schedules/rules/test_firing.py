"""What becomes of due instants: a table of situations, and what must hold in any."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from crawlfleet.features.schedules.model import (
    Firing,
    Origin,
    Outcome,
    Overlap,
    Rule,
    Schedule,
    WaitingFiring,
    firing_id,
)
from crawlfleet.features.schedules.rules import firing
from crawlfleet.features.schedules.rules.firing import FiringPlan, LateFirings, Span
from crawlfleet.features.schedules.rules.recurrence import Recurrence
from crawlfleet.model.change import Change
from crawlfleet.model.task import Task
from tests.sampling import examples

NOW = 1_750_000_000.0
EVERY = 60.0


def schedule(**rule: Any) -> Schedule:
    return Schedule(
        id="sched-abc",
        project_id="shop",
        name="nightly",
        created_at=NOW,
        updated_at=NOW,
        rule=Rule(every_s=EVERY, **rule),
        cursor=NOW,
    )


def late(of: Schedule, now: float) -> LateFirings:
    recurrence = Recurrence(of.rule, None, made_at=of.created_at)  # type: ignore[arg-type]
    found = firing.look(of, recurrence, now)
    while found.more:
        found = firing.look(of, recurrence, now, found)
    return found


def decide(of: Schedule, passed: float, running: tuple[str, ...] = ()) -> FiringPlan | None:
    return firing.decide(of, late(of, NOW + passed), now=NOW + passed, running=running)


def outcomes(verdict: FiringPlan | None) -> list[tuple[Outcome, float, int]]:
    """What becomes of what, in minutes since the beginning."""
    if verdict is None:
        return []
    firings = [*verdict.firings, *(start.firing for start in verdict.starts)]
    return sorted((each.outcome, (each.due_at - NOW) / EVERY, each.count) for each in firings)


def minutes(of: Schedule) -> float:
    return (of.cursor - NOW) / EVERY


def test_nothing_is_done_before_its_time() -> None:
    assert decide(schedule(), 59.9) is None
    assert outcomes(decide(schedule(), 60.0)) == [(Outcome.STARTED, 1, 1)]


@pytest.mark.parametrize(
    ("rule", "running", "passed", "wanted"),
    [
        # A long stop: one for all of them, or each its own.
        ({}, (), 630.0, [(Outcome.STARTED, 10, 10)]),
        (
            {"coalesce": False, "max_instances": 9},
            (),
            200.0,
            [(Outcome.STARTED, 1, 1), (Outcome.STARTED, 2, 1), (Outcome.STARTED, 3, 1)],
        ),
        # Those beyond their grace are missed, as one.
        ({"misfire_grace_s": 90.0}, (), 630.0, [(Outcome.MISSED, 8, 8), (Outcome.STARTED, 10, 2)]),
        ({"misfire_grace_s": 10.0}, (), 630.0, [(Outcome.MISSED, 10, 10)]),
        (
            {"misfire_grace_s": 90.0, "coalesce": False, "max_instances": 2},
            (),
            630.0,
            [(Outcome.MISSED, 8, 8), (Outcome.STARTED, 9, 1), (Outcome.STARTED, 10, 1)],
        ),
        # No room.
        ({}, ("task-1",), 60.0, [(Outcome.SKIPPED, 1, 1)]),
        ({"max_instances": 2}, ("task-1",), 60.0, [(Outcome.STARTED, 1, 1)]),
        ({"overlap": Overlap.QUEUE}, ("task-1",), 60.0, [(Outcome.QUEUED, 1, 1)]),
        (
            {"overlap": Overlap.QUEUE, "coalesce": False},
            (),
            180.0,
            [(Outcome.QUEUED, 2, 1), (Outcome.SKIPPED, 3, 1), (Outcome.STARTED, 1, 1)],
        ),
    ],
)
def test_what_becomes_of_what_is_late(
    rule: dict[str, Any], running: tuple[str, ...], passed: float, wanted: Any
) -> None:
    verdict = decide(schedule(**rule), passed, running)
    assert verdict is not None
    assert outcomes(verdict) == sorted(wanted)
    assert minutes(verdict.schedule) == passed // 60
    assert verdict.schedule.version == 2


def test_one_that_waits_starts_when_there_is_room_in_its_own_row() -> None:
    first = decide(schedule(overlap=Overlap.QUEUE), 180.0, ("task-1",))
    assert first is not None
    waiting = first.schedule
    assert waiting.waiting == WaitingFiring(
        due_at=NOW + 180, edition=1, count=3, first_due_at=NOW + 60
    )
    assert decide(waiting, 190.0, ("task-1",)) is None
    later = decide(waiting, 190.0, ())
    assert later is not None
    (start,) = later.starts
    assert start.firing.id == first.firings[0].id
    assert (start.firing.version, start.firing.count) == (2, 3)
    assert later.schedule.waiting is None
    assert later.schedule.cursor == waiting.cursor


def test_while_one_waits_others_are_skipped_and_say_so() -> None:
    first = decide(schedule(overlap=Overlap.QUEUE), 60.0, ("task-1",))
    assert first is not None
    second = decide(first.schedule, 120.0, ("task-1",))
    assert second is not None
    (skipped,) = second.firings
    assert skipped.outcome is Outcome.SKIPPED
    assert skipped.reason == "max_instances is 1, and task-1 had not ended, and one waits already"
    assert second.schedule.waiting == first.schedule.waiting


def test_a_huge_backlog_is_looked_at_in_portions_and_counted_to_the_last() -> None:
    of = schedule(misfire_grace_s=3600.0)
    now = NOW + 10_000 * EVERY
    recurrence = Recurrence(of.rule, None, made_at=of.created_at)  # type: ignore[arg-type]
    looks, found = 1, firing.look(of, recurrence, now)
    while found.more:
        looks, found = looks + 1, firing.look(of, recurrence, now, found)
    assert looks == 5
    assert found.missed == Span(NOW + EVERY, NOW + 9939 * EVERY, 9939)
    assert found.timely == (Span(NOW + 9940 * EVERY, now, 61),)


def test_each_its_own_comes_in_portions_too() -> None:
    of = schedule(coalesce=False, max_instances=1000)
    verdict = decide(of, 250 * EVERY)
    assert verdict is not None
    assert len(verdict.starts) == firing.MAX_STARTS
    assert minutes(verdict.schedule) == firing.MAX_STARTS


def task_change(number: int) -> Change:
    task = Task(
        id=f"task-{number}", project_id="shop", task_type="work", created_at=NOW, updated_at=NOW
    )
    return Change(tasks=(task,))


def test_a_verdict_becomes_one_change_with_everything_in_it() -> None:
    verdict = decide(schedule(coalesce=False, max_instances=3, misfire_grace_s=100.0), 240.0)
    assert verdict is not None
    made: list[Change | str] = [task_change(1), "the project is closed"]
    change = firing.settle(verdict, made, now=NOW + 240, cause="its time")
    (changed,) = change.of(Schedule)
    assert changed.running == ("task-1",)
    assert changed.version == 2
    assert changed.last is not None
    assert changed.last.outcome is Outcome.REFUSED
    assert [task.id for task in change.tasks] == ["task-1"]
    assert [(each.outcome, each.task_id, each.reason[:12]) for each in change.of(Firing)] == [
        (Outcome.MISSED, None, "no master wa"),
        (Outcome.STARTED, "task-1", ""),
        (Outcome.REFUSED, None, "the project "),
    ]
    assert [event.kind for event in change.events] == [
        "schedule.missed",
        "schedule.started",
        "schedule.refused",
    ]


def test_deciding_twice_gives_the_same_rows_so_that_one_of_two_is_refused() -> None:
    of = schedule(jitter_s=30.0)
    one, other = decide(of, 100.0), decide(of, 101.0)
    assert one is not None
    assert other is not None
    assert one.starts[0].firing.id == other.starts[0].firing.id
    assert one.schedule.version == other.schedule.version


def test_run_now_is_beside_the_rule() -> None:
    of = schedule()
    verdict = firing.run_now(of, now=NOW + 60, running=["task-1"], cause="run by ann")
    change = firing.settle(verdict, [task_change(2)], now=NOW + 60, cause="run by ann")
    (changed,) = change.of(Schedule)
    (fired,) = change.of(Firing)
    assert changed.cursor == of.cursor
    assert changed.running == ("task-1", "task-2")
    assert (fired.origin, fired.reason) == (Origin.RUN, "run by ann")
    assert fired.id != firing_id(of.id, 1, NOW + 60)


def test_a_backfill_leaves_alone_what_has_started_and_tries_the_rest() -> None:
    of = schedule()
    dues = [NOW + 60 * n for n in range(1, 5)]

    def there(due: float, origin: Origin, outcome: Outcome) -> Firing:
        return Firing(
            id=firing_id(of.id, 1, due, origin),
            schedule_id=of.id,
            project_id="shop",
            due_at=due,
            at=due,
            outcome=outcome,
            origin=origin,
            edition=1,
        )

    known = [
        there(dues[1], Origin.RUN, Outcome.STARTED),
        there(dues[0], Origin.RULE, Outcome.STARTED),
        there(dues[1], Origin.RULE, Outcome.MISSED),
        there(dues[2], Origin.BACKFILL, Outcome.REFUSED),
    ]
    verdict = firing.fill_back(of, dues, known, now=NOW + 900, cause="ann")
    assert [(each.firing.due_at, each.firing.version) for each in verdict.starts] == [
        (dues[1], 1),
        (dues[2], 2),
        (dues[3], 1),
    ]
    made = [task_change(n) for n in range(3)]
    change = firing.settle(verdict, made, now=NOW + 900, cause="ann")
    assert change.of(Schedule)[0].running == ()
    again = firing.fill_back(of, dues, [*known, *change.of(Firing)], now=NOW + 901, cause="ann")
    assert again.starts == ()


@given(
    coalesce=st.booleans(),
    grace=st.none() | st.floats(1.0, 500.0),
    most=st.integers(1, 3),
    overlap=st.sampled_from(Overlap),
    jitter=st.floats(0.0, 60.0),
    steps=st.lists(st.tuples(st.floats(0.0, 900.0), st.integers(0, 3)), min_size=1, max_size=12),
)
@settings(deadline=None, max_examples=examples(150))
def test_every_due_instant_is_accounted_for_once_whatever_happens(
    coalesce: bool,
    grace: float | None,
    most: int,
    overlap: Overlap,
    jitter: float,
    steps: list[tuple[float, int]],
) -> None:
    of = schedule(
        coalesce=coalesce,
        misfire_grace_s=grace,
        max_instances=most,
        overlap=overlap,
        jitter_s=jitter,
    )
    rows: dict[str, Firing] = {}
    tasks: list[str] = []
    now = NOW
    for passed, ended in steps:
        now += passed
        while True:
            running = [*of.running][ended:]
            verdict = firing.decide(of, late(of, now), now=now, running=running)
            if verdict is None:
                break
            made = [task_change(len(tasks) + n) for n in range(len(verdict.starts))]
            change = firing.settle(verdict, made, now=now, cause="")
            for row in change.of(Firing):
                before = rows.get(row.id)
                assert row.version == (1 if before is None else before.version + 1)
                assert before is None or before.outcome is Outcome.QUEUED
                rows[row.id] = row
            tasks += [task.id for task in change.tasks]
            assert change.of(Schedule)[0].version == of.version + 1
            of = change.of(Schedule)[0]
            assert len(of.running) <= max(most, len(running))
    accounted = sorted(due for row in rows.values() for due in instants(row))
    wanted = [NOW + EVERY * n for n in range(1, int((now - NOW) // EVERY) + 1)]
    # What jitter has put off beyond the end is still to come.
    assert accounted == wanted[: len(accounted)]
    assert len(wanted) - len(accounted) <= (1 if jitter else 0)
    started = [row for row in rows.values() if row.outcome is Outcome.STARTED]
    assert len(started) == len({row.task_id for row in started}) == len(tasks)
    assert msgspec.json.encode(replace(of, task=msgspec.Raw(b"{}")))


def instants(row: Firing) -> list[float]:
    first = row.due_at if row.first_due_at is None else row.first_due_at
    found = [first + EVERY * n for n in range(row.count)]
    assert found[-1] == row.due_at
    return found
