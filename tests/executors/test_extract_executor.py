"""`extract`: selectors on one page, given or fetched."""

import asyncio
import socket
from collections.abc import Iterator
from typing import Any, ClassVar

import msgspec
import pytest

from crawlfleet.crawl.fetch.dial import AddressRefused
from crawlfleet.executors.extract import BadTrial, Extract, ExtractParameters
from crawlfleet.model.settings import WorkerSettings
from crawlfleet.testing.demo_shop import ServedShop
from crawlfleet.testing.executor_suite import ExecutorSuite

SELECTORS = {"product": "div.product", "title": "h2.title", "price": "span.price"}
PAGE = """<div class=product><h2 class=title>Kite</h2><span class=price>9</span><a href=/kite>
</a></div><div class=product><h2 class=title><script>alert(1)</script>Lamp</h2></div>"""


class Quiet:
    task_id, attempt = "task-1", 1

    async def log(self, message: str, **fields: object) -> None: ...

    async def progress(self, done: float, total: float | None = None) -> None: ...


def extract(*, allow_private: bool = False, **parameters: Any) -> dict[str, Any]:
    given = msgspec.convert(parameters, ExtractParameters)
    return asyncio.run(Extract(allow_private=allow_private).run(given, Quiet()))


def test_what_each_selector_caught_and_what_became_of_it() -> None:
    found = extract(html=PAGE, selectors=SELECTORS, base_url="https://shop.example/list")

    assert found["caught"] == {"product": 2, "title": 2, "price": 1}
    assert (found["count"], found["status"]) == (2, None)
    assert [each["kind"] for each in found["items"]] == ["products", "products"]
    first, second = (each["fields"] for each in found["items"])
    assert first == {
        "page_url": "https://shop.example/list",
        "title": "Kite",
        "price": "9",
        "url": "https://shop.example/kite",
    }
    assert second["price"] is None


def test_json_is_a_page_as_well() -> None:
    found = extract(
        html='{"things": [{"name": "a"}, {"name": "b"}]}',
        selectors={"names": {"json": "$.things[*].name", "many": True}},
    )
    assert found["items"][0]["fields"]["names"] == ["a", "b"]


def test_a_large_catch_is_cut_and_counted() -> None:
    found = extract(
        html="<p><b>x</b></p>" * 1000,
        selectors={"p": {"css": "p", "fields": {"t": "b"}}},
        max_items=10,
    )
    assert (len(found["items"]), found["count"]) == (10, 1000)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"selectors": SELECTORS}, "`url`"),
        ({"selectors": SELECTORS, "html": "", "url": "http://x.example"}, "one of the two"),
        ({"html": "<p>"}, "nothing to look for"),
        ({"html": "<p>", "selectors": {"a": "div["}}, "selectors.a"),
    ],
)
def test_what_cannot_be_tried_says_why(parameters: dict[str, Any], words: str) -> None:
    with pytest.raises(BadTrial, match=words):
        extract(**parameters)


@pytest.mark.slow
def test_a_page_is_fetched_with_the_same_guard_as_others() -> None:
    with ServedShop() as shop:
        found = extract(
            allow_private=True,
            url=f"{shop.url}category/kites/",
            selectors={"card": ".card", "title": ".card a"},
        )
        with pytest.raises(AddressRefused):
            extract(url=shop.url, selectors=SELECTORS)
    assert found["status"] == 200
    assert found["caught"]["card"] > 3
    assert found["items"][0]["fields"]["url"].startswith(shop.url)


@pytest.mark.slow
class TestExtract(ExecutorSuite):
    task_type = "extract"
    settings = WorkerSettings(allow_private=True)
    good: ClassVar = {"html": PAGE, "selectors": SELECTORS}
    bad: ClassVar = {"html": 7}

    @pytest.fixture(autouse=True)
    def set_up(self) -> Iterator[None]:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
            self.endless = {"url": url, "selectors": SELECTORS, "timeout_s": 300}
            yield
