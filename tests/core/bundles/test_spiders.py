"""Names of spiders are read from code that is never run."""

import pytest

from crawlfleet.core.bundles.archives import look_into, spiders_in
from tests.code_archives import packed

QUOTES = """
import scrapy


class QuotesSpider(scrapy.Spider):
    custom_settings = {"X": 1}
    # the name comes late
    name = "quotes"
    other = None

    def parse(self, response):
        name = "not this one"


class Item:
    name = "no spider"


class Authors(BaseSpider, Mixin):
    name: str = 'authors'
"""


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", set()),
        ("class A(scrapy.Spider):\n    name = 'a'\n", {"a"}),
        ("class A(scrapy.Spider):\n    name = f'a{1}'\n", set()),
        ("class A(CrawlSpider):\n    name = make()\n", set()),
        ("class A:\n    name = 'a'\n", set()),
        ("x = 1\nname = 'a'\n", set()),
        ("class A(Spider):\n    pass\nx = 1\n    name = 'a'\n", set()),
        ("class A(Spider):\n\tname = 'with tab'\n", {"with tab"}),
        ("class " + "(" * 100_000, set()),
        ("class A(Spider):\n    name = '" + "x" * 101 + "'\n", set()),
    ],
)
def test_what_looks_like_a_spider_is_one(text: str, names: set[str]) -> None:
    assert spiders_in(text) == names


def test_spiders_of_an_archive_are_known() -> None:
    files = {
        "scrapy.cfg": "[settings]\ndefault = shop.settings\n",
        "shop/settings.py": "",
        "shop/spiders/quotes.py": QUOTES,
        "shop/spiders/broken.py": b"\xff\xfe class",
        "readme.txt": "class A(Spider):\n    name = 'a'\n",
    }

    assert look_into(packed(files)).spiders == ("authors", "quotes")
