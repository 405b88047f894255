"""Tests of properties ask whether something holds, not how busy the machine is."""

import time

from hypothesis import given, settings
from hypothesis import strategies as st


@settings(max_examples=1)
@given(st.none())
def test_a_slow_example_is_no_failure(nothing: None) -> None:
    time.sleep(0.25)  # longer than the deadline of hypothesis' own profile
