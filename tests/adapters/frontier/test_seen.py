"""Which URLs are known: exactly, or with fewer errors than promised."""

import random

import numpy as np
import pytest

from crawlfleet.adapters.frontier.fingerprint_table import NEW, ExactSeen
from crawlfleet.adapters.frontier.lookup import look_up
from crawlfleet.adapters.frontier.packing import (
    deeper_than,
    depth_of,
    host_range,
    known_at,
    place_of,
    queue_key,
)
from crawlfleet.adapters.frontier.seen import BloomSeen, FewSeen
from crawlfleet.model.crawl.frontier import Link, Visit
from crawlfleet.model.crawl.parameters import Outcome

PROMISED = 1e-4


def signed(id: int) -> int:
    return id - 2**64 if id >= 2**63 else id


def fingerprints(seed: int, count: int) -> list[int]:
    chance = random.Random(seed)
    return [chance.getrandbits(64) for _ in range(count)]


def test_exact_map_knows_what_was_put_there_and_nothing_else() -> None:
    seen = ExactSeen(100)
    # The last ones all want the same few cells.
    alike = [number << 40 | 7 for number in range(1, 300)]
    ids = [0, 1, 2, 2**63, 2**64 - 1, *fingerprints(1, 20_000), *alike]
    others = fingerprints(2, 20_000)
    expected = {}
    for start in range(0, len(ids), 371):
        new = {id: known_at(start % 9, start + n) for n, id in enumerate(ids[start : start + 371])}
        assert all(seen[id] is None for id in new)
        assert (seen.find(np.array(list(new), np.uint64)) == NEW).all()
        fallen = {id: known - 1 for id, known in list(expected.items())[start::7]}
        seen.update({signed(id): known for id, known in (new | fallen).items()})
        expected |= new | fallen
        assert len(seen) == len(expected)
    assert seen.find(np.array(ids, np.uint64)).tolist() == [expected[id] for id in ids]
    assert [seen[id] for id in ids] == [expected[id] for id in ids]
    assert (seen.find(np.array(others, np.uint64)) == NEW).all()
    assert all(seen[id] is None for id in others)


def test_exact_map_takes_at_most_54_bytes_for_a_url() -> None:
    seen = ExactSeen(0)
    chance = np.random.default_rng(1)
    for _ in range(60):
        ids = chance.integers(1, 2**64, 5000, np.uint64)
        seen.put(ids, ids >> np.uint64(20))
        assert seen.size_bytes / len(seen) < 54
    assert len(seen) == 300_000


@pytest.mark.parametrize("store", [False, True])
def test_many_links_are_looked_up_as_few_are(store: bool) -> None:
    chance = random.Random(8)
    ids = [signed(id) for id in fingerprints(9, 400)]
    known = {id: known_at(chance.randrange(6), place) for place, id in enumerate(ids[:300])}
    few, many = FewSeen(known), ExactSeen(0)
    many.update(known)
    for _ in range(50):
        pages = chance.sample(ids[:300], chance.randrange(1, 20))
        visits = [
            Visit(
                page,
                Outcome.OK,
                200,
                0.0,
                [Link(id, "", "") for id in chance.choices(ids, k=chance.randrange(20))],
            )
            for page in pages
        ]
        depths = chance.choice([None, [chance.randrange(6) for _ in pages]])
        assert look_up(few, visits, depths, store=store) == look_up(
            many, visits, depths, store=store
        )


@pytest.mark.parametrize(
    ("capacity", "count"), [(100_000, 100_000), (20_000, 300_000)], ids=["full", "15 times over"]
)
def test_bloom_errs_less_than_promised_at_and_beyond_its_size(capacity: int, count: int) -> None:
    seen = BloomSeen(capacity)
    ids = fingerprints(3, count)
    seen.add(ids)
    assert all(seen[id] == 0 for id in ids)
    trials = 400_000
    errors = sum(seen[id] is not None for id in fingerprints(4, trials)) / trials
    assert errors < PROMISED
    # What it says of itself is what is measured, but for chance: some 25 errors are expected.
    assert 0.4 * seen.error < errors < 2.0 * seen.error
    assert seen.error < PROMISED
    assert len(seen) == count
    assert seen.size_bytes / count < 4.5


def test_bloom_that_is_almost_empty_makes_almost_no_errors() -> None:
    seen = BloomSeen(10_000)
    assert seen.error == 0.0
    seen.add([5])
    assert seen.error < 1e-12


def test_bloom_errors_stay_bounded_however_far_it_grows() -> None:
    seen = BloomSeen(1000)
    for stage in range(20):
        seen.stages[-1].held = seen.stages[-1].capacity
        assert seen.error < PROMISED
        if stage < 9:
            seen.add([stage])
    assert len(seen.stages) == 10


def test_saved_bloom_goes_on_where_it_was() -> None:
    seen = BloomSeen(1000)
    ids = fingerprints(5, 4000)
    seen.add(ids[:3500])
    saved = [(stage.capacity, stage.held, stage.bloom.save_bytes()) for stage in seen.stages]
    again = BloomSeen(1000, saved)
    seen.add(ids[3500:])
    again.add(ids[3500:])
    assert [stage.held for stage in again.stages] == [stage.held for stage in seen.stages]
    assert again.error == seen.error
    assert all(again[id] == 0 for id in ids)
    probes = fingerprints(6, 20_000)
    assert [again[id] for id in probes] == [seen[id] for id in probes]


def test_keys_sort_by_host_then_priority_then_discovery() -> None:
    chance = random.Random(7)
    parts = [
        (chance.randrange(5), chance.randrange(-128, 128), chance.randrange(2**31))
        for _ in range(500)
    ]
    by_key = sorted(parts, key=lambda part: queue_key(*part))
    assert by_key == sorted(parts, key=lambda part: (part[0], -part[1], part[2]))
    for host, priority, place in parts:
        first, end = host_range(host)
        assert first <= queue_key(host, priority, place) < end
    assert queue_key(2**24 - 1, -1000, 2**31 - 1) == 2**63 - 1
    assert queue_key(1, 1000, 1) == queue_key(1, 127, 1)


def test_depth_is_compared_without_taking_it_apart() -> None:
    for depth in (0, 1, 7, 1000):
        known = known_at(depth, 2**31 - 1)
        assert (depth_of(known), place_of(known)) == (depth, 2**31 - 1)
        for other in (0, 1, 6, 7, 8, 1001):
            assert (known >= deeper_than(other)) == (depth > other)


def test_a_filter_says_once_of_each_stage_that_it_is_nearly_full() -> None:
    seen = BloomSeen(1000)
    said = []
    for number, id in enumerate(fingerprints(5, 4000), 1):
        seen.add([id])
        if seen.is_nearly_full():
            said.append(number)
    assert said == [900, 1000 + 1800]
