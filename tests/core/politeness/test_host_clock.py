import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlfleet.core.politeness.host_clock import (
    GIVE_UP_AFTER,
    LOST_AFTER,
    MAX_RETRY_AFTER_S,
    HostClock,
    HostShare,
    share_of,
)
from crawlfleet.model.crawl.frontier import HostState
from crawlfleet.model.crawl.parameters import FAST, Outcome, Politeness

HOST = "https://shop.example"
GUEST = Politeness()


def answered(clock: HostClock, now: float, *, status: int = 200, latency: float = 0.1, **more):
    outcome = {429: Outcome.BLOCKED, 503: Outcome.SERVER_ERROR}.get(status, Outcome.OK)
    pause = clock.observe(outcome, status, latency, more.get("retry_after"), now)
    clock.served(outcome, status, latency)
    return pause


def test_one_request_at_a_time_and_a_delay_between_starts() -> None:
    clock = HostClock(GUEST)

    assert clock.grant(100.0, 5) == 1
    assert clock.grant(102.0, 5) == 0  # still in flight
    answered(clock, 102.0)
    assert clock.grant(102.0, 5) == 1
    answered(clock, 102.2)
    assert clock.grant(102.9, 5) == 0
    assert clock.grant(103.0, 5) == 1


def test_without_a_delay_the_concurrency_is_the_limit() -> None:
    clock = HostClock(FAST)

    assert clock.grant(0.0, 10) == 10
    assert clock.grant(0.0, 10) == 6
    assert clock.grant(0.0, 10) == 0
    answered(clock, 0.1)
    clock.release(2)
    assert clock.grant(0.1, 10) == 3
    assert clock.grant(0.1, 0) == 0


def test_overload_doubles_the_delay_and_good_answers_bring_it_back_slowly() -> None:
    clock = HostClock(GUEST)
    delays = []
    now = 0.0
    for _ in range(10):
        now = max(clock.next_at, now + 1)
        clock.grant(now)
        pause = answered(clock, now + 0.1, status=429)
        assert pause is not None
        assert pause.until == clock.next_at == pytest.approx(now + 0.1 + clock.delay_s)
        delays.append(clock.delay_s)
    assert delays == [2, 4, 8, 16, 32, 64, 120, 120, 120, 120]

    good = 0
    while clock.delay_s > GUEST.delay_s and good < 60:
        answered(clock, now := now + 200)
        good += 1
    assert 20 < good < 60


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        *((Outcome.BLOCKED, status) for status in (200, 401, 403, 407, 429, 451, 999)),
        *((Outcome.SERVER_ERROR, status) for status in (500, 502, 503, 504)),
        *((Outcome.CLIENT_ERROR, status) for status in (400, 404, 405, 410)),
        (Outcome.PAYMENT_REQUIRED, 402),
        (Outcome.SOFT_404, 200),
        (Outcome.REDIRECT, 302),
        (Outcome.REDIRECT_LOOP, 302),
        (Outcome.UNWANTED, 200),
        (Outcome.BAD_CONTENT, 200),
        (Outcome.TOO_LARGE, 200),
        (Outcome.OK, 202),
        *((outcome, 0) for outcome in (Outcome.TIMEOUT, Outcome.CONNECT, Outcome.BAD_RESPONSE)),
    ],
)
def test_what_is_no_page_never_makes_us_quicker(outcome: Outcome, status: int) -> None:
    clock = HostClock(GUEST)
    for now in range(10):
        answered(clock, now, latency=3.0)
    answered(clock, 20.0, status=429, latency=3.0)
    answered(clock, 40.0, status=429, latency=3.0)
    slow = clock.delay_s
    for number in range(12):
        clock.observe(outcome, status, 0.01, None, 100.0 + number)
        clock.served(outcome, status, 0.01)
        assert clock.delay_s >= slow

    clock.observe(Outcome.OK, 200, 0.01, None, 1000.0)
    clock.served(Outcome.OK, 200, 0.01)
    if status not in (429, 503):
        assert clock.delay_s < slow


@pytest.mark.parametrize(("outcome", "status"), [(Outcome.OK, 200), (Outcome.NOT_MODIFIED, 304)])
def test_pages_bring_the_delay_back(outcome: Outcome, status: int) -> None:
    clock = HostClock(GUEST)
    answered(clock, 1.0, status=429)
    answered(clock, 3.0, status=429)
    assert clock.delay_s == 4.0
    for number in range(12):
        clock.observe(outcome, status, 0.1, None, 10.0 + number)
        clock.served(outcome, status, 0.1)
    assert clock.delay_s == pytest.approx(4.0 * 0.9**12)


def test_answers_to_what_was_under_way_do_not_count_again() -> None:
    clock = HostClock(Politeness(delay_s=0, concurrency=16))
    assert clock.grant(10.0, 16) == 16
    for number in range(16):
        clock.observe(Outcome.SERVER_ERROR, 503, 1.0, None, 11.0 + number / 100)
    assert clock.delay_s == 1.0

    clock = HostClock(FAST)
    assert clock.grant(10.0, 16) == 16
    for number in range(16):
        clock.observe(Outcome.CONNECT, 0, 1.0, None, 11.0 + number / 100)
    assert clock.failures == 1


def test_slow_answers_slow_us_down_within_bounds() -> None:
    clock = HostClock(GUEST)
    for now in range(50):
        answered(clock, now, latency=0.4)
    assert clock.delay_s == 1.0
    for now in range(50, 100):
        answered(clock, now, latency=3.0)
    assert clock.delay_s == pytest.approx(5.0, abs=0.1)
    for now in range(100, 150):
        answered(clock, now, latency=600.0)
    assert clock.delay_s == GUEST.max_delay_s
    for now in range(150, 200):
        answered(clock, now, latency=0.1)
    assert clock.delay_s == 1.0


def test_who_does_not_adapt_still_obeys_retry_after() -> None:
    clock = HostClock(FAST)

    assert answered(clock, 10.0, status=429) is None
    assert clock.grant(10.0) == 1
    pause = answered(clock, 11.0, status=429, retry_after=30.0)

    assert pause == (41.0, "Retry-After of 30 s")
    assert clock.grant(40.9) == 0
    assert clock.grant(41.0) == 1


def test_a_shorter_retry_after_does_not_shorten_a_pause() -> None:
    clock = HostClock(FAST)
    answered(clock, 0.0, status=503, retry_after=100.0)

    assert answered(clock, 1.0, status=503, retry_after=5.0) is None
    assert clock.next_at == 100.0


def test_an_endless_retry_after_is_shortened_and_said_so() -> None:
    pause = answered(HostClock(GUEST), 0.0, status=503, retry_after=1e9)

    assert pause is not None
    assert pause.until == MAX_RETRY_AFTER_S
    assert "shortened" in pause.reason


def test_crawl_delay_is_obeyed_up_to_the_limit() -> None:
    clock = HostClock(GUEST)

    assert clock.crawl_delay(0.2) is None
    assert clock.delay_s == 1.0
    assert clock.crawl_delay(10.0) is None
    assert clock.delay_s == 10.0
    assert "shortened to 120 s" in (clock.crawl_delay(86400.0) or "")
    assert clock.delay_s == 120.0
    assert clock.crawl_delay(None) is None
    assert clock.delay_s == 1.0


def test_failures_in_a_row_pause_longer_and_longer_until_the_host_is_given_up() -> None:
    clock = HostClock(FAST)
    now, pauses = 0.0, []
    while not clock.lost:
        clock.grant(now)
        pause = clock.observe(Outcome.DNS, 0, 0.0, None, now)
        assert pause is not None
        pauses.append(pause.until - now)
        assert clock.given_up == (clock.failures >= GIVE_UP_AFTER)
        now = pause.until

    assert pauses == [2, 4, 8, 16, 32, 64, 120, 1800, 3600, 7200]
    assert clock.failures == LOST_AFTER
    answered(clock, now)
    assert clock.failures == 0


def test_outcomes_without_the_host_teach_nothing() -> None:
    clock = HostClock(GUEST)
    for outcome in (Outcome.ROBOTS, Outcome.REFUSED):
        assert clock.observe(outcome, 0, 100.0, None, 0.0) is None
    assert clock.state(HostState()) == HostState(delay_s=1.0)


def test_who_takes_a_host_over_goes_on_as_it_was_left() -> None:
    first = HostClock(GUEST)
    assert first.grant(0.0) == 1
    first.observe(Outcome.SERVER_ERROR, 503, 0.1, 60.0, 1.0)
    known = HostState(robots=b"User-agent: *", cookies="a")
    state = first.state(known)
    assert state == HostState(next_at=61.0, delay_s=2.0, robots=b"User-agent: *", cookies="a")

    second = HostClock(GUEST, state)

    assert second.delay_s == 2.0
    assert second.grant(60.0) == 0
    assert second.grant(61.0) == 1


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["grant", "end", "release"]),
        st.floats(0, 30),
        st.integers(0, 20),
        st.sampled_from(list(Outcome)),
        st.sampled_from([0, 200, 404, 429, 500, 503]),
        st.one_of(st.none(), st.floats(0, 1e6)),
    ),
    max_size=60,
)
POLITENESS = st.builds(
    Politeness,
    delay_s=st.sampled_from([0.0, 0.5, 3.0]),
    concurrency=st.integers(1, 4),
    adaptive=st.booleans(),
)


@given(POLITENESS, EVENTS)
def test_a_host_is_never_asked_more_than_agreed(politeness: Politeness, events) -> None:
    clock = HostClock(politeness)
    now, flying, last, quiet_until = 0.0, [], None, 0.0
    for kind, step, want, outcome, status, retry_after in events:
        now += step
        if kind == "grant":
            slots = clock.grant(now, want)
            assert slots <= want
            if slots:
                assert now >= quiet_until
                assert politeness.delay_s == 0 or slots == 1
                assert last is None or now - last >= politeness.delay_s - 1e-9
                last = now
            flying += [now] * slots
            assert len(flying) <= politeness.concurrency
        elif flying and kind == "end":
            latency = now - flying.pop()
            clock.observe(outcome, status, latency, retry_after, now)
            asked = outcome not in (Outcome.ROBOTS, Outcome.REFUSED, Outcome.OK)
            reached = outcome in (Outcome.BLOCKED, Outcome.SERVER_ERROR)
            if asked and reached and status >= 300 and retry_after:
                quiet_until = max(quiet_until, now + min(retry_after, MAX_RETRY_AFTER_S) - 1e-6)
        elif flying:
            flying.pop()
            clock.release()
        assert clock.in_flight == len(flying)


@pytest.mark.parametrize(
    ("hosts", "workers", "expected"),
    [
        (4, 1, HostShare(0.25, 8)),
        (4, 2, HostShare(0.5, 4)),
        (8, 1, HostShare(0.125, 16)),
        (1, 16, HostShare(16.0, 1)),
        (None, 1, None),
    ],
)
def test_each_process_gets_its_part_of_what_neighbours_take(
    hosts: int | None, workers: int, expected: HostShare | None
) -> None:
    assert share_of(Politeness(concurrency=2), hosts, workers) == expected
