"""The ledger's decisions: windows one after the other, shared permits, pauses, turns."""

import heapq
import os
import random
from collections import defaultdict
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawlfleet.core.politeness.ledger import (
    ALONE_S,
    exchange,
    paused,
    returned,
    use,
)
from crawlfleet.model.crawl.politeness_entry import USER_S, LedgerEntry
from crawlfleet.model.wire.politeness import (
    LedgerReply,
    LedgerRequest,
    Pause,
    Return,
    Terms,
    Window,
    WindowRequest,
)

Book = dict[str, LedgerEntry]
OLD = -1000.0


def ask(
    book: Book,
    name: str,
    now: float,
    *terms: Terms,
    returns: tuple[Return, ...] = (),
    pauses: tuple[Pause, ...] = (),
    longest_s: float = 30.0,
    born: float = OLD,
    living: Callable[[str], bool] = lambda _: True,
) -> LedgerReply:
    """Say something in the name of an engine, and change the book accordingly."""
    wants = (WindowRequest(host="h", keys=terms),) if terms else ()
    message = LedgerRequest(wants=wants, returns=returns, pauses=pauses, longest_s=longest_s)
    changes, told = exchange(book, message, name=name, now=now, born=born, living=living)
    book |= changes
    return told


def window(told: LedgerReply, key: str = "host:a") -> Window:
    assert not told.refusals, told.refusals
    return next(each for each in told.windows if each.key == key)


POLITE = Terms("host:a", 1.0, 1)
FAST = Terms("host:a", 0.0, 8)


def test_engine_that_is_alone_has_its_window_made_longer_before_it_ends() -> None:
    book: Book = {}
    first = window(ask(book, "a", 100.0, POLITE))
    assert (first.start_in_s, first.end_in_s, first.delay_s, first.permits) == (0, ALONE_S, 1.0, 1)
    second = window(ask(book, "a", 106.0, POLITE))
    assert (second.start_in_s, second.end_in_s) == (0.0, ALONE_S)


def test_key_with_a_delay_belongs_to_one_at_a_time() -> None:
    book: Book = {}
    window(ask(book, "a", 100.0, POLITE))
    (refusal,) = ask(book, "b", 101.0, POLITE).refusals
    assert (refusal.host, refusal.key) == ("h", "host:a")
    assert refusal.again_in_s == pytest.approx(2.0), "so that it keeps its place among others"
    assert "a asks it now" in refusal.why
    assert not refusal.is_pause


def test_others_who_wait_end_the_extensions_and_take_turns() -> None:
    book: Book = {}
    window(ask(book, "a", 100.0, POLITE))
    assert ask(book, "b", 109.0, POLITE).refusals
    assert window(ask(book, "a", 109.2, POLITE)).end_in_s == pytest.approx(0.8)
    back = Return(key="host:a", started_ago_s=0.5)
    told = ask(book, "a", 110.0, POLITE, returns=(back,))
    assert "b is before it" in told.refusals[0].why
    mine = window(ask(book, "b", 110.1, POLITE))
    assert mine.start_in_s == pytest.approx(0.4), "a delay after the last start of the other"
    assert mine.end_in_s == pytest.approx(0.4 + ALONE_S / 2), "shorter, since there are two"


def test_window_that_nobody_gave_back_counts_to_its_end() -> None:
    book: Book = {}
    window(ask(book, "a", 100.0, POLITE))
    ask(book, "b", 109.0, POLITE)
    (refusal,) = ask(book, "b", 111.0, POLITE).refusals
    assert "under way" in refusal.why, "a request of the last moment may still be"
    for now in range(112, 140, 2):
        assert ask(book, "b", float(now), POLITE).refusals
    assert window(ask(book, "b", 141.0, POLITE)).start_in_s == 0.0


def test_window_of_an_engine_that_is_gone_is_free_at_its_end_and_not_before() -> None:
    book: Book = {}
    window(ask(book, "a", 100.0, POLITE))
    gone = {"living": lambda name: name != "a"}
    assert ask(book, "b", 105.0, POLITE, **gone).refusals
    assert window(ask(book, "b", 110.1, POLITE, **gone)).start_in_s == pytest.approx(0.9)


def test_requests_under_way_hold_their_permits_after_the_window() -> None:
    book: Book = {}
    terms = Terms("host:a", 1.0, 2)
    assert window(ask(book, "a", 100.0, terms)).permits == 2
    ask(book, "b", 109.5, terms)
    late = Return(key="host:a", started_ago_s=1.0, in_flight=1)
    ask(book, "a", 110.0, returns=(late,))
    assert window(ask(book, "b", 110.1, terms)).permits == 1
    ask(book, "a", 111.0, returns=(Return(key="host:a"),))
    assert window(ask(book, "b", 111.1, terms)).permits == 2


def test_engine_that_waits_again_does_not_lose_what_it_has_under_way() -> None:
    book: Book = {}
    window(ask(book, "a", 100.0, POLITE))
    ask(book, "b", 109.0, POLITE)
    late = Return(key="host:a", started_ago_s=0.0, in_flight=1)
    assert ask(book, "a", 110.0, POLITE, returns=(late,)).refusals
    assert "under way" in ask(book, "b", 112.0, POLITE).refusals[0].why


def test_key_without_a_delay_is_shared_by_its_permits() -> None:
    book: Book = {}
    assert window(ask(book, "a", 100.0, FAST)).permits == 8
    assert ask(book, "b", 108.0, FAST).refusals
    assert window(ask(book, "a", 109.5, FAST)).end_in_s == pytest.approx(0.5)
    ask(book, "a", 110.0, returns=(Return(key="host:a"),))
    assert window(ask(book, "b", 110.1, FAST)).permits == 4
    assert window(ask(book, "a", 110.2, FAST)).permits == 4


def test_who_is_gone_leaves_its_share_to_the_others() -> None:
    book: Book = {}
    window(ask(book, "a", 100.0, FAST))
    ask(book, "a", 101.0, returns=(Return(key="host:a", started_ago_s=0.1),))
    still_there = book.copy()
    assert window(ask(still_there, "b", 101.1, FAST)).permits == 4
    assert window(ask(book, "b", 101.1, FAST, living=lambda name: name != "a")).permits == 8


def test_who_is_gone_is_careful_until_its_delay_is_over() -> None:
    gone = {"living": lambda name: name != "a"}
    book: Book = {}
    window(ask(book, "a", 100.0, Terms("host:a", 5.0, 1)))
    ask(book, "a", 102.0, returns=(Return(key="host:a", started_ago_s=1.0),))
    granted = window(ask(book, "b", 102.5, POLITE, **gone))
    assert granted.start_in_s == pytest.approx(3.5)
    assert granted.delay_s == 1.0


def test_window_of_who_is_gone_keeps_its_delay_and_its_permits() -> None:
    gone = {"living": lambda name: name != "a"}
    book: Book = {}
    window(ask(book, "a", 100.0, Terms("host:a", 0.0, 4, most=2)))
    assert window(ask(book, "b", 101.0, FAST, **gone)).permits == 2
    assert window(ask(book, "b", 140.0, FAST, **gone)).permits == 8


def test_those_who_share_a_host_take_what_they_have_use_for() -> None:
    book: Book = {}
    some = Terms("host:a", 0.0, 8, most=3)
    assert window(ask(book, "a", 100.0, some)).permits == 3
    assert window(ask(book, "b", 100.1, some)).permits == 3
    assert window(ask(book, "c", 100.2, some)).permits == 2
    # One of them has left something to others, who get it at once.
    assert window(ask(book, "a", 100.3, Terms("host:a", 0.0, 8, most=1))).permits == 1
    assert window(ask(book, "c", 100.4, Terms("host:a", 0.0, 8, most=4))).permits == 4
    assert ask(book, "d", 100.5, some).refusals


def test_window_that_is_made_longer_keeps_the_permits_that_may_be_in_use() -> None:
    book: Book = {}
    assert window(ask(book, "a", 100.0, FAST)).permits == 8
    assert ask(book, "b", 100.5, FAST).refusals
    # It gave up waiting, but is remembered as one who visits.
    assert window(ask(book, "a", 106.0, FAST)).permits == 8
    assert ask(book, "b", 107.0, FAST).refusals


def test_most_careful_of_those_who_visit_decides() -> None:
    book: Book = {}
    window(ask(book, "a", 100.0, Terms("host:a", 1.0, 4)))
    ask(book, "b", 100.5, Terms("host:a", 5.0, 2))
    later = window(ask(book, "a", 101.0, Terms("host:a", 1.0, 4)))
    assert (later.delay_s, later.permits) == (5.0, 2)
    for now in range(105, 140, 3):
        ask(book, "a", float(now), Terms("host:a", 1.0, 4))
    assert window(ask(book, "a", 140.0, Terms("host:a", 1.0, 4))).delay_s == 1.0


def test_pause_holds_for_everybody() -> None:
    book: Book = {}
    window(ask(book, "a", 100.0, POLITE))
    ask(book, "a", 101.0, pauses=(Pause(key="host:a", for_s=60.0, why="Retry-After"),))
    for name in ("a", "b"):
        (refusal,) = ask(book, name, 102.0, POLITE).refusals
        assert refusal.is_pause
        assert (refusal.why, refusal.again_in_s) == ("Retry-After", pytest.approx(59.0))
    assert window(ask(book, "b", 161.5, POLITE, living=lambda name: name != "a"))


def test_shorter_pause_does_not_end_a_longer_one() -> None:
    entry = paused(LedgerEntry(), 100.0, "long", 0.0)
    assert paused(entry, 10.0, "short", 1.0) == entry
    assert paused(entry, 1e9, "for ever", 0.0).paused_until == 86_400.0


def test_ledger_that_knows_nothing_waits_for_what_may_have_been_granted() -> None:
    book: Book = {}
    terms = Terms("host:a", 20.0, 1)
    assert ask(book, "a", 101.0, terms, born=100.0).refusals, "a window, and a delay after it"
    assert ask(book, "a", 125.0, terms, born=100.0).refusals
    assert window(ask(book, "a", 131.0, terms, born=100.0)).start_in_s == pytest.approx(4.0)
    assert window(ask({}, "a", 116.0, POLITE, born=100.0)).start_in_s == 0.0


def test_keys_of_a_request_are_granted_together_or_not_at_all() -> None:
    book: Book = {}
    a, b = Terms("host:a", 1.0, 1), Terms("host:b", 1.0, 1)
    shared = Terms("address:1", 0.25, 2)
    window(ask(book, "one", 100.0, a, shared))
    (refusal,) = ask(book, "two", 100.1, b, shared).refusals
    assert refusal.key == "address:1"
    assert not book["host:b"].holds
    c = Terms("host:c", 1.0, 1)
    assert window(ask(book, "one", 100.2, c, shared), "host:c"), "another host of the same engine"


def test_people_see_who_uses_a_key_and_who_waits() -> None:
    book: Book = {}
    window(ask(book, "a", 100.0, POLITE))
    ask(book, "b", 101.0, POLITE)
    seen = use("host:a", book["host:a"], 102.0)
    assert (seen.used_by, seen.waiting, seen.delay_s) == (("a",), ("b",), 1.0)
    ask(book, "a", 102.0, pauses=(Pause(key="host:a", for_s=5.0, why="503"),))
    seen = use("host:a", book["host:a"], 103.0)
    assert (seen.paused_for_s, seen.pause) == (pytest.approx(4.0), "503")


def test_entry_survives_its_way_through_json() -> None:
    book: Book = {}
    window(ask(book, "a", 100.0, POLITE))
    ask(book, "b", 101.0, POLITE)
    entry = book["host:a"]
    assert msgspec.json.decode(msgspec.json.encode(entry), type=LedgerEntry) == entry
    assert entry.over_at >= 100.0 + USER_S


def test_return_of_what_is_not_held_changes_no_other_window() -> None:
    book: Book = {}
    window(ask(book, "a", 100.0, POLITE))
    after = returned(book["host:a"], Return(key="host:a"), "b", 101.0)
    assert after.holds == book["host:a"].holds


HOSTS = ("host:0", "host:1", "host:2")
ADDRESS = "address:1"
AT_ONCE = 4


class Engine:
    """Uses its windows as greedily as it may; some of its requests are slow."""

    def __init__(self, name: str, site: "Site", wants: tuple[WindowRequest, ...]) -> None:
        self.name, self.site, self.wants = name, site, wants
        self.windows: dict[str, tuple[float, float, float, int]] = {}
        self.last: dict[str, float] = {}
        self.in_flight: dict[str, int] = defaultdict(int)
        self.stopped_until = 0.0
        self.owing: set[str] = set()
        """Keys whose window is over, and requests under way."""

    def work(self, now: float, chance: random.Random) -> None:
        for want in chance.sample(self.wants, len(self.wants)):
            keys = [terms.key for terms in want.keys]
            if all(self._may(key, now) for key in keys):
                for key in keys:
                    self.last[key] = now
                    self.in_flight[key] += 1
                    self.site.start(key, self.name, now, self.windows[key][2])
                self.site.land_later(now, self, want.host)

    def talk(self, book: Book, now: float) -> None:
        over = [key for key, (_, end, _, _) in self.windows.items() if end <= now]
        over += [key for key in self.owing if not self.in_flight[key]]
        self.owing = {key for key in self.owing | {*over} if self.in_flight[key]}
        returns = tuple(
            Return(
                key=key,
                started_ago_s=now - self.last[key] if key in self.last else None,
                in_flight=self.in_flight[key],
            )
            for key in over
        )
        message = LedgerRequest(wants=self.wants, returns=returns, longest_s=25.0)
        changes, told = exchange(
            book, message, name=self.name, now=now, born=OLD, living=lambda _: True
        )
        book |= changes
        for key in over:
            self.windows.pop(key, None)
        for each in told.windows:
            self.owing.discard(each.key)
            starts_at, ends_at = now + each.start_in_s, now + each.end_in_s
            self.windows[each.key] = starts_at, ends_at, each.delay_s, each.permits

    def _may(self, key: str, now: float) -> bool:
        start, end, delay_s, permits = self.windows.get(key, (0.0, 0.0, 0.0, 0))
        rested = now >= self.last.get(key, OLD) + delay_s
        return start <= now < end and rested and self.in_flight[key] < permits


class Site:
    """Sees every request, and minds."""

    def __init__(self, concurrency: int, chance: random.Random) -> None:
        self._most = dict.fromkeys(HOSTS, concurrency) | {ADDRESS: AT_ONCE}
        self._chance = chance
        self._flying: dict[str, int] = defaultdict(int)
        self._landings: list[tuple[float, int, Engine, str]] = []
        self._count = 0
        self.starts: dict[str, list[tuple[float, str]]] = defaultdict(list)

    def start(self, key: str, name: str, now: float, delay_s: float) -> None:
        if self.starts[key]:
            assert now - self.starts[key][-1][0] >= delay_s - 1e-6, key
        self.starts[key].append((now, name))
        self._flying[key] += 1
        assert self._flying[key] <= self._most[key], key

    def land_later(self, now: float, engine: Engine, host: str) -> None:
        took_s = self._chance.choice([0.05, 0.2, 3.0])
        self._count += 1
        heapq.heappush(self._landings, (now + took_s, self._count, engine, host))

    def land(self, now: float) -> None:
        while self._landings and self._landings[0][0] <= now:
            _, _, engine, host = heapq.heappop(self._landings)
            for key in (host, ADDRESS):
                self._flying[key] -= 1
                engine.in_flight[key] -= 1


@given(
    seed=st.integers(0, 2**32),
    engines=st.integers(2, 4),
    delays=st.tuples(st.sampled_from([0.0, 0.3, 1.0]), st.sampled_from([0.0, 0.1, 0.5])),
    concurrency=st.integers(1, 3),
)
@settings(max_examples=300 if os.environ.get("CRAWLFLEET_SOAK") else 10)
@pytest.mark.slow
def test_no_key_is_asked_too_often_or_too_much_at_once(
    seed: int, engines: int, delays: tuple[float, float], concurrency: int
) -> None:
    """Whatever is slow or stopped; and nobody waits for ever who is not in the way himself."""
    site = simulate(seed, engines, delays, concurrency, stops=0.001)
    assert len({name for _, name in site.starts[ADDRESS]}) == engines
    site = simulate(seed, engines, delays, concurrency, stops=0.0)
    for host in HOSTS:
        assert len({name for _, name in site.starts[host]}) == engines, host


def simulate(
    seed: int,
    engines: int,
    delays: tuple[float, float],
    concurrency: int,
    stops: float,
) -> Site:
    chance = random.Random(seed)
    site, book = Site(concurrency, chance), {}
    wants = tuple(
        WindowRequest(
            host=host,
            keys=(Terms(host, delays[0], concurrency), Terms(ADDRESS, delays[1], AT_ONCE)),
        )
        for host in HOSTS
    )
    crowd = [Engine(f"e{n}", site, wants) for n in range(engines)]
    for tick in range(1, 1500):
        now = tick * 0.1
        site.land(now)
        for engine in crowd:
            if now < engine.stopped_until:
                continue
            if chance.random() < stops:
                engine.stopped_until = now + chance.uniform(1.0, 20.0)
                continue
            engine.work(now, chance)
            if chance.random() < 0.3:
                engine.talk(book, now)
    return site
