"""How many wrong keys are too many, and for how long."""

from hypothesis import given
from hypothesis import strategies as some

from crawlfleet.core.network.lockout import (
    FIRST_LOCK_S,
    FORGOTTEN_AFTER_S,
    MAX_LOCK_S,
    LockoutStanding,
    after_wrong_key,
    locked_for_s,
)


def wrong_keys(
    count: int, *, at: float, before: LockoutStanding | None = None, per_minute: float = 10
) -> LockoutStanding:
    for _ in range(count):
        before = after_wrong_key(before, per_minute=per_minute, now=at)
    assert before is not None
    return before


def test_a_minutes_worth_of_wrong_keys_is_forgiven() -> None:
    assert locked_for_s(wrong_keys(10, at=0), now=0) == 0


def test_one_more_locks_out_for_a_while() -> None:
    standing = wrong_keys(11, at=0)
    assert locked_for_s(standing, now=0) == FIRST_LOCK_S
    assert locked_for_s(standing, now=FIRST_LOCK_S / 2) == FIRST_LOCK_S / 2
    assert locked_for_s(standing, now=FIRST_LOCK_S) == 0


def test_wrong_keys_while_locked_out_change_nothing() -> None:
    standing = wrong_keys(11, at=0)
    assert wrong_keys(1000, at=1, before=standing) == standing


def test_each_lock_is_twice_as_long_up_to_a_limit() -> None:
    standing, now, locks = None, 0.0, []
    while len(locks) < 12:
        standing = after_wrong_key(standing, per_minute=1, now=now)
        if wait_s := locked_for_s(standing, now=now):
            locks.append(wait_s)
            now += wait_s
    assert locks[:4] == [FIRST_LOCK_S * factor for factor in (1, 2, 4, 8)]
    assert locks[-1] == MAX_LOCK_S


def test_the_bucket_refills_with_time() -> None:
    standing = wrong_keys(10, at=0)
    assert locked_for_s(wrong_keys(5, at=30, before=standing), now=30) == 0
    assert locked_for_s(wrong_keys(6, at=30, before=standing), now=30) > 0


def test_after_a_long_time_all_is_forgotten() -> None:
    standing = wrong_keys(100, at=0)
    later = FORGOTTEN_AFTER_S + 1
    assert wrong_keys(1, at=later, before=standing) == wrong_keys(1, at=later)


def test_nobody_is_locked_out_who_has_sent_none() -> None:
    assert locked_for_s(None, now=5) == 0


@given(
    some.lists(some.floats(0, 1000), min_size=1, max_size=200),
    some.floats(1, 100),
)
def test_guesses_are_bounded_however_they_are_spread(
    pauses: list[float], per_minute: float
) -> None:
    standing, now, guesses = None, 0.0, 0
    for pause in pauses:
        now += pause
        if not locked_for_s(standing, now=now):
            guesses += 1
        standing = after_wrong_key(standing, per_minute=per_minute, now=now)
    forgotten = sum(pause > FORGOTTEN_AFTER_S for pause in pauses)
    assert guesses <= per_minute * (1 + now / 60) * (1 + forgotten) + standing.locks + 1
