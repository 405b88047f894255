"""Parameters of shards: together they are those of the whole, and as polite."""

from typing import Any

import msgspec
import pytest

from crawlfleet.core.tasks import split


def divided(task_type: str, **parameters: Any) -> list[dict[str, Any]]:
    raw = msgspec.Raw(msgspec.json.encode(parameters))
    found = split.divide(task_type, raw, split.RULES)
    return [msgspec.json.decode(part) for part in found]


MANY = [f"https://h{number}.example/" for number in range(40)]


def test_a_list_is_split_by_host_and_keeps_the_rest() -> None:
    parts = divided("http_fetch", urls=MANY, shards=4, headers={"X-A": "1"}, concurrency=3)
    assert len(parts) == 4
    assert sorted(url for part in parts for url in part["urls"]) == sorted(MANY)
    for part in parts:
        assert {name: part[name] for name in part if name != "urls"} == {
            "headers": {"X-A": "1"},
            "concurrency": 3,
        }


def test_a_host_with_a_pause_stays_in_one_piece() -> None:
    urls = [f"https://one.example/{number}" for number in range(40)]
    assert divided("http_fetch", urls=urls, shards=4, concurrency=8) == []


@pytest.mark.parametrize(("concurrency", "shards", "each"), [(8, 4, 2), (2, 4, 1), (7, 3, 2)])
def test_shards_of_one_host_share_its_requests_at_once(
    concurrency: int, shards: int, each: int
) -> None:
    urls = [f"https://one.example/{number}" for number in range(40)]
    parts = divided("http_fetch", urls=urls, shards=shards, delay_s=0, concurrency=concurrency)
    assert len(parts) == min(shards, concurrency)
    assert {part["concurrency"] for part in parts} == {each}
    assert sum(part["concurrency"] for part in parts) <= concurrency


@pytest.mark.parametrize(
    "parameters",
    [
        {"url": "https://a.example/", "shards": 4},
        {"urls": MANY},
        {"urls": MANY, "shards": 1},
        {"urls": MANY[:1], "shards": 9},
    ],
)
def test_what_has_nothing_to_share_stays_whole(parameters: dict[str, Any]) -> None:
    assert divided("http_fetch", **parameters) == []


def test_other_types_stay_whole() -> None:
    assert divided("sleep", shards=4, seconds=1) == []


def test_a_crawl_is_split_among_workers_that_know_how_many_they_are() -> None:
    whole = {"url": "https://a.example/", "workers": 3, "depth": 1}
    assert divided("web_crawl", **whole) == [whole] * 3
    assert divided("web_crawl", url="https://a.example/", workers=1) == []
    assert divided("web_crawl", **whole, sinks=[{"url": "fleet:pages"}]) != []


@pytest.mark.parametrize(
    "fields", [{"frontier": "node"}, {"sinks": [{"url": "fleet:items"}, {"url": "/data/x.jsonl"}]}]
)
def test_a_crawl_whose_books_or_output_are_on_a_node_stays_there(fields: dict[str, Any]) -> None:
    assert divided("web_crawl", url="https://a.example/", workers=3, **fields) == []


FAST = {"delay_s": 0, "concurrency": 6}


def test_how_many_parts_a_host_has_is_settled_for_all_shards() -> None:
    whole = {"url": "https://a.example/", "workers": 3, "politeness": FAST}
    assert divided("web_crawl", **whole) == [{**whole, "split_hosts": 6}] * 3
    assert divided("web_crawl", **whole, split_hosts=2) == [{**whole, "split_hosts": 2}] * 3
    assert divided("web_crawl", **whole, split_hosts=1) == [{**whole, "split_hosts": 1}] * 3
    spread = {**whole, "scope": {"within": "any"}}
    assert divided("web_crawl", **spread) == [spread] * 3
    assert divided("web_crawl", **spread, split_hosts=9) == [{**spread, "split_hosts": 6}] * 3
    # What the crawl may not do is not left to the shards to find out.
    slow = {**whole, "politeness": {"concurrency": 6}}
    assert divided("web_crawl", **slow, split_hosts=4) == [{**slow, "split_hosts": 1}] * 3


def test_without_a_ledger_no_host_is_split() -> None:
    whole = {"url": "https://a.example/", "workers": 3, "politeness": FAST, "split_hosts": 4}
    raw = msgspec.Raw(msgspec.json.encode(whole))
    parts = split.divide("web_crawl", raw, split.WITHOUT_LEDGER)
    assert [msgspec.json.decode(part)["split_hosts"] for part in parts] == [1, 1, 1]


def test_a_spider_is_whole_in_each_of_its_workers() -> None:
    parts = divided("scrapy_spider", spider="quotes", arguments={"tag": "a"}, workers=3)
    assert len(parts) == 3
    assert parts[0] == parts[1] == parts[2]
    assert parts[0] == {
        "spider": "quotes",
        "arguments": {"tag": "a"},
        "workers": 3,
        "distributed": True,
        "split_hosts": 1,
    }
    assert divided("scrapy_spider", spider="quotes", workers=1) == []
    assert divided("scrapy_spider", spider="quotes", distributed=True) == []


def test_hosts_of_a_spider_are_split_only_where_there_is_a_ledger() -> None:
    raw = msgspec.Raw(b'{"spider":"quotes","workers":2,"split_hosts":8}')
    for rules, parts in ((split.RULES, 8), (split.WITHOUT_LEDGER, 1)):
        found = split.divide("scrapy_spider", raw, rules)
        assert [msgspec.json.decode(part)["split_hosts"] for part in found] == [parts, parts]
