"""How a spider ends whose scheduler got into trouble, with Scrapy and Twisted played by hand."""

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from crawlfleet.worker.runner.crawlfleet_runner.protocol import Failed
from crawlfleet.worker.runner.crawlfleet_runner.spider import Spider


class Scheduler:
    trouble: Exception | None = None
    ticks = 0

    def tick(self) -> None:
        self.ticks += 1
        self.trouble = Failed("the disk is full")


@pytest.fixture
def spider(monkeypatch: pytest.MonkeyPatch) -> Any:
    """One whose calls of Scrapy's are noted."""
    calls: list[str] = []
    internet = ModuleType("twisted.internet")
    looping = SimpleNamespace(start=lambda *_, **__: None)
    vars(internet).update(
        reactor=SimpleNamespace(), task=SimpleNamespace(LoopingCall=lambda *_: looping)
    )
    monkeypatch.setitem(sys.modules, "twisted", ModuleType("twisted"))
    monkeypatch.setitem(sys.modules, "twisted.internet", internet)
    monkeypatch.setattr(sys, "path", [*sys.path])
    wire: Any = SimpleNamespace(say=lambda *_, **__: None)
    items: Any = SimpleNamespace(count=0, finish=lambda: calls.append("items"))
    spider: Any = Spider(wire, items, {"spider": "shop"})
    spider._process = SimpleNamespace(
        crawl=lambda *_: SimpleNamespace(addErrback=lambda _: None),
        start=lambda **_: calls.append("start"),
        stop=lambda: calls.append("stop"),
    )
    spider._ledger = SimpleNamespace(
        give_up=lambda: calls.append("give up"), close=lambda: calls.append("close")
    )
    spider.calls = calls
    return spider


def test_trouble_of_its_scheduler_stops_a_spider_once(spider: Any) -> None:
    """Who waits for a host is told so first: Scrapy waits for what is under way."""
    crawler = SimpleNamespace(crawlfleet_scheduler=Scheduler())
    for _ in range(3):
        spider._tick(crawler)
    assert spider.calls == ["give up", "stop"]
    assert crawler.crawlfleet_scheduler.ticks == 1


def test_a_spider_does_not_end_well_when_its_scheduler_could_not(
    spider: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = Scheduler()
    crawler = SimpleNamespace(crawlfleet_scheduler=scheduler, stats=SimpleNamespace(get_stats=dict))
    monkeypatch.setattr(spider, "_prepared", lambda: (crawler, spider._process))
    assert spider.run()[0]["spider"] == "shop"
    scheduler.tick()
    with pytest.raises(Failed, match="the disk is full"):
        spider.run()
    assert spider.calls == ["start", "close", "items", "start", "close"]
