"""Work is spread fairly, and little of it moves when workers come and go."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawlfleet.core.tasks.rendezvous import SLACK, room_of, split_by_host, spread

NAMES = st.sets(st.text(min_size=1, max_size=12), min_size=1, max_size=60)
WORKERS = st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=12, unique=True)


@given(parts=NAMES, workers=WORKERS)
@settings(deadline=None)
def test_nobody_gets_more_than_the_bound(parts: set[str], workers: list[str]) -> None:
    placed = spread(dict.fromkeys(parts, 1.0), workers)
    assert placed.keys() == parts
    most = max(Counter(placed.values()).values())
    assert most <= room_of(len(parts), len(workers))


@given(
    parts=st.dictionaries(st.text(max_size=8), st.integers(1, 1000), min_size=1, max_size=60),
    workers=WORKERS,
)
@settings(deadline=None)
def test_heavy_parts_exceed_the_mean_by_themselves_alone(
    parts: dict[str, float], workers: list[str]
) -> None:
    placed = spread(parts, workers)
    mean = sum(parts.values()) / len(workers)
    for worker in workers:
        mine = [parts[name] for name, owner in placed.items() if owner == worker]
        assert sum(mine) <= max(
            room_of(sum(parts.values()), len(workers)), mean + max(mine, default=0)
        )


@given(parts=NAMES, workers=WORKERS, chance=st.randoms())
@settings(deadline=None)
def test_everybody_comes_to_the_same_answer(
    parts: set[str], workers: list[str], chance: object
) -> None:
    shuffled = sorted(parts, reverse=True)
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    placed = spread(dict.fromkeys(parts, 1.0), workers)
    assert spread(dict.fromkeys(shuffled, 1.0), workers[::-1]) == placed


@pytest.mark.parametrize(("parts", "workers"), [(64, 4), (256, 8), (1000, 10), (500, 25)])
def test_about_one_part_in_n_moves_when_a_worker_comes_or_goes(parts: int, workers: int) -> None:
    moved = 0
    for world in range(10):
        weights = {f"{world} part {number}": 1.0 for number in range(parts)}
        names = [f"{world} worker {number}" for number in range(workers)]
        fewer, more = spread(weights, names[:-1]), spread(weights, names)
        changed = [part for part in weights if fewer[part] != more[part]]
        moved += len(changed)
        assert len(changed) <= 2 * parts / workers
    assert moved / 10 <= 1.3 * parts / workers


def test_what_is_related_by_name_is_not_related_in_place() -> None:
    weights = {f"host-{number}": 1.0 for number in range(4000)}
    counts = Counter(spread(weights, [f"w{number}" for number in range(20)], slack=9.0).values())
    assert len(counts) == 20
    assert max(counts.values()) < 1.35 * 200
    assert min(counts.values()) > 0.65 * 200


def test_without_workers_or_parts_nothing_is_placed() -> None:
    assert spread({}, ["a"]) == {}
    assert spread({"x": 1.0}, []) == {}


URLS = [f"https://h{number % 37}.example/{number}" for number in range(1000)]


def test_each_host_is_in_one_list_and_all_are_about_as_long() -> None:
    lists = split_by_host(URLS, 4)
    assert sorted(url for part in lists for url in part) == sorted(URLS)
    hosts = [{url.split("/")[2] for url in part} for part in lists]
    assert sum(map(len, hosts)) == 37
    assert max(map(len, lists)) <= (1 + SLACK) * 250 + 1


@given(
    urls=st.lists(st.sampled_from([*URLS, "no address", "https://H1.example:443/x"])),
    shards=st.integers(1, 20),
    most_parts=st.integers(1, 8),
)
@settings(deadline=None)
def test_every_url_is_there_once(urls: list[str], shards: int, most_parts: int) -> None:
    lists = split_by_host(urls, shards, most_parts=most_parts)
    assert sorted(url for part in lists for url in part) == sorted(set(urls))
    assert all(lists)
    assert len(lists) <= shards
    for part in lists:
        assert part == [url for url in dict.fromkeys(urls) if url in part]


def test_spellings_of_one_host_stay_together() -> None:
    urls = [
        f"https://{name}/{n}" for n in range(9) for name in ("Shop.example:443", "shop.example")
    ]
    assert len(split_by_host(urls, 4)) == 1


def test_a_big_host_is_cut_only_where_it_may_be() -> None:
    urls = [f"https://big.example/{number}" for number in range(100)]
    assert len(split_by_host(urls, 4)) == 1
    assert [len(part) for part in split_by_host(urls, 4, most_parts=2)] == [50, 50]
    assert [len(part) for part in split_by_host(urls, 4, most_parts=16)] == [25, 25, 25, 25]
