"""The demo shop: all its snares are there, and a crawl comes out of them."""

import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from crawlfleet.model.crawl.parameters import Outcome, Scope
from crawlfleet.testing.demo_shop import CATEGORIES, PRODUCTS, ServedShop
from tests.crawl.crawling import POLITE, crawl, told

pytestmark = pytest.mark.slow


@pytest.fixture
def shop() -> Iterator[ServedShop]:
    with ServedShop() as shop:
        yield shop


def get(shop: ServedShop, path: str) -> tuple[int, str, str]:
    try:
        with urllib.request.urlopen(shop.url + path) as answer:
            return answer.status, answer.headers["content-type"], answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers["content-type"], error.read().decode()


def test_every_kind_of_page_is_there(shop: ServedShop) -> None:
    assert get(shop, "")[0] == 200
    assert get(shop, f"category/{CATEGORIES[0]}/?page=3")[0] == 200
    assert get(shop, f"category/{CATEGORIES[0]}/?page=4")[0] == 404
    assert get(shop, PRODUCTS[7].path[1:])[2].count('class="product"') == 1
    assert get(shop, f"image/{PRODUCTS[7].number}.png")[1] == "image/svg+xml"
    assert [get(shop, path)[0] for path in ("flaky", "flaky", "gone", "blog/3")] == [
        500,
        200,
        404,
        200,
    ]
    assert "page=8" in get(shop, "search?q=lamp&page=7")[2]
    assert "/calendar/2031/1" in get(shop, "calendar/2030/12")[2]
    assert "Disallow: /admin/" in get(shop, "robots.txt")[2]
    sessions = {get(shop, "")[2].partition("PHPSESSID=")[2][:32] for _ in range(2)}
    assert len(sessions) == 2


def test_a_crawl_finds_every_product_and_no_end_of_pages(shop: ServedShop, tmp_path: Path) -> None:
    scope = Scope(max_query_variants=10)
    crawled = crawl(tmp_path, shop.url, scope=scope, politeness=POLITE)

    assert told(crawled.items) == sorted((each.title, each.price) for each in PRODUCTS)
    outcomes = crawled.summary.outcomes
    assert outcomes[Outcome.CLIENT_ERROR] == 1
    assert outcomes[Outcome.ROBOTS] == 1
    assert outcomes[Outcome.REDIRECT] == 3
    assert {"calendar", "variants", "file_type"} <= set(crawled.summary.rejected)
    assert len(PRODUCTS) < crawled.summary.pages < 400
