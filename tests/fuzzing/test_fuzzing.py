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


@pytest.mark.parametrize("seed", [20267042, 20270343, 20276523, 20282270])
def test_a_text_in_pieces_does_not_use_up_the_memory(seed: int) -> None:
    """Tags that become no element cut one long text into pieces, which the parser joins again."""
    report = fuzz(seed, count=1)
    assert report.findings == []
    assert "memory" in report.unreadable[seed]


def test_elements_that_nest_without_end_are_cut() -> None:
    """A page of nested `<listing>` once took 3 seconds of CPU for each megabyte."""
    report = fuzz(20272901, count=1)
    assert report.findings == []
    assert report.unreadable == {}
    page = report.slowest["page"]
    assert page.cpu_s < 1.0 * page.bytes / 1e6
