"""The fetcher in the zoo: every animal comes to its outcome, in time, and costs no memory."""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Iterator

import psutil
import pytest
import uvloop

from crawlfleet.crawl.fetch.dns import Addresses, Names
from crawlfleet.crawl.fetch.fetcher import Fetcher
from crawlfleet.crawl.fetch.messages import Fetched, FetchRequest
from crawlfleet.model.crawl.parameters import Fetching, Limits, Outcome
from crawlfleet.testing.zoo import ANIMALS, Animal, Zoo, open_zoo

LIMITS = Limits(connect_s=2.0, first_byte_s=1.5, idle_s=1.0, total_s=4.0)
"""For those who try one's patience."""
GENEROUS = Limits(connect_s=20.0, first_byte_s=20.0, idle_s=20.0, total_s=60.0)
"""For all others: a busy machine is none of their misbehaviour."""
MAX_BODY_BYTES = 1_000_000
GROWTH_BYTES = 80_000_000
"""Far less than one bomb (200 MB) or one large page (100 MB) weighs."""

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("zoo")]


class Tour:
    """One visit to everyone."""

    def __init__(self) -> None:
        self.pages: dict[str, Fetched] = {}
        self.seconds: dict[str, float] = {}
        self.growth = 0
        self.left_open = 0


@pytest.fixture(scope="module")
def zoo() -> Iterator[Zoo]:
    with open_zoo() as zoo:
        yield zoo


@pytest.fixture(scope="module", params=["asyncio", "uvloop"])
def tour(request: pytest.FixtureRequest, zoo: Zoo) -> Tour:
    tour = Tour()
    runner = uvloop.run if request.param == "uvloop" else asyncio.run
    process = psutil.Process()
    before, peak, over = process.memory_info().rss, [0], threading.Event()
    sockets = len(process.net_connections())

    def weigh() -> None:
        while not over.wait(0.01):
            peak[0] = max(peak[0], process.memory_info().rss)

    async def visit(fetcher: Fetcher, animal: Animal) -> None:
        began = time.monotonic()
        wanted = FetchRequest(
            url=zoo.url(animal),
            content_types=LIMITS.content_types,
            max_body_bytes=MAX_BODY_BYTES,
        )
        tour.pages[animal.name] = await fetcher.fetch(wanted)
        tour.seconds[animal.name] = time.monotonic() - began

    async def visit_all() -> None:
        def fetcher(limits: Limits) -> Fetcher:
            return Fetcher(
                limits=limits,
                fetching=Fetching(),
                allow_private=True,
                tls=zoo.certificates.client_context(),
            )

        async with fetcher(LIMITS) as hasty, fetcher(GENEROUS) as calm:
            # The patient ones together; of the others a few at once, as they take CPU, not time.
            few = asyncio.Semaphore(8)

            async def visit_in_turn(animal: Animal) -> None:
                async with few:
                    await visit(calm, animal)

            async with asyncio.TaskGroup() as group:
                for animal in ANIMALS:
                    go = visit(hasty, animal) if animal.slow else visit_in_turn(animal)
                    group.create_task(go)

    scale = threading.Thread(target=weigh)
    scale.start()
    try:
        runner(visit_all())
    finally:
        over.set()
        scale.join()
    tour.growth = peak[0] - before
    until = time.monotonic() + 20
    while len(process.net_connections()) > sockets and time.monotonic() < until:
        time.sleep(0.05)  # the zoo's side closes when it notices
    tour.left_open = len(process.net_connections()) - sockets
    return tour


@pytest.mark.parametrize("animal", ANIMALS, ids=lambda animal: animal.name)
def test_every_animal_comes_to_its_outcome(tour: Tour, animal: Animal) -> None:
    page = tour.pages[animal.name]

    assert page.outcome == animal.outcome, page.reason
    assert len(page.body) <= MAX_BODY_BYTES
    if animal.body is not None:
        assert page.body == animal.body
    if page.outcome not in {Outcome.OK, Outcome.REDIRECT}:
        assert page.reason


def test_nobody_takes_longer_than_the_limits_say(tour: Tour) -> None:
    allowed_s = LIMITS.connect_s + LIMITS.total_s + 10  # a busy machine

    assert max(tour.seconds[animal.name] for animal in ANIMALS if animal.slow) < allowed_s


def test_the_memory_stays_bounded(tour: Tour) -> None:
    assert tour.growth < GROWTH_BYTES


def test_no_connection_is_left_open(tour: Tour) -> None:
    assert tour.left_open <= 0


@pytest.mark.parametrize("kind", ["self-signed", "expired", "wrong-host"])
def test_certificates_can_be_passed_over(zoo: Zoo, kind: str) -> None:
    async def scenario() -> Fetched:
        fetching = Fetching(verify_tls=False)
        async with Fetcher(limits=GENEROUS, fetching=fetching, allow_private=True) as fetcher:
            url = f"https://localhost:{zoo.ports[kind]}/plain"
            return await fetcher.fetch(FetchRequest(url=url))

    assert asyncio.run(scenario()).outcome is Outcome.OK


def test_the_root_dot_of_a_name_is_no_part_of_its_certificate(zoo: Zoo) -> None:
    class Book:
        async def look_up(self, host: str) -> Addresses:
            return Addresses(("127.0.0.1",), 60.0)

        async def close(self) -> None: ...

    async def scenario() -> Fetched:
        async with Fetcher(
            limits=GENEROUS,
            fetching=Fetching(),
            allow_private=True,
            names=Names(Book()),
            tls=zoo.certificates.client_context(),
        ) as fetcher:
            url = f"https://localhost.:{zoo.ports['good']}/plain"
            return await fetcher.fetch(FetchRequest(url=url))

    assert asyncio.run(scenario()).outcome is Outcome.OK


def test_the_zoo_is_large_and_nobody_is_there_twice() -> None:
    assert max(Counter(animal.name for animal in ANIMALS).values()) == 1
    assert len(ANIMALS) >= 100
