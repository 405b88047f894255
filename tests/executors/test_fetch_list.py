"""A list of URLs: each host at its own pace, each URL with its own outcome, all in one result."""

import asyncio
import itertools
from collections import Counter, defaultdict
from typing import Any, ClassVar

import msgspec
import pytest

from crawlfleet.crawl.fetch.dial import AddressRefused, NetworkTrouble
from crawlfleet.executors.fetch_list import AT_ONCE, FetchedList, FetchedPage, ListFetch
from crawlfleet.executors.http_fetch import (
    BODY_LIMIT,
    MAX_URL_BYTES,
    MAX_URLS,
    BadRequest,
    HttpFetch,
    HttpFetchParameters,
)
from crawlfleet.testing.simulation.clock import run_simulated


class Told:
    task_id, attempt = "task-1", 1
    secrets: ClassVar = {}

    def __init__(self) -> None:
        self.progressed: list[tuple[float, float | None]] = []

    async def log(self, message: str, **fields: object) -> None: ...

    async def progress(self, done: float, total: float | None = None) -> None:
        self.progressed.append((done, total))


class Web:
    """Sites that take their time, and remember who asked when."""

    def __init__(self, *, takes_s: float = 0.2, body: str = "", **headers: str) -> None:
        self.takes_s = takes_s
        self.body = body
        self.headers = headers
        self.starts: dict[str, list[float]] = defaultdict(list)
        self.at_once: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.tries: Counter[str] = Counter()
        self.troubles: dict[str, list[Exception]] = {}

    async def __call__(self, url: str, most: int) -> FetchedPage:
        host = url.split("/")[2]
        self.tries[url] += 1
        self.starts[host].append(asyncio.get_running_loop().time())
        for name in (host, "all"):
            self.at_once[name] += 1
            self.most[name] = max(self.most[name], self.at_once[name])
        await asyncio.sleep(self.takes_s)
        for name in (host, "all"):
            self.at_once[name] -= 1
        if self.troubles.get(url):
            raise self.troubles[url].pop(0)
        body = self.body[:most]
        return FetchedPage(
            url=f"{url}end" if "redirect" in url else url,
            status=200,
            headers=self.headers,
            bytes=len(body),
            truncated=len(body) < len(self.body),
            elapsed_s=0.25,
            body=body,
        )


def run(web: Web, urls: list[str], **options: Any) -> tuple[FetchedList, dict[str, float], Told]:
    options = {"delay_s": 0.0, "concurrency": 1, "retries": 1, **options}
    told = Told()
    listed = ListFetch(urls, web, most_bytes=BODY_LIMIT, **options)

    async def scene() -> Any:
        return await listed.run(told)

    measured = run_simulated(scene())
    return measured.data, dict(measured.metrics), told


def urls_of(hosts: int, each: int) -> list[str]:
    return [f"https://h{host}.example/{n}" for n in range(each) for host in range(hosts)]


def test_every_url_has_its_own_outcome_in_the_order_of_the_list() -> None:
    web = Web(body="hello")
    web.troubles = {
        "https://b.example/": [NetworkTrouble("no route")] * 9,
        "https://c.example/": [AddressRefused("private")],
    }
    asked = ["https://d.example/", "https://b.example/", "nonsense", "https://c.example/"]
    data, metrics, _ = run(web, [*asked, "https://a.example/redirect", asked[0]])
    assert [(page.url, page.body, page.ended_at) for page in data.pages] == [
        ("https://d.example/", "hello", None),
        ("https://a.example/redirect", "hello", "https://a.example/redirectend"),
    ]
    assert [(each.url, str(each.error_class)) for each in data.errors] == [
        ("https://b.example/", "network"),
        ("nonsense", "invalid"),
        ("https://c.example/", "invalid"),
    ]
    assert (data.urls, data.fetched, data.failed) == (5, 2, 3)
    assert metrics == {"urls": 5, "fetched": 2, "failed": 3, "data_size": 10}


def test_a_url_without_an_answer_is_tried_again_after_the_others_of_its_host() -> None:
    web = Web()
    web.troubles = {"https://h0.example/0": [NetworkTrouble("broke off")]}
    data, _, _ = run(web, urls_of(1, 3), retries=2)
    assert data.fetched == 3
    assert next(iter(web.tries.items())) == ("https://h0.example/0", 2)
    web.troubles = {"https://h0.example/0": [NetworkTrouble("broke off")] * 9}
    data, _, _ = run(web, urls_of(1, 3), retries=2)
    assert data.failed == 1
    assert web.tries["https://h0.example/0"] == 2 + 3


@pytest.mark.parametrize(("delay_s", "concurrency"), [(1.0, 1), (0.1, 4), (0.0, 3), (2.0, 8)])
def test_a_host_is_asked_no_faster_than_agreed(delay_s: float, concurrency: int) -> None:
    web = Web(takes_s=0.7)
    run(web, urls_of(50, 6), delay_s=delay_s, concurrency=concurrency)
    assert web.most.pop("all") <= AT_ONCE
    assert max(web.most.values()) <= concurrency
    for starts in web.starts.values():
        assert len(starts) == 6
        between = [later - earlier for earlier, later in itertools.pairwise(starts)]
        assert min(between) >= delay_s - 1e-9


def test_hosts_do_not_wait_for_each_other() -> None:
    web = Web(takes_s=0.5)
    run(web, urls_of(10, 3), delay_s=1.0)
    assert max(starts[-1] for starts in web.starts.values()) < 4.0


@pytest.mark.slow
def test_the_result_fits_however_much_comes_back() -> None:
    web = Web(body="x" * 100_000, **{f"header-{n}": "y" * 50 for n in range(40)})
    for number in (1, 30, 1000, MAX_URLS):
        urls = [f"https://h{n}.example/{'z' * 60}redirect" for n in range(number)]
        data, _, _ = run(web, urls)
        assert data.fetched == number
        assert len(msgspec.json.encode(data)) < 1_000_000
    assert not data.pages[0].headers
    assert data.pages[0].truncated


@pytest.mark.slow
def test_long_complaints_fit_too() -> None:
    web = Web()
    urls = [f"https://h{n}.example/{'z' * 79}" for n in range(MAX_URLS)]
    web.troubles = {url: [AddressRefused("why " * 500)] for url in urls}
    data, _, _ = run(web, urls)
    assert data.failed == MAX_URLS
    assert len(msgspec.json.encode(data)) < 1_000_000


def test_progress_is_told_now_and_then() -> None:
    told = run(Web(), urls_of(1, 20), delay_s=1.0)[2]
    assert told.progressed[0] == (0, 20)
    assert told.progressed[-1] == (20, 20)
    assert len(told.progressed) > 5


def parameters(**fields: Any) -> HttpFetchParameters:
    return msgspec.json.decode(msgspec.json.encode(fields), type=HttpFetchParameters)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "one of the two"),
        ({"url": "https://a.example/", "urls": ["https://b.example/"]}, "one of the two"),
        ({"urls": ["x" * (MAX_URL_BYTES + 1)]}, "400,000 bytes"),
        ({"urls": [str(n) for n in range(MAX_URLS + 1)]}, "length"),
        ({"urls": ["https://a.example/"], "shards": 257}, "256"),
        ({"urls": ["https://a.example/"], "delay_s": -1}, "delay_s"),
    ],
)
def test_a_list_that_cannot_be_taken_is_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=words):
        parameters(**fields)


def test_headers_that_cannot_be_sent_fail_the_whole() -> None:
    wanted = parameters(urls=["https://a.example/"], headers={"X-A": "b\r\nX-C: d"})
    with pytest.raises(BadRequest, match="headers"):
        asyncio.run(HttpFetch(allow_private=True).run(wanted, Told()))
