"""What the scheduler of a spider filters, with Scrapy played by hand."""

import hashlib
from collections import Counter
from types import SimpleNamespace
from typing import Any

from crawlfleet.worker.runner.crawlfleet_runner.frontier import Page
from crawlfleet.worker.runner.crawlfleet_runner.scheduler import KEY, Scheduler

HOST = "https://shop.example"


class Request:
    """As much of a request of Scrapy's as a scheduler looks at."""

    priority = 0
    dont_filter = False

    def __init__(self, path: str, held: Any = None) -> None:
        self.url = f"{HOST}/{path}"
        self.meta: dict[str, Any] = {}
        self.held = held

    def to_dict(self, spider: Any) -> dict[str, Any]:
        return {"url": self.url, "held": self.held}


class Frontier:
    """Takes every page, or none."""

    waiting = 0

    def __init__(self) -> None:
        self.is_lost = False
        self.links: list[int] = []

    def open(self) -> None: ...

    def commit(self, pages: list[Page], loose: list[bytes]) -> list[Page]:
        if self.is_lost:
            return [*pages]
        self.links += [id for page in pages for id in page.links]
        return []


def played() -> tuple[Any, Frontier]:
    """A scheduler at work; attributes of its own are looked at."""
    stats: Counter[str] = Counter()
    slot = SimpleNamespace(remove_request=lambda _: None)
    scheduler: Any = Scheduler.from_crawler(
        SimpleNamespace(
            stats=SimpleNamespace(inc_value=lambda name: stats.update([name])),
            request_fingerprinter=SimpleNamespace(
                fingerprint=lambda request: hashlib.sha1(request.url.encode()).digest()
            ),
            engine=SimpleNamespace(_slot=slot),
        )
    )
    scheduler.frontier = frontier = Frontier()
    scheduler.open(None)
    return scheduler, frontier


def make(scheduler: Any, page: Page) -> Request:
    """Have a page that was leased, as Scrapy does."""
    request = Request(f"page-{page.id}")
    request.meta[KEY] = page.id
    scheduler._ready.append((page, request))
    assert [scheduler.next_request()] == [request]
    return request


def find(scheduler: Any, parent: Request, path: str) -> bool:
    found = Request(path)
    scheduler.led_to(found, SimpleNamespace(request=parent))
    return bool(scheduler.enqueue_request(found))


def end(scheduler: Any, request: Request) -> None:
    scheduler._crawler.engine._slot.remove_request(request)
    scheduler._commit()


def test_what_cannot_be_written_down_is_made_once() -> None:
    scheduler, _ = played()
    assert scheduler.enqueue_request(Request("a", held=object()))
    assert scheduler.next_request().url == f"{HOST}/a"
    assert not scheduler.enqueue_request(Request("a", held=object()))
    assert scheduler.enqueue_request(Request("b", held=object()))


def test_links_of_a_page_that_was_lost_are_found_again() -> None:
    scheduler, frontier = played()
    frontier.is_lost = True
    request = make(scheduler, Page(1, HOST))
    assert find(scheduler, request, "a")
    assert not find(scheduler, request, "a")
    end(scheduler, request)
    frontier.is_lost = False
    again = make(scheduler, Page(1, HOST))
    assert find(scheduler, again, "a")
    end(scheduler, again)
    assert len(frontier.links) == 1
    other = make(scheduler, Page(2, HOST))
    assert not find(scheduler, other, "a")


def test_links_of_a_page_that_was_lost_while_it_was_made_are_found_again() -> None:
    scheduler, frontier = played()
    assert find(scheduler, make(scheduler, Page(1, HOST)), "a")
    again = make(scheduler, Page(1, HOST))
    assert find(scheduler, again, "a")
    end(scheduler, again)
    assert len(frontier.links) == 1
