import gc

import pytest

from crawlfleet.crawl.engine.gc import THRESHOLDS, crawling, keep_memory, look_seldom


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


@pytest.mark.usefixtures("usual_collector")
def test_what_comes_after_a_crawl_is_looked_at_as_before() -> None:
    before = gc.get_threshold()
    with crawling():
        assert gc.get_threshold() == THRESHOLDS
        assert gc.get_freeze_count() > 0
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0


def test_memory_is_kept_where_the_c_library_can_be_told(monkeypatch: pytest.MonkeyPatch) -> None:
    keep_memory()
    monkeypatch.setattr("ctypes.CDLL", lambda _: object())
    keep_memory()
