"""What the scheduler of a spider filters and hands out, with Scrapy played by hand."""

import hashlib
import sys
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from crawlfleet.worker.runner.crawlfleet_runner import leased_request as page_module
from crawlfleet.worker.runner.crawlfleet_runner import scheduler as module
from crawlfleet.worker.runner.crawlfleet_runner.leased_request import Page
from crawlfleet.worker.runner.crawlfleet_runner.parents import Parentage
from crawlfleet.worker.runner.crawlfleet_runner.protocol import Failed
from crawlfleet.worker.runner.crawlfleet_runner.scheduler import ITEMS, Scheduler
from crawlfleet.worker.runner.crawlfleet_runner.windows import Host

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
    """Takes every page that is not lost."""

    def __init__(self) -> None:
        self.waiting = self.outstanding = self.surplus = 0
        self.lost: set[Page] = set()
        self.links: list[int] = []
        self.done: list[Page] = []
        self.returned: list[Page] = []
        self.added: list[list[Any]] = []
        self.leases: list[tuple[Page, str]] = []
        self.leased: dict[str, dict[int, Page]] = {}
        self.refusal = ""
        self.is_closed = False
        self.items = SimpleNamespace(line=lambda fields, text: text.encode())

    def open(self) -> None: ...

    def look(self) -> None: ...

    def close(self) -> None:
        self.is_closed = True

    def add(self, seeds: list[list[Any]]) -> None:
        self._answer()
        self.added += seeds

    def has(self, page: Page) -> bool:
        return page not in self.lost

    def held(self) -> dict[str, dict[int, Page]]:
        return self.leased

    def lease(self, *_: Any) -> list[tuple[Page, str]]:
        leases, self.leases = self.leases, []
        return leases

    def _answer(self) -> None:
        if self.refusal:
            raise Failed(self.refusal)

    def commit(self, pages: list[Page], returned: list[Page], rests: Any) -> list[Page]:
        self._answer()
        self.done += pages
        self.returned += returned
        self.links += [id for page in pages if self.has(page) for id in page.links]
        return [page for page in pages if not self.has(page)]


class Ledger:
    """Lets everything go, unless it is told otherwise."""

    changed: Any = None

    def __init__(self) -> None:
        self.hosts: dict[str, Host] = {}
        self.closed: set[str] = set()
        self.rests: dict[str, float] = {}

    def open(self) -> None: ...

    def tick(self) -> None: ...

    def host(self, name: str) -> Host:
        return self.hosts.setdefault(name, Host(name))

    def may_hand_out(self, host: Host) -> bool:
        return host.name not in self.closed

    def rests_for_s(self, host: Host) -> float:
        return self.rests.get(host.name, 0.0)


class Gate:
    """Knows the hosts, and is in nobody's way."""

    def __init__(self, crawler: Any, ledger: Ledger, **told: Any) -> None:
        self.host = lambda request: ledger.host(module.host_of(request.url))
        self.told = told

    def install(self, handlers: Any) -> None: ...


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Frontier]:
    """A scheduler at work; attributes of its own are looked at."""
    monkeypatch.setattr(module, "Gate", Gate)
    stats: Counter[str] = Counter()
    nextcall = SimpleNamespace(schedule=lambda: None)
    slot = SimpleNamespace(remove_request=lambda _: None, closing=None, nextcall=nextcall)
    scheduler: Any = Scheduler.from_crawler(
        SimpleNamespace(
            stats=SimpleNamespace(inc_value=lambda name: stats.update([name])),
            request_fingerprinter=SimpleNamespace(
                fingerprint=lambda request: hashlib.sha1(request.url.encode()).digest()
            ),
            engine=SimpleNamespace(_slot=slot, downloader=SimpleNamespace(handlers=None)),
        )
    )
    scheduler.frontier = frontier = Frontier()
    scheduler.ledger = Ledger()
    scheduler.open(None)
    return scheduler, frontier


def lease(scheduler: Any, page: Page, path: str = "") -> Request:
    """Have a page lie ready."""
    request = Request(path or f"page-{page.id}")
    request.url = f"{page.host.partition('#')[0]}/{page.id}"
    scheduler._ready.setdefault(page.host, module.deque()).append((page, request))
    scheduler.frontier.leased.setdefault(page.host, {})[page.id] = page
    return request


def make(scheduler: Any, page: Page) -> Request:
    """Have a page that was leased, as Scrapy does."""
    request = lease(scheduler, page)
    assert [scheduler.next_request()] == [request]
    return request


def find(scheduler: Any, parent: Request, path: str) -> bool:
    found = Request(path)
    scheduler.led_to(found, SimpleNamespace(request=parent))
    return bool(scheduler.enqueue_request(found))


def end(scheduler: Any, request: Request) -> None:
    scheduler._crawler.engine._slot.remove_request(request)
    scheduler._commit()


def test_what_cannot_be_written_down_is_made_once(played: tuple[Any, Frontier]) -> None:
    scheduler, _ = played
    assert scheduler.enqueue_request(Request("a", held=object()))
    assert scheduler.next_request().url == f"{HOST}/a"
    assert not scheduler.enqueue_request(Request("a", held=object()))
    assert scheduler.enqueue_request(Request("b", held=object()))


def test_links_of_a_page_that_was_lost_are_found_again(played: tuple[Any, Frontier]) -> None:
    scheduler, frontier = played
    first = Page(1, HOST)
    request = make(scheduler, first)
    assert find(scheduler, request, "a")
    assert not find(scheduler, request, "a")
    frontier.lost.add(first)
    end(scheduler, request)
    again = make(scheduler, Page(1, HOST))
    assert find(scheduler, again, "a")
    end(scheduler, again)
    assert len(frontier.links) == 1
    other = make(scheduler, Page(2, HOST))
    assert not find(scheduler, other, "a")


def test_links_of_a_page_that_was_lost_while_it_was_made_are_found_again(
    played: tuple[Any, Frontier],
) -> None:
    scheduler, frontier = played
    first = Page(1, HOST)
    before = make(scheduler, first)
    assert find(scheduler, before, "a")
    frontier.lost.add(first)
    again = make(scheduler, Page(1, HOST))
    assert not find(scheduler, before, "b"), "whoever has the page finds it"
    assert find(scheduler, again, "a")
    assert find(scheduler, again, "b")
    end(scheduler, again)
    end(scheduler, before)
    assert len(frontier.links) == 2


def test_a_link_waits_with_each_page_that_led_to_it_until_one_of_them_is_done(
    played: tuple[Any, Frontier],
) -> None:
    """The one that found it first may never be done."""
    scheduler, frontier = played
    first, second = make(scheduler, Page(1, HOST)), make(scheduler, Page(2, HOST))
    assert find(scheduler, first, "a")
    assert find(scheduler, second, "a")
    end(scheduler, second)
    assert len(frontier.links) == 1, "whatever becomes of the first"
    third = make(scheduler, Page(3, HOST))
    assert not find(scheduler, third, "a")


@pytest.mark.parametrize("way", ["next_request", "tick", "close"])
def test_a_step_that_fails_is_told_and_nothing_counts_from_then_on(
    played: tuple[Any, Frontier], way: str
) -> None:
    """Scrapy only logs what its scheduler raises."""
    scheduler, frontier = played
    request, other = make(scheduler, Page(1, HOST)), make(scheduler, Page(2, HOST))
    scheduler._crawler.engine._slot.remove_request(request)
    frontier.refusal = "the disk is full"
    if way == "close":
        scheduler.close("finished")
    else:
        assert getattr(scheduler, way)() is None
    assert str(scheduler.trouble) == "the disk is full"
    assert [page.id for page in scheduler._done] == [1]
    frontier.refusal = ""
    scheduler._crawler.engine._slot.remove_request(other)
    lease(scheduler, Page(3, HOST))
    assert scheduler.next_request() is None
    scheduler.close("shutdown")
    assert (frontier.done, frontier.is_closed) == ([], False)


def test_seeds_that_were_not_taken_wait_for_the_next_time(played: tuple[Any, Frontier]) -> None:
    scheduler, frontier = played
    assert scheduler.enqueue_request(Request("a"))
    frontier.refusal = "not now"
    assert scheduler.next_request() is None
    assert scheduler.trouble is not None
    assert len(scheduler._seeds) == 1
    assert not scheduler.enqueue_request(Request("a"))


def test_an_item_counts_with_the_lease_that_its_response_came_of(
    played: tuple[Any, Frontier],
) -> None:
    scheduler, frontier = played
    first, second = Page(1, HOST), Page(1, HOST)
    before = make(scheduler, first)
    frontier.lost.add(first)
    again = make(scheduler, second)
    for request in (again, before):
        scheduler.take_item(["a"], "{}", SimpleNamespace(request=request))
    assert (first.lines, second.lines) == ([b"{}"], [b"{}"])


def test_what_was_made_from_a_request_does_not_end_it(played: tuple[Any, Frontier]) -> None:
    scheduler, frontier = played
    request = make(scheduler, Page(1, HOST))
    image = Request("image")
    image.meta = dict(request.meta)
    end(scheduler, image)
    assert not frontier.done
    end(scheduler, request)
    assert [page.id for page in frontier.done] == [1]


def test_items_that_no_page_led_to_wait_as_requests_do(played: tuple[Any, Frontier]) -> None:
    """So that they count once, however many workers begin with them."""
    scheduler, frontier = played
    for _ in range(2):
        scheduler.take_item(["a"], '{"a": 1}', None)
    scheduler._commit()
    ids = [seed[0] for seed in frontier.added]
    assert len({*ids}) == 2, "the same item twice is two items"
    assert {seed[2] for seed in frontier.added} == {ITEMS}
    scheduler._ordinals.clear()
    scheduler.take_item(["a"], '{"a": 1}', None)
    scheduler._commit()
    assert frontier.added[-1][0] == ids[0], "that of another worker is the same"
    page = Page(ids[0], ITEMS)
    frontier.leases, frontier.waiting = [(page, frontier.added[0][1])], 1
    scheduler._ask_at = 0.0
    assert scheduler.next_request() is None
    scheduler._commit()
    assert frontier.done == [page]
    assert page.lines == [b'{"a": 1}']


def test_items_that_no_page_led_to_count_though_the_crawl_is_ended_before_it_asks_for_them(
    played: tuple[Any, Frontier],
) -> None:
    scheduler, frontier = played
    for number in range(3):
        scheduler.take_item(["a"], f'{{"a": {number}}}', None)
    ready = Page(1, HOST)
    lease(scheduler, ready)

    def leased(hosts: int, each: int, leaving: Any) -> list[tuple[Page, str]]:
        """First another host, then one item, then the rest of them."""
        asked.append((hosts, each, {*leaving}))
        if len(asked) == 1:
            return [(Page(9, "https://other.example"), "")]
        items = [(Page(seed[0], ITEMS), seed[1]) for seed in frontier.added]
        given = items[:1] if len(asked) == 2 else items[1:]
        frontier.leased.setdefault(ITEMS, {}).update((page.id, page) for page, _ in given)
        return given

    asked: list[Any] = []
    frontier.lease, frontier.waiting = leased, 5  # type: ignore[method-assign]
    scheduler.close("shutdown")
    assert scheduler.trouble is None
    assert [page.lines for page in frontier.done] == [[b'{"a": 0}'], [b'{"a": 1}'], [b'{"a": 2}']]
    assert frontier.returned == [ready]
    assert asked[-1][0] == 0, "no more hosts once the items are there"
    assert frontier.is_closed


@pytest.mark.parametrize("kind", ["items", "links"])
def test_a_page_that_leads_to_more_than_can_be_held_ends_the_crawl(
    played: tuple[Any, Frontier], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(page_module, "MAX_BYTES", 1_000_000)
    scheduler, frontier = played
    page = Page(1, HOST)
    request = make(scheduler, page)
    response = SimpleNamespace(request=request)
    middleware = Parentage(scheduler._crawler)
    monkeypatch.setitem(sys.modules, "scrapy", SimpleNamespace(Request=Request))
    many = (Request(f"{number}") if kind == "links" else number for number in range(50_000))
    for each in middleware.process_spider_output(response, many):
        if kind == "links":
            scheduler.enqueue_request(each)
        else:
            scheduler.take_item(["a"], f'{{"a": {each}}}', response)
    assert next(many, None) is not None, "the callback is not asked for the rest"
    assert isinstance(scheduler.trouble, Failed)
    assert request.url in str(scheduler.trouble)
    assert scheduler.trouble.error_class == "invalid"
    assert len(page.lines) + len(page.links) < 10_000, "many small ones are much, too"
    scheduler._crawler.engine._slot.remove_request(request)
    scheduler.close("shutdown")
    assert frontier.done == []


def test_what_a_page_led_to_and_somebody_ignored_is_forgotten_with_it(
    played: tuple[Any, Frontier],
) -> None:
    """Else a later request with the same identity would be taken for it."""
    scheduler, _ = played
    request = make(scheduler, Page(1, HOST))
    scheduler.led_to(Request("a"), SimpleNamespace(request=request))
    (kept,) = scheduler._parents.values()
    assert kept[0].url == f"{HOST}/a", "nothing else has its identity meanwhile"
    end(scheduler, request)
    assert scheduler._parents == {}


def test_a_page_whose_pipelines_did_not_get_what_they_wanted_is_given_back(
    played: tuple[Any, Frontier],
) -> None:
    scheduler, frontier = played
    dealt_with, asked = Page(1, HOST), Page(2, HOST)
    first, second = make(scheduler, dealt_with), make(scheduler, asked)
    scheduler.note_status(SimpleNamespace(status=200), first)
    image = Request("image")
    told = scheduler._gate.told
    assert [told["is_page"](each) for each in (first, image)] == [True, False]
    told["left_alone"](image)
    end(scheduler, first)
    end(scheduler, second)
    assert (frontier.returned, frontier.done) == ([dealt_with], [asked])


def test_hosts_take_turns_and_those_that_may_not_be_asked_wait(
    played: tuple[Any, Frontier],
) -> None:
    scheduler, _ = played
    for id in (1, 2):
        lease(scheduler, Page(id, HOST))
        lease(scheduler, Page(id, "https://other.example"))
    hosts = [scheduler.next_request().url.rpartition("/")[0] for _ in range(3)]
    assert hosts == [HOST, "https://other.example", HOST]
    scheduler.ledger.closed.add("https://other.example")
    assert scheduler.next_request() is None
    assert scheduler.ledger.host(HOST).handed == 2
    assert scheduler.has_pending_requests()


def test_a_host_that_asked_to_be_left_alone_is_given_back(played: tuple[Any, Frontier]) -> None:
    scheduler, frontier = played
    making, ready = Page(1, HOST), Page(2, HOST)
    request = make(scheduler, making)
    lease(scheduler, ready)
    scheduler.ledger.rests[HOST] = 60.0
    assert scheduler.next_request() is None
    scheduler._commit()
    assert frontier.returned == [ready]
    assert HOST in scheduler._rests
    end(scheduler, request)
    assert frontier.done == [making]


def test_others_get_their_share_of_the_hosts(played: tuple[Any, Frontier]) -> None:
    scheduler, frontier = played
    busy, idle = Page(1, HOST), Page(2, "https://other.example")
    make(scheduler, busy)
    lease(scheduler, idle)
    frontier.surplus = 1
    assert scheduler.next_request() is None
    scheduler._commit()
    assert frontier.returned == [idle]


def test_a_page_that_was_not_asked_for_is_given_back(played: tuple[Any, Frontier]) -> None:
    scheduler, frontier = played
    page = Page(1, HOST)
    request = make(scheduler, page)
    scheduler._gate.told["left_alone"](request)
    end(scheduler, request)
    assert (frontier.returned, frontier.done) == ([page], [])
    assert scheduler.ledger.host(HOST).handed == 0


def test_the_parts_of_a_host_are_queues_and_share_what_it_may_be_asked(
    played: tuple[Any, Frontier],
) -> None:
    scheduler, frontier = played
    scheduler.parts = 4
    for path in "abcdefgh":
        scheduler.enqueue_request(Request(path))
    queues = {seed[2] for seed in scheduler._seeds.values()}
    assert queues <= {f"{HOST}#{number}" for number in range(4)}
    assert len(queues) > 1
    frontier.leased = {f"{HOST}#0": {}, f"{HOST}#3": {}, "https://other.example#0": {}}
    assert scheduler._room(HOST, 8) == 4
    assert scheduler._room("https://other.example", 1) == 1
