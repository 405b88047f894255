"""The `web_crawl` executor: the suite of all executors, and crawls of the demo shop."""

import asyncio
import json
import math
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar
from uuid import uuid4

import pytest

from crawlfleet.adapters.files.output import OutputFolder
from crawlfleet.crawl.engine.crawl import CrawlProgress, CrawlRun
from crawlfleet.errors import ConfigError, SinkUnusable, StoreUnavailable
from crawlfleet.executors import web_crawl
from crawlfleet.executors.web_crawl import BadCrawl, Inline, NothingFetched, TooMuch, WebCrawl
from crawlfleet.model.crawl.extraction import Item
from crawlfleet.model.crawl.frontier import UrlRecord
from crawlfleet.model.crawl.parameters import (
    CrawlParameters,
    Fetching,
    Limits,
    Politeness,
    Scope,
    SinkSpec,
)
from crawlfleet.model.settings import WorkerSettings
from crawlfleet.model.task import ErrorClass
from crawlfleet.model.wire.output import Segment
from crawlfleet.ports.execution import Measured
from crawlfleet.ports.sink import PageRecord
from crawlfleet.testing.demo_shop import PRODUCTS, ServedShop
from crawlfleet.testing.executor_suite import ExecutorSuite

pytestmark = pytest.mark.slow

SELECTORS = {"product": "div.product", "title": "h2.title", "price": "span.price"}


class TestWebCrawl(ExecutorSuite):
    task_type = "web_crawl"
    settings = WorkerSettings(allow_private=True)
    bad = {"url": "http://127.0.0.1:9/", "depth": -1}  # noqa: RUF012
    endless = {  # noqa: RUF012
        "url": "http://127.0.0.1:9/",
        "politeness": {"retries": 50, "retry_delay_s": 100},
        "fetching": {"allow_private": True},
    }

    @pytest.fixture(autouse=True)
    def _served(self, shop: ServedShop) -> None:
        self.good = {
            "url": shop.url,
            "depth": 0,
            "politeness": {"retries": 0, "delay_s": 0},
            "fetching": {"allow_private": True},
        }


class Said:
    """A context that remembers what it was told."""

    attempt = 1
    secrets: ClassVar = {}

    def __init__(self) -> None:
        self.task_id = f"task-{uuid4().hex}"
        self.lines: list[tuple[str, str]] = []
        self.done: list[tuple[float, float | None]] = []

    async def log(self, message: str, *, level: str = "info", **fields: Any) -> None:
        self.lines.append((level, f"{message} {fields}"))

    async def progress(self, done: float, total: float | None = None) -> None:
        self.done.append((done, total))


class Kept(Said):
    """A context of a node that hands output over, until `most` segments have been taken."""

    stores_output = True
    reaches_frontier = False
    parent_id = None
    ledger = None

    def __init__(self, folder: OutputFolder, task_id: str, attempt: int, most: float) -> None:
        super().__init__()
        self.task_id = task_id
        self.attempt = attempt
        self.execution_id = f"exec-{attempt}"
        self._folder = folder
        self._left = most

    async def store_segment(self, stream: Any, segment: Segment, data: bytes) -> None:
        if not self._left:
            raise SinkUnusable("the lease is lost")
        self._left -= 1
        at = self.task_id, self.attempt, self.execution_id, stream
        await self._folder.append(*at, segment, data)

    async def figures(self, figures: Any) -> None:
        self.last = figures

    def handle_orders(self, handler: Any) -> None: ...


@pytest.fixture(scope="module")
def shop() -> Iterator[ServedShop]:
    with ServedShop() as shop:
        yield shop


def order(shop: ServedShop, **more: Any) -> CrawlParameters:
    return CrawlParameters(
        **{
            "url": shop.url,
            "selectors": SELECTORS,
            "scope": Scope(max_query_variants=10),
            "politeness": Politeness(delay_s=0.0, concurrency=8, retry_delay_s=0.2),
            "fetching": Fetching(allow_private=True),
            **more,
        }
    )


def run(
    parameters: CrawlParameters,
    said: Said,
    *,
    allow_private: bool = True,
    sinks_dir: Path | str = "",
) -> Measured:
    crawl = WebCrawl(allow_private=allow_private, sinks_dir=str(sinks_dir))
    return asyncio.run(crawl.run(parameters, said))


def test_the_whole_shop_comes_out_as_the_result(shop: ServedShop) -> None:
    said = Said()
    measured = run(order(shop), said)

    found = {(each["title"], each["price"]) for each in measured.data["products"]}
    assert found == {(product.title, product.price) for product in PRODUCTS}
    assert len(measured.data["products"]) == len(PRODUCTS)
    assert {each["url"] for each in measured.data["products"]} == {
        shop.url.rstrip("/") + product.path for product in PRODUCTS
    }
    # Each is on a page of its own, to which its first link leads.
    assert all(each["page_url"] == each["url"] for each in measured.data["products"])
    assert len(PRODUCTS) < measured.metrics["pages_crawled"] < 500
    assert measured.metrics["empty_fields"] == 0
    assert measured.metrics["data_size"] > 100_000
    assert measured.metrics["retries"] >= 1, "the page that fails at first is there in the end"
    assert said.done[-1][0] == measured.metrics["pages_crawled"]


def test_selectors_that_catch_nothing_are_in_the_log_and_in_the_metrics(shop: ServedShop) -> None:
    said = Said()
    selectors = {"title": "h2.title", "prise": "span.prise"}
    limits = Limits(max_pages=40)
    measured = run(order(shop, item="div.product", selectors=selectors, limits=limits), said)

    assert measured.metrics["empty_fields"] == 1
    assert {*measured.data} == {"items"}
    assert all({*item} == {"page_url", "title", "prise"} for item in measured.data["items"])
    warnings = [line for level, line in said.lines if level == "warning"]
    told = [line for line in warnings if "selectors have caught nothing" in line]
    assert told
    assert all("{'prise': 'span.prise'}" in line for line in told)
    assert len(told) == len({line.partition(" {")[0] for line in told}), "each once"


def test_with_a_sink_the_result_says_where_the_items_are(shop: ServedShop, tmp_path: Path) -> None:
    output = tmp_path / "items.jsonl"
    sink = SinkSpec(url=str(output))
    measured = run(order(shop, depth=1, sinks=(sink,)), Said(), sinks_dir=tmp_path)

    items = [json.loads(line) for line in output.read_text().splitlines()]
    assert measured.data == {
        "sinks": {
            str(output): {
                "path": str(output),
                "items": len(items),
                "bytes": output.stat().st_size,
            }
        }
    }
    assert measured.metrics["items"] == len(items) > 0


def lines_of(folder: OutputFolder, task_id: str) -> list[bytes]:
    async def read() -> bytes:
        return b"".join([each async for each in folder.read(task_id, "items", completed=True)])

    return asyncio.run(read()).splitlines()


@pytest.mark.parametrize("most", [2, 6])
def test_a_crawl_that_goes_on_hands_over_what_was_found_before(
    shop: ServedShop, tmp_path: Path, most: int
) -> None:
    folder, task_id = OutputFolder(tmp_path), Said().task_id
    parameters = order(shop, sinks=(SinkSpec(url="fleet:items"),))
    with pytest.raises(SinkUnusable):
        run(parameters, Kept(folder, task_id, 1, most))

    second = Kept(folder, task_id, 2, math.inf)
    measured = run(parameters, second)

    assert second.last.is_final
    assert [each.waiting for each in second.last.hosts] == [0]
    assert sum(each.pages for each in second.last.hosts) == second.last.done
    titles = [json.loads(line)[1]["title"] for line in lines_of(folder, task_id)]
    assert sorted(titles) == sorted(product.title for product in PRODUCTS)
    assert measured.data["items"] == len(PRODUCTS)


def test_a_crawl_whose_time_is_over_leaves_all_that_it_found(
    shop: ServedShop, tmp_path: Path
) -> None:
    folder, task_id = OutputFolder(tmp_path), Said().task_id
    parameters = order(
        shop, limits=Limits(max_seconds=1.5), politeness=Politeness(delay_s=0.05, concurrency=8)
    )

    measured = run(parameters, Kept(folder, task_id, 1, math.inf))

    assert 0 < measured.metrics["items"] < len(PRODUCTS)
    assert len(lines_of(folder, task_id)) == measured.metrics["items"]


def test_the_result_of_a_crawl_that_goes_on_has_all_items_or_none() -> None:
    item = Item(kind="products", fields={"title": "a"})
    page = PageRecord(id=1, url="https://shop.example/", at=0.0, items=[item])

    async def scene() -> None:
        first = Inline(alone=False)
        await first.open(None)
        committed = await first.stage([page])
        await first.stage([page])
        await first.open(committed)
        assert (first.fits, len(first.items["products"])) == (True, 1)
        second = Inline(alone=False)
        await second.open(committed)
        assert (second.fits, second.items) == (False, {})
        third = Inline(alone=False)
        await third.open(await second.stage([page]))
        assert (third.fits, third.items) == (False, {})

    asyncio.run(scene())


def test_items_that_do_not_fit_name_the_remedy(
    shop: ServedShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web_crawl, "MAX_INLINE_BYTES", 2000)

    with pytest.raises(TooMuch, match="name a file in `sinks`"):
        run(order(shop), Said())


@pytest.mark.parametrize(("node", "crawl"), [(False, True), (True, False), (False, False)])
def test_private_networks_need_the_node_and_the_crawl(
    shop: ServedShop, node: bool, crawl: bool
) -> None:
    parameters = order(shop, fetching=Fetching(allow_private=crawl))

    with pytest.raises(NothingFetched, match=r"no page could be fetched: .* loopback") as failure:
        run(parameters, Said(), allow_private=node)

    assert failure.value.error_class is ErrorClass.INVALID, "trying again cannot help"


def test_a_site_that_wants_to_be_paid_is_not_tried_again() -> None:
    fate = UrlRecord(
        id=1,
        url="https://shop.example/",
        host="https://shop.example",
        status="done",
        depth=0,
        attempts=1,
        outcome="payment_required",
        http_status=402,
    )

    assert NothingFetched([fate]).error_class is ErrorClass.INVALID


def test_what_cannot_be_a_crawl_is_refused(shop: ServedShop) -> None:
    with pytest.raises(BadCrawl, match=r"`scope\.allow"):
        run(order(shop, scope=Scope(allow=("(",))), Said())


def test_pauses_of_hosts_are_told(shop: ServedShop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_crawl, "TELL_EVERY_S", 0.1)
    said = Said()
    parameters = order(
        shop,
        url="http://127.0.0.1:9/",
        politeness=Politeness(retries=1, retry_delay_s=0.1),
        limits=Limits(max_seconds=10),
    )

    with pytest.raises(NothingFetched, match="connect") as failure:
        run(parameters, said)

    assert failure.value.error_class is ErrorClass.NETWORK
    assert any("host left alone" in line and "connect" in line for _, line in said.lines)


def test_figures_that_cannot_be_had_for_a_while_are_told_of_and_had_later(
    shop: ServedShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    said, failures = Said(), [StoreUnavailable("the master restarts")] * 2
    ask = CrawlRun.progress

    async def progress(crawl: CrawlRun) -> CrawlProgress:
        if failures:
            raise failures.pop()
        return await ask(crawl)

    monkeypatch.setattr(CrawlRun, "progress", progress)
    monkeypatch.setattr(web_crawl, "TELL_EVERY_S", 0.05)
    slow = order(shop, limits=Limits(max_pages=20), politeness=Politeness(delay_s=0.05))
    asyncio.run(WebCrawl(allow_private=True).run(slow, said))

    assert len([line for _, line in said.lines if "the master restarts" in line]) == 1
    assert len({done for done, _ in said.done}) > 2


def test_cancelling_leaves_nothing_behind(shop: ServedShop, tmp_path: Path) -> None:
    said = Said()

    async def scene() -> float:
        sink = SinkSpec(url=str(tmp_path / "items.jsonl"))
        slow = order(shop, politeness=Politeness(delay_s=0.2), sinks=(sink,), workers=2)
        crawl = WebCrawl(allow_private=True, sinks_dir=str(tmp_path))
        work = asyncio.create_task(crawl.run(slow, said))
        await asyncio.sleep(1.0)
        work.cancel()
        began = time.monotonic()
        await asyncio.wait([work])
        assert work.cancelled()
        assert len(asyncio.all_tasks()) == 1
        return time.monotonic() - began

    assert asyncio.run(scene()) < 5.0
    scratch = Path(tempfile.gettempdir())
    assert not [*scratch.glob(f"crawlfleet-crawls-*/{said.task_id}")]


def test_a_second_attempt_leaves_the_one_that_runs_alone(shop: ServedShop, tmp_path: Path) -> None:
    said = Said()
    output = tmp_path / "items.jsonl"
    pattern = f"crawlfleet-crawls-*/{said.task_id}/frontier.db"
    slow = order(
        shop,
        sinks=(SinkSpec(url=str(output)),),
        limits=Limits(max_pages=12),
        politeness=Politeness(delay_s=0.2),
    )

    def frontiers() -> int:
        return len([*Path(tempfile.gettempdir()).glob(pattern)])

    async def scene() -> Measured:
        crawl = WebCrawl(allow_private=True, sinks_dir=str(tmp_path))
        first = asyncio.create_task(crawl.run(slow, said))
        await asyncio.sleep(0.7)
        with pytest.raises(ConfigError, match="in use"):
            await crawl.run(slow, said)
        assert frontiers() == 1
        return await first

    assert asyncio.run(scene()).metrics["items"] == len(output.read_text().splitlines())
    assert frontiers() == 0
