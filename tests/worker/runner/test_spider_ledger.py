"""When a spider's requests may start, with the ledger played by hand and by its own decisions."""

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import pytest

from crawlfleet.core.politeness import ledger as granting
from crawlfleet.model.crawl.politeness_entry import LedgerEntry
from crawlfleet.model.wire.politeness import LedgerReply, LedgerRequest
from crawlfleet.worker.runner.crawlfleet_runner.ledger import Ledger
from crawlfleet.worker.runner.crawlfleet_runner.politeness import crawl_delay_s, retry_after_s
from crawlfleet.worker.runner.crawlfleet_runner.protocol import Failed

HOST = "https://shop.example"


class World:
    """A clock that goes when it is told to, and a ledger that decides as the master's does."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.timers: list[tuple[float, int, Callable[[], None]]] = []
        self.book: dict[str, LedgerEntry] = {}
        self.numbers = itertools.count()
        self.asked: list[LedgerRequest] = []
        self.refusal: dict[str, Any] | None = None

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        self.timers.append((self.now + seconds, next(self.numbers), call))

    def go_on(self, seconds: float, *ledgers: Ledger) -> None:
        """Let time pass, with a tick a quarter of a second."""
        until = self.now + seconds
        while self.now < until:
            self.now = min([self.now + 0.05, until, *(at for at, _, _ in self.timers)])
            due = sorted(each[:2] for each in self.timers if each[0] <= self.now)
            calls = {each[:2]: each[2] for each in self.timers}
            self.timers = [each for each in self.timers if each[0] > self.now]
            for each in due:
                calls[each]()
            for ledger in ledgers:
                ledger.tick()

    def ledger(self, name: str, **more: Any) -> Ledger:
        wire = Wire(self, name)
        return Ledger(
            wire,  # type: ignore[arg-type]
            more.pop("takes", ("ledger",)),
            post=lambda call: call(),
            later=self.later,
            clock=lambda: self.now,
            wall=lambda: self.now,
            **more,
        )


class Wire:
    def __init__(self, world: World, name: str) -> None:
        self._world = world
        self._name = name

    def request(
        self, service: str, answer: Callable[[dict[str, Any]], None], payload: Any = None
    ) -> None:
        answer(self.call(service, payload))

    def call(self, service: str, payload: Any = None) -> dict[str, Any]:
        assert service == "ledger"
        world = self._world
        if world.refusal is not None:
            return world.refusal
        request = msgspec.convert(payload, LedgerRequest)
        world.asked.append(request)
        changes, reply = granting.exchange(
            world.book,
            request,
            name=self._name,
            now=world.now,
            born=-1e9,
            living=lambda _: True,
        )
        world.book |= changes
        response = {"payload": msgspec.to_builtins(reply), "refusal": ""}
        assert msgspec.convert(response["payload"], LedgerReply) == reply
        return response


class Asker:
    """Asks a host again and again, each time for a while."""

    def __init__(
        self, world: World, ledger: Ledger, *, delay_s: float = 0.0, concurrency: int = 1
    ) -> None:
        self._world = world
        self._ledger = ledger
        self.host = ledger.host(HOST)
        self.host.delay_s, self.host.concurrency = delay_s, concurrency
        self.starts: list[float] = []
        self.refused: list[str] = []
        self.under_way = 0

    def ask(self, times: int, takes_s: float = 0.1) -> None:
        for _ in range(times):
            self._ledger.enter(self.host, partial(self._go, takes_s))

    def _go(self, takes_s: float, why: str) -> None:
        if why:
            self.refused.append(why)
            return
        self.starts.append(self._world.now)
        self.under_way += 1
        self._world.later(takes_s, self._end)

    def _end(self) -> None:
        self.under_way -= 1
        self._ledger.leave(self.host)


def gaps(starts: list[float]) -> list[float]:
    ordered = sorted(starts)
    return [later - before for before, later in itertools.pairwise(ordered)]


def test_two_spiders_ask_a_host_no_oftener_than_one() -> None:
    world = World()
    ledgers = [world.ledger(name) for name in ("a", "b")]
    askers = [Asker(world, ledger, delay_s=0.5) for ledger in ledgers]
    for asker in askers:
        asker.ask(12)
    world.go_on(40.0, *ledgers)
    assert [len(asker.starts) for asker in askers] == [12, 12]
    assert min(gaps([at for asker in askers for at in asker.starts])) >= 0.499


def test_two_spiders_have_no_more_under_way_at_once_than_one() -> None:
    world = World()
    ledgers = [world.ledger(name) for name in ("a", "b")]
    askers = [Asker(world, ledger, concurrency=3) for ledger in ledgers]
    for asker in askers:
        asker.ask(40, takes_s=0.4)
    most = 0
    for _ in range(800):
        world.go_on(0.05, *ledgers)
        most = max(most, sum(asker.under_way for asker in askers))
    assert [len(asker.starts) for asker in askers] == [40, 40]
    assert most == 3


def test_a_host_that_is_left_alone_is_told_to_everybody() -> None:
    world = World()
    first, second = (world.ledger(name) for name in ("a", "b"))
    one, other = Asker(world, first), Asker(world, second)
    one.ask(1)
    world.go_on(1.0, first, second)
    first.pause(one.host, 60.0, "Retry-After of 60 s")
    world.go_on(3.0, first, second)
    one.ask(1)
    other.ask(1)
    world.go_on(10.0, first, second)
    assert (len(one.starts), len(other.starts)) == (1, 0)
    assert one.refused
    assert "left alone" in other.refused[0]
    assert second.rests_for_s(other.host) > 30.0
    assert not second.may_hand_out(other.host)


def test_what_waits_patiently_goes_when_the_pause_is_over() -> None:
    world = World()
    ledger = world.ledger("a")
    asker = Asker(world, ledger)
    ledger.pause(asker.host, 60.0, "Retry-After of 60 s")
    ledger.enter(asker.host, partial(asker._go, 0.1), patiently=True)
    world.go_on(50.0, ledger)
    assert not asker.starts
    world.go_on(30.0, ledger)
    assert (len(asker.starts), asker.refused) == (1, [])


def test_a_crawl_delay_counts_from_when_it_is_known() -> None:
    world = World()
    ledger = world.ledger("a")
    asker = Asker(world, ledger)
    asker.ask(1)
    world.go_on(1.0, ledger)
    asker.host.crawl_delay_s = 2.0
    asker.ask(4)
    world.go_on(15.0, ledger)
    assert len(asker.starts) == 5
    assert min(gaps(asker.starts)) >= 1.99


def test_a_window_lets_go_what_it_has_room_for_and_is_given_back() -> None:
    world = World()
    ledger = world.ledger("a")
    host = ledger.host(HOST)
    host.concurrency = 2
    assert not ledger.may_hand_out(host), "it is asked for first"
    world.go_on(0.2, ledger)
    assert ledger.may_hand_out(host)
    host.handed = 2
    assert not ledger.may_hand_out(host)
    host.handed = 0
    world.go_on(5.0, ledger)
    assert any(ask.returns for ask in world.asked), "nobody used it"


def test_who_has_a_part_of_a_host_asks_for_its_part() -> None:
    world = World()
    ledgers = [world.ledger(name, is_needed=True) for name in ("a", "b")]
    askers = [Asker(world, ledger, concurrency=4) for ledger in ledgers]
    for asker in askers:
        asker.host.room = 2
        asker.ask(40, takes_s=0.5)
    most = [0, 0]
    for _ in range(200):
        world.go_on(0.05, *ledgers)
        most = [max(each, asker.under_way) for each, asker in zip(most, askers, strict=True)]
    assert most == [2, 2]


def test_without_an_answer_nothing_is_asked_beyond_what_was_granted() -> None:
    world = World()
    ledger = world.ledger("a")
    asker = Asker(world, ledger)
    world.refusal = {"refusal": "the master is away", "may_retry": True}
    asker.ask(1)
    world.go_on(30.0, ledger)
    assert not asker.starts
    world.refusal = None
    world.go_on(3.0, ledger)
    assert len(asker.starts) == 1


def test_a_fleet_without_a_ledger_is_as_before_unless_hosts_are_shared() -> None:
    world = World()
    world.refusal = {"refusal": "this fleet has no ledger"}
    ledger = world.ledger("a")
    ledger.open()
    assert ledger.is_off
    asker = Asker(world, ledger, delay_s=5.0)
    asker.ask(3)
    assert len(asker.starts) == 3, "Scrapy itself sees to its delays"
    with pytest.raises(Failed, match="split_hosts"):
        world.ledger("b", is_needed=True).open()
    old = world.ledger("c", takes=("output",))
    old.open()
    assert old.is_off


def test_who_waits_is_turned_away_when_the_spider_is_stopped() -> None:
    world = World()
    ledger = world.ledger("a")
    asker = Asker(world, ledger)
    world.refusal = {"refusal": "the master is away", "may_retry": True}
    asker.ask(2)
    ledger.give_up()
    asker.ask(1)
    assert asker.refused == ["the spider is being stopped"] * 3


def test_windows_are_given_back_at_the_end() -> None:
    world = World()
    ledger = world.ledger("a")
    ledger.open()
    asker = Asker(world, ledger)
    asker.ask(1)
    world.go_on(0.3, ledger)
    ledger.close()
    assert world.asked[-1].returns[0].key == f"host:{HOST}"
    assert not world.book[f"host:{HOST}"].holds


def test_what_a_site_asks_for_is_read() -> None:
    assert retry_after_s(b"120", 0.0) == 120.0
    assert retry_after_s(b"Thu, 01 Jan 1970 00:01:00 GMT", 20.0) == 40.0
    assert retry_after_s(b"soon", 0.0) == 0.0


def test_a_crawl_delay_is_read_up_to_a_bound() -> None:
    pytest.importorskip("protego")
    robots = b"User-agent: *\nCrawl-delay: 3\n\nUser-agent: bot\nCrawl-delay: 9999\n"
    assert crawl_delay_s(robots, "any") == 3.0
    assert crawl_delay_s(robots, "bot") == 120.0
    assert crawl_delay_s(b"\xff\xfe nothing", "any") == 0.0
