import gc

import pytest

from crawlfleet.crawl.garbage import THRESHOLDS, look_seldom


@pytest.fixture
def usual_collector():
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)
    gc.unfreeze()


@pytest.mark.usefixtures("usual_collector")
def test_circles_are_still_found() -> None:
    look_seldom()
    assert gc.isenabled()
    assert gc.get_threshold() == THRESHOLDS

    circle: list[object] = []
    circle.append(circle)
    del circle

    assert gc.collect() >= 1
