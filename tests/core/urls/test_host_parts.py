"""Hosts in parts: where a URL belongs, what each part may do, and which crawls have any."""

from collections import Counter
from typing import Any

import pytest

from crawlfleet.core.urls.canonical import fingerprint
from crawlfleet.core.urls.host_parts import at_once, host_of, parts_for, queue_of
from crawlfleet.model.crawl.parameters import FAST, Politeness

HOST = "https://shop.example:8443"


def test_whole_host_is_its_own_queue() -> None:
    assert queue_of(HOST, 12345, 1) == HOST
    assert host_of(HOST) == HOST
    assert at_once(HOST, 16, 1) == 16


def test_urls_are_spread_evenly_and_each_has_its_place() -> None:
    ids = [fingerprint(f"{HOST}/page/{number}") for number in range(4000)]
    places = [queue_of(HOST, id, 8) for id in ids]
    assert places == [queue_of(HOST, id, 8) for id in ids]
    counts = Counter(places)
    assert len(counts) == 8
    assert min(counts.values()) > 400
    assert {host_of(place) for place in places} == {HOST}


@pytest.mark.parametrize(("concurrency", "parts"), [(16, 16), (16, 5), (7, 3), (2, 2), (1000, 12)])
def test_parts_have_together_what_the_host_has(concurrency: int, parts: int) -> None:
    each = [at_once(queue_of(HOST, id, parts), concurrency, parts) for id in range(parts)]
    assert sum(each) == concurrency
    assert max(each) - min(each) <= 1
    assert min(each) >= 1


def parts(**given: Any) -> int:
    asked: dict[str, Any] = {
        "seeds": [HOST],
        "within": "host",
        "workers": 4,
        "politeness": FAST,
        "max_per_host": None,
        "most": None,
    }
    return parts_for(**asked | given)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, 16),
        ({"workers": 2}, 8),
        ({"politeness": Politeness(delay_s=0.0, concurrency=3)}, 3),
        ({"most": 5}, 5),
        ({"most": 100}, 16),
        ({"most": 1}, 1),
        ({"workers": 1}, 1),
        ({"workers": 1, "most": 8}, 1),
        # One request follows another, whoever makes them.
        ({"politeness": Politeness(concurrency=8)}, 1),
        ({"politeness": Politeness(concurrency=8), "most": 4}, 1),
        ({"politeness": Politeness(delay_s=0.0, concurrency=1)}, 1),
        ({"max_per_host": 100}, 1),
        # Enough hosts for everybody, or soon to be found.
        ({"within": "any"}, 1),
        ({"within": "any", "most": 4}, 4),
        ({"within": "domain"}, 16),
        ({"seeds": [f"https://h{number}.example/" for number in range(4)]}, 1),
        ({"seeds": [f"https://h{number}.example/" for number in range(3)]}, 16),
        ({"seeds": [f"{HOST}/{number}" for number in range(9)]}, 16),
        ({"seeds": ["not an address", HOST]}, 16),
    ],
)
def test_hosts_are_split_where_that_helps(given: dict[str, Any], expected: int) -> None:
    assert parts(**given) == expected
