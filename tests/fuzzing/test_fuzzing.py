"""Nothing that reads bytes of strangers can be stopped, crashed or blown up by them.

A run takes a sample with seeds of its own, which a failure names; the soak takes an hour.
"""

import time

import pytest

from tests.fuzzing.run import fuzz
from tests.sampling import SOAK

pytestmark = pytest.mark.slow


def test_whatever_strangers_send_is_read_within_limits() -> None:
    seed = int(time.time()) * 1000
    report = fuzz(seed, seconds=3600) if SOAK else fuzz(seed, count=60)
    assert report.inputs >= 60
    assert report.findings == []
    assert report.peak_bytes < 3_500_000_000
