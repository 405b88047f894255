"""When something is due: compared with a reference that looks at every minute."""

import os
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawlfleet.features.schedules.model import Rule, firing_id
from crawlfleet.features.schedules.rules.recurrence import Recurrence, put_off_by
from tests.core import reference_cron as reference

SOAK = bool(os.environ.get("CRAWLFLEET_SOAK"))
ZONES = (
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "UTC",
    "Africa/Casablanca",
    "Asia/Kathmandu",
    "America/Sao_Paulo",
    "Pacific/Apia",
)
EXPRESSIONS = (
    "30 2 * * *",
    "0,30 1-3 * * *",
    "*/15 2 * * *",
    "0 * * * *",
    "45 */3 * * *",
    "* 1-2 * * sun",
    "15 2 1,15 * 0",
    "0 0 * 3,10 sat",
    "59 23 28-31 * *",
)


def cron(text: str, zone: str, **more: float) -> Recurrence:
    return Recurrence(Rule(cron=text, time_zone=zone, **more), ZoneInfo(zone), made_at=0.0)


def at(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def shown(dues: list[float], zone: str) -> list[str]:
    return [datetime.fromtimestamp(due, ZoneInfo(zone)).isoformat() for due in dues]


@pytest.mark.parametrize(
    ("text", "zone", "since", "wanted"),
    [
        # The hour from 2 to 3 is skipped.
        ("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00Z", ["2026-03-29T03:00:00+02:00"]),
        (
            "0,30 1-3 * * *",
            "Europe/Berlin",
            "2026-03-29T00:00Z",
            [
                "2026-03-29T01:30:00+01:00",
                "2026-03-29T03:00:00+02:00",
                "2026-03-29T03:30:00+02:00",
            ],
        ),
        (
            "*/30 * * * *",
            "Europe/Berlin",
            "2026-03-29T00:15Z",
            ["2026-03-29T01:30:00+01:00", "2026-03-29T03:00:00+02:00"],
        ),
        # The hour from 2 to 3 comes twice.
        (
            "30 2 * * *",
            "Europe/Berlin",
            "2026-10-25T00:00Z",
            ["2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"],
        ),
        (
            "30 * * * *",
            "Europe/Berlin",
            "2026-10-25T00:00Z",
            [
                "2026-10-25T02:30:00+02:00",
                "2026-10-25T02:30:00+01:00",
                "2026-10-25T03:30:00+01:00",
            ],
        ),
        # Somebody who begins to look in the second of the two hours finds none of the first.
        ("30 2 * * *", "Europe/Berlin", "2026-10-25T01:10Z", ["2026-10-26T02:30:00+01:00"]),
        # A whole day that never was.
        (
            "0 12 30,31 12 *",
            "Pacific/Apia",
            "2011-12-29T00:00Z",
            ["2011-12-31T00:00:00+14:00", "2011-12-31T12:00:00+14:00"],
        ),
    ],
)
def test_where_clocks_are_put_forward_and_back(
    text: str, zone: str, since: str, wanted: list[str]
) -> None:
    found = [*islice(cron(text, zone).after(at(since)), len(wanted))]
    assert shown(found, zone) == wanted


def around(zone: str, year: int) -> list[datetime]:
    """The days on which the clocks of a zone change, in UTC."""
    days = [datetime(year, 1, 1, 12, tzinfo=UTC) + timedelta(days=n) for n in range(366)]
    offsets = [(day, day.astimezone(ZoneInfo(zone)).utcoffset()) for day in days]
    return [day for (_, old), (day, new) in pairwise(offsets) if old != new]


@pytest.mark.parametrize("zone", ZONES)
def test_around_every_change_of_clocks_it_is_what_the_reference_says(zone: str) -> None:
    for day in around(zone, 2026) or [datetime(2026, 3, 1, tzinfo=UTC)]:
        since, until = day - timedelta(hours=36), day + timedelta(hours=18)
        minutes = [*reference.minutes_of(ZoneInfo(zone), since, until)]
        for text in EXPRESSIONS:
            found = cron(text, zone).between(
                since.timestamp() + 1, until.timestamp() + 1, most=10_000
            )
            assert found == reference.due(text, minutes), text


@pytest.mark.slow
@pytest.mark.parametrize("zone", ZONES if SOAK else ZONES[1:2])
def test_a_year_is_what_the_reference_says(zone: str) -> None:
    since = datetime(2026, 1, 1, tzinfo=UTC)
    until = since + timedelta(days=366)
    minutes = [*reference.minutes_of(ZoneInfo(zone), since, until)]
    for text in EXPRESSIONS:
        found = cron(text, zone).between(since.timestamp() + 1, until.timestamp() + 1, most=600_000)
        assert found == reference.due(text, minutes), text


def terms(low: int, high: int) -> st.SearchStrategy[str]:
    value = st.integers(low, high)
    ranges = st.tuples(value, value).map(lambda pair: f"{min(pair)}-{max(pair)}")
    steps = st.integers(1, 6).map(lambda step: f"*/{step}")
    plain = st.one_of(st.just("*"), value.map(str), ranges, steps)
    return plain | st.lists(value, min_size=2, max_size=3).map(lambda few: ",".join(map(str, few)))


expressions = st.tuples(
    terms(0, 59), terms(0, 23), st.one_of(st.just("*"), terms(1, 28)), st.just("*"), terms(0, 6)
).map(" ".join)


@given(
    text=expressions,
    zone=st.sampled_from(ZONES[:4]),
    day=st.integers(0, 4 * 365),
    offset=st.integers(0, 86_399),
)
@settings(deadline=None, max_examples=400 if SOAK else 25)
def test_any_expression_on_any_day_is_what_the_reference_says(
    text: str, zone: str, day: int, offset: int
) -> None:
    since = datetime(2024, 1, 1, tzinfo=UTC) + timedelta(days=day, seconds=offset)
    until = since + timedelta(days=2)
    begin = since.replace(second=0)
    wanted = reference.due(
        text, reference.minutes_of(ZoneInfo(zone), begin - timedelta(days=1), until)
    )
    found = [*cron(text, zone).between(since.timestamp() + 1e-3, until.timestamp(), most=10_000)]
    assert found == [due for due in wanted if since.timestamp() < due < until.timestamp()]


@given(
    text=expressions,
    zone=st.sampled_from(ZONES),
    instant=st.floats(1.0e9, 2.0e9, allow_nan=False),
)
@settings(deadline=None, max_examples=200 if SOAK else 40)
def test_asking_step_by_step_gives_what_asking_once_does(
    text: str, zone: str, instant: float
) -> None:
    """A master that was restarted between any two of them goes on where the other was."""
    recurrence = cron(text, zone)
    at_once = [*islice(recurrence.after(instant), 12)]
    step_by_step: list[float] = []
    while len(step_by_step) < len(at_once):
        due = recurrence.next(step_by_step[-1] if step_by_step else instant)
        assert due is not None
        step_by_step.append(due)
    assert step_by_step == at_once
    assert all(one < other for one, other in pairwise([instant, *at_once]))


@given(
    every=st.floats(1.0, 1e6),
    made=st.floats(1e9, 2e9),
    start=st.none() | st.floats(1e9, 2e9),
    passed=st.floats(0.0, 1e8),
)
@settings(deadline=None)
def test_intervals_are_even_and_begin_where_they_should(
    every: float, made: float, start: float | None, passed: float
) -> None:
    recurrence = Recurrence(Rule(every_s=every, start_at=start), UTC, made_at=made)
    after = made + passed
    found = [*islice(recurrence.after(after), 5)]
    assert found[0] > after
    assert found[0] - every <= max(after, start or 0.0) + 0.01
    for one, other in pairwise(found):
        assert abs(other - one - every) < 0.01
    if start is not None and start > after + 0.001:  # instants are whole milliseconds
        assert abs(found[0] - start) < 0.001
    begin = start if start is not None else int(made)
    assert abs((found[0] - begin) / every - round((found[0] - begin) / every)) < 0.01


def test_nothing_is_due_outside_of_the_window() -> None:
    start, end = at("2026-01-10T00:00Z"), at("2026-01-12T00:00Z")
    recurrence = cron("0 0 * * *", "UTC", start_at=start, end_at=end)
    assert [*recurrence.after(0.0)] == [start, start + 86_400]
    assert recurrence.next(end) is None
    assert [
        *Recurrence(Rule(every_s=86_400.0, start_at=start, end_at=end), UTC, made_at=0).after(0)
    ] == [
        start,
        start + 86_400,
    ]


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/New_York"])
def test_nothing_is_due_at_the_end_of_the_calendar(zone: str) -> None:
    assert cron("0 3 * * *", zone).next(at("9999-12-31T23:59:59+00:00")) is None
    assert cron("@hourly", zone).next(at("2899-12-31T23:30:00+00:00")) is None


def test_a_range_begins_with_its_first_instant_and_ends_before_its_last() -> None:
    recurrence = cron("0 0 * * *", "UTC")
    since, until = at("2026-01-10T00:00Z"), at("2026-01-12T00:00Z")
    assert recurrence.between(since, until, most=10) == [since, since + 86_400]
    assert recurrence.between(since, until, most=1) == [since]


def test_jitter_is_spread_and_the_same_whoever_asks() -> None:
    rule = Rule(cron="0 * * * *", jitter_s=600.0)
    drawn = [put_off_by(rule, "sched-x", 1, 3600.0 * n) for n in range(1000)]
    assert drawn == [put_off_by(rule, "sched-x", 1, 3600.0 * n) for n in range(1000)]
    assert all(0 <= each < 600 for each in drawn)
    assert 270 < sum(drawn) / len(drawn) < 330
    assert drawn != [put_off_by(rule, "sched-y", 1, 3600.0 * n) for n in range(1000)]
    assert put_off_by(Rule(cron="0 * * * *"), "sched-x", 1, 3600.0) == 0.0


def test_ids_of_firings_follow_from_their_instant_and_sort_like_it() -> None:
    ids = [firing_id("sched-abc", 1, at("2026-01-10T00:00Z") + 60 * n) for n in range(500)]
    assert ids == sorted(ids)
    assert len({*ids}) == 500
    assert firing_id("sched-abc", 1, 60.0) == firing_id("sched-abc", 1, 60.0)
    assert firing_id("sched-abc", 1, 60.0) != firing_id("sched-abc", 2, 60.0)
