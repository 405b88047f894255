"""The whole zoo as the seeds of one crawl: every animal comes to its end, and so does the crawl."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest

from crawlfleet.core.urls.canonical import Canonicaliser
from crawlfleet.crawl.engine import crawl as run
from crawlfleet.crawl.fetch.dns import Addresses, Names, SystemDirectory
from crawlfleet.crawl.fetch.fetcher import Fetcher
from crawlfleet.model.crawl.parameters import (
    CrawlParameters,
    Limits,
    Outcome,
    Politeness,
    Scope,
    Urls,
)
from crawlfleet.testing.zoo import ANIMALS, Animal, Zoo, open_zoo
from tests.crawl.crawling import POLITE, Crawled, crawl

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("zoo")]

LIMITS = Limits(
    # All animals are visited at once, and a busy machine needs its time for that.
    connect_s=8.0,
    first_byte_s=6.0,
    idle_s=5.0,
    total_s=15.0,
    max_body_bytes=1_000_000,
    max_per_host=25,
    max_redirects=5,
)
GROWTH_BYTES = 150_000_000
"""Far less than the bombs and large pages, which are under way together, would weigh."""
TOGETHER_S = 120.0
canonical = Canonicaliser(Urls()).canonical


class Directory(SystemDirectory):
    """Every animal has a name of its own, so that none suffers for another."""

    async def look_up(self, host: str) -> Addresses:
        if host.endswith(".zoo.example"):
            return Addresses(("127.0.0.1",), 60.0)
        return await super().look_up(host)


def address(zoo: Zoo, animal: Animal) -> str | None:
    """`None` for what is no address of the web: no crawl begins there."""
    url = zoo.url(animal)
    if animal.behave is not None:
        url = f"http://{animal.name}.zoo.example:{zoo.ports['plain']}/{animal.name}"
    return canonical(url)


class Tour:
    def __init__(self, zoo: Zoo, crawled: Crawled, growth: int, seconds: float) -> None:
        self.zoo, self.crawled, self.growth, self.seconds = zoo, crawled, growth, seconds


@pytest.fixture(scope="module", params=["robots.txt obeyed", "not obeyed"])
def tour(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Tour]:
    politeness = Politeness(
        obey_robots=request.param == "robots.txt obeyed",
        delay_s=0.0,
        concurrency=POLITE.concurrency,
        per_domain=None,
        per_address=None,
        adaptive=False,
        retries=0,
    )
    folder: Path = tmp_path_factory.mktemp("zoo")
    patch = pytest.MonkeyPatch()
    with open_zoo() as zoo:

        def fetcher_of(parameters: CrawlParameters, *, allow_private: bool) -> Fetcher:
            return Fetcher(
                limits=parameters.limits,
                fetching=parameters.fetching,
                allow_private=allow_private,
                names=Names(Directory()),
                tls=zoo.certificates.client_context(),
            )

        patch.setattr(run, "fetcher_of", fetcher_of)
        process, peak, over = psutil.Process(), [0], threading.Event()
        before, began = process.memory_info().rss, time.monotonic()

        def weigh() -> None:
            while not over.wait(0.01):
                peak[0] = max(peak[0], process.memory_info().rss)

        scale = threading.Thread(target=weigh)
        scale.start()
        try:
            seeds = [url for animal in ANIMALS if (url := address(zoo, animal))]
            crawled = crawl(
                folder,
                *seeds,
                within_s=2 * TOGETHER_S,
                limits=LIMITS,
                scope=Scope(within="host"),
                politeness=politeness,
            )
        finally:
            over.set()
            scale.join()
            patch.undo()
        yield Tour(zoo, crawled, peak[0] - before, time.monotonic() - began)


def end_of(crawled: Crawled, url: str) -> tuple[str | None, str]:
    """The outcome at the end of the redirects from a URL, and what is said about it."""
    for _ in range(LIMITS.max_redirects + 2):
        record = crawled.record(url)
        assert record is not None, f"{url} was never taken in"
        if record.outcome != Outcome.REDIRECT or not record.note.startswith("to http"):
            return record.outcome, record.note
        url = record.note.removeprefix("to ")
    raise AssertionError("redirects without an end")


def test_every_animal_comes_to_its_end(tour: Tour) -> None:
    wrong = {}
    for animal in ANIMALS:
        if (url := address(tour.zoo, animal)) is None:
            continue
        outcome, note = end_of(tour.crawled, url)
        if outcome != (animal.final or animal.outcome):
            wrong[animal.name] = (outcome, note)
    assert wrong == {}


def test_the_crawl_ends_within_its_limits(tour: Tour) -> None:
    assert tour.crawled.summary.finished
    assert tour.seconds < TOGETHER_S
    hosts = [urlsplit(url).hostname for url in tour.crawled.parameters.urls]
    assert tour.crawled.summary.urls <= LIMITS.max_per_host * (len(hosts) + 1)


def test_the_memory_stays_bounded(tour: Tour) -> None:
    assert tour.growth < GROWTH_BYTES
