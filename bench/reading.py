"""What reading a page costs: items and links in one parse.

`python -m bench.reading [--quick]`. Pages of about 19 kB: one of an article with 45 links, one of a
shop with 20 products. Beside it the floor, which is the bare parse, and the same work done with
lxml and cssselect, as most spiders do it. Processor time, the best of several rounds.
"""

import argparse
import time
from collections.abc import Callable
from random import Random

from lxml import html as lxml_html
from lxml.cssselect import CSSSelector
from rich.console import Console
from rich.table import Table
from selectolax.lexbor import LexborHTMLParser

from crawlfleet.core.pages.selectors import make_plan
from crawlfleet.crawl.extract.page_reader import PageReader

URL = "https://shop.example/list/"
ROUNDS = 7
ARTICLE = {"title": "h1.title", "price": "span.price", "text": "div.text > p"}
SHOP = {"product": "div.product", "title": "h2.title", "price": "span.price"}


def words(random: Random, count: int) -> str:
    letters = "abcdefghijklmnopqrstuvwxyz"
    return " ".join("".join(random.choices(letters, k=random.randint(2, 9))) for _ in range(count))


def article(random: Random) -> bytes:
    paragraphs = "".join(
        f'<p>{words(random, 58)} <a href="/page/{number}.html">link {number}</a></p>\n'
        for number in range(45)
    )
    head = "<title>T</title><meta charset=utf-8><link rel=stylesheet href=/s.css>"
    top = '<h1 class="title">The title</h1><span class="price">$12.50</span>'
    page = f"<html><head>{head}</head><body>{top}<div class=text>{paragraphs}</div></body></html>"
    return page.encode()


def shop(random: Random) -> bytes:
    cards = "".join(
        f'<div class="product" data-id="{number}"><h2 class="title">Product {number}</h2>'
        f'<span class="price">${number}.99</span><p>{words(random, 130)}</p>'
        f'<a href="/products/{number}">more</a></div>\n'
        for number in range(20)
    )
    nav = "".join(f'<a href="/nav/{number}">n</a>' for number in range(3))
    return f"<html><head><title>T</title></head><body>{nav}{cards}</body></html>".encode()


def reading(selectors: dict[str, str]) -> Callable[[bytes], object]:
    reader = PageReader(make_plan(selectors))
    return lambda body: reader.read(body, URL, content_type="text/html; charset=utf-8")


def with_lxml(container: str | None, fields: dict[str, str]) -> Callable[[bytes], object]:
    compiled = {name: CSSSelector(text) for name, text in fields.items()}
    items = CSSSelector(container) if container else None
    links = CSSSelector("a[href]")

    def read(body: bytes) -> object:
        tree = lxml_html.document_fromstring(body, base_url=URL)
        tree.make_links_absolute()
        rows = [
            {
                name: " ".join(found[0].text_content().split()) if (found := css(item)) else None
                for name, css in compiled.items()
            }
            for item in (items(tree) if items else [tree])
        ]
        return rows, [link.get("href") for link in links(tree)]

    return read


def microseconds(work: Callable[[bytes], object], body: bytes, seconds: float) -> float:
    """Of processor time for one page, in the best round."""
    best = float("inf")
    for _ in range(ROUNDS):
        count, began = 0, time.process_time()
        while (spent := time.process_time() - began) < seconds:
            for _ in range(20):
                work(body)
            count += 20
        best = min(best, spent / count)
    return best * 1e6


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="bench.reading", description=__doc__)
    parser.add_argument("--quick", action="store_true")
    seconds = 0.05 if parser.parse_args(arguments).quick else 0.4
    table = Table("page", "kB", "what", "µs a page", title="reading pages")
    random = Random(7)
    for name, body, selectors, container in (
        ("article", article(random), ARTICLE, None),
        ("shop", shop(random), SHOP, "div.product"),
    ):
        fields = {key: text for key, text in selectors.items() if text != container}
        for what, work in (
            ("bare parse", LexborHTMLParser),
            ("links", reading({})),
            ("links, items", reading(selectors)),
            ("the same by lxml", with_lxml(container, fields)),
        ):
            figure = f"{microseconds(work, body, seconds):.0f}"
            table.add_row(name, f"{len(body) / 1000:.0f}", what, figure)
    Console().print(table)


if __name__ == "__main__":
    main()
