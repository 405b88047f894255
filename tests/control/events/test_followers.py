"""Room for those who follow what happens."""

from contextlib import ExitStack

import pytest

from crawlfleet.control.events.followers import FollowerSlots
from crawlfleet.errors import Busy


def test_one_key_does_not_shut_out_the_others() -> None:
    places = FollowerSlots("it", most=5, most_of_one=3)
    with ExitStack() as taken:
        for _ in range(3):
            taken.enter_context(places.take("ann"))
        with pytest.raises(Busy, match="with this key"), places.take("ann"):
            pass
        for _ in range(2):
            taken.enter_context(places.take("bob"))
        with pytest.raises(Busy, match="try again later"), places.take("eve"):
            pass
    with places.take("eve"), places.take("ann"):
        pass
