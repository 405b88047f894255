"""A clock for durations goes on evenly when the machine's clock is set."""

import time

from crawlfleet.steady_clock import SteadyClock


class Hands:
    """The clocks of a machine, moved by the test."""

    def __init__(self) -> None:
        self.wall, self.awake = 1_000_000.0, 50.0

    def pass_s(self, seconds: float) -> None:
        self.wall += seconds
        self.awake += seconds

    def clock(self, **given: float) -> SteadyClock:
        return SteadyClock(wall=lambda: self.wall, awake=lambda: self.awake, **given)


def test_step_ahead_and_a_step_back_are_left_out() -> None:
    hands = Hands()
    clock = hands.clock()
    for step in (3600.0, -7200.0, 86_400.0):
        before = clock()
        hands.wall += step
        assert clock() == before
        hands.pass_s(10.0)
        assert clock() == before + 10.0
    assert clock.set_by_s == 3600.0 - 7200.0 + 86_400.0


def test_small_corrections_are_followed() -> None:
    hands = Hands()
    clock = hands.clock()
    for _ in range(100):
        hands.pass_s(10.0)
        hands.wall += 0.1
        assert clock() == hands.wall
    assert clock.set_by_s == 0.0


def test_sleep_of_the_machine_is_time_that_passes() -> None:
    hands = Hands()
    clock = hands.clock()
    hands.pass_s(3600.0)
    assert clock() == 1_003_600.0
    assert clock.set_by_s == 0.0


def test_clock_that_begins_after_a_step_goes_on_like_another() -> None:
    hands = Hands()
    first = hands.clock()
    hands.wall += 3600.0
    second = hands.clock(set_by_s=first.set_by_s)
    hands.pass_s(5.0)
    assert first() == second() == 1_000_005.0


def test_the_clock_of_this_machine_is_that_of_the_wall() -> None:
    clock = SteadyClock()
    assert abs(clock() - time.time()) < 1.0
