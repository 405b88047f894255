"""What a link costs: resolved, judged by the crawl's rules, given its id.

A page is like that of a shop: a menu that stands on each page, and products that were never met
before. Beside it, what others do for one link: the parser alone (ada), Python's urllib.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urljoin

import msgspec
from ada_url import join_url
from rich.console import Console
from rich.table import Table

from crawlfleet.core.politeness.host_clock import HostClock
from crawlfleet.core.urls.canonical import Canonicaliser, fingerprint
from crawlfleet.core.urls.robots_rules import parse
from crawlfleet.core.urls.scope import Territory
from crawlfleet.core.urls.traps import Variants
from crawlfleet.crawl.links import Links
from crawlfleet.model.crawl.parameters import FAST, Limits, Outcome, Politeness, Scope

SITE = "https://shop.example"
MENU = (
    "/", "/catalogue/", "/catalogue/books/", "/catalogue/books/poetry/", "/about", "/contact.html",
    "https://shop.example/account/login?next=home", "#top", "/cart", "../index.html",
    "https://social.example/shop", "mailto:shop@shop.example", "/imprint", "/privacy", "/help/",
)  # fmt: skip
NEW = (
    "/catalogue/a-light-in-the-attic_{n}/index.html",
    "../tipping-the-velvet-{n}/index.html",
    "/product/{n}?colour=red&size=m",
    "soumission-{n}.html",
    "https://shop.example/catalogue/sharp-objects_{n}/",
    "/reviews?page={n}",
    "sapiens-{n}/index.html",
    "/catalogue/the-requiem-red_{n}.html",
)
ODD = (
    "/caf%c3%a9/{n}",
    "/münchen/{n}",
    "/a/../b/{n}",
    "//shop.example/c/{n}",
    "/d/{n};jsessionid=0A1B2C",
    " /e/{n} ",
)


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    what: str
    microseconds: float


def each(count: int, body: Callable[[], object]) -> float:
    """Microseconds of CPU for each of `count` things, the best of three."""
    best = float("inf")
    for _ in range(3):
        begun = time.process_time()
        body()
        best = min(best, time.process_time() - begun)
    return best / count * 1e6


def fresh() -> Links:
    territory = Territory(Scope(), Limits(), [f"{SITE}/"], year=2026)
    return Links(Canonicaliser(), territory, Variants(1_000_000))


def pages(count: int, patterns: tuple[str, ...], menu: tuple[str, ...]) -> list[tuple[str, list]]:
    return [
        (
            f"{SITE}/catalogue/books/page-{page}.html",
            [*menu, *(pattern.format(n=page) for pattern in patterns)],
        )
        for page in range(count)
    ]


def resolved(count: int, patterns: tuple[str, ...], menu: tuple[str, ...]) -> float:
    work = pages(count, patterns, menu)

    def body() -> None:
        links = fresh()
        for base, hrefs in work:
            links.resolve(base, hrefs)

    return each(count * (len(patterns) + len(menu)), body)


def crawled(count: int) -> float:
    """A site of so many pages, each visited once: a menu, and eight other pages of the site."""
    work = [
        (
            f"{SITE}/catalogue/book-{page}/index.html",
            [
                *MENU,
                *(f"../book-{page * 31 % count + step * step}/index.html" for step in range(8)),
            ],
        )
        for page in range(count)
    ]

    def body() -> None:
        links = fresh()
        for base, hrefs in work:
            links.resolve(base, hrefs)

    return each(count * len(work[0][1]), body)


def measure(count: int) -> list[Cost]:
    hrefs = [pattern.format(n=n) for n in range(count // 8) for pattern in NEW]
    base = f"{SITE}/catalogue/books/page-1.html"
    fast_clock = HostClock(FAST)
    rules = parse(
        b"User-agent: *\nDisallow: /cart\nDisallow: /*?sort=\nAllow: /cart/help$\nDisallow: /tmp/",
        "crawlfleet",
    )
    clean = Canonicaliser()
    place = clean.place(base)
    assert place is not None
    urls = [url for href in hrefs if (url := clean.resolve(place, href))]

    def slots() -> None:
        for number in range(count):
            fast_clock.grant(number * 1e-3, 1)
            fast_clock.observe(Outcome.OK, 200, 0.001, None, number * 1e-3)

    polite = Politeness(adaptive=True)
    polite_clock = HostClock(polite)

    def polite_slots() -> None:
        for number in range(count):
            polite_clock.grant(number * 2.0, 1)
            polite_clock.observe(Outcome.OK, 200, 0.1, None, number * 2.0 + 0.1)

    figures = {
        "a site of 5,000 pages: 15 links of each page, 8 to other pages": crawled(5000),
        "a page with a menu: 15 links of each page, 8 new ones": resolved(count // 20, NEW, MENU),
        "a page of known links only": resolved(count // 20, (), MENU),
        "links never met before": resolved(count // 8, NEW, ()),
        "odd links never met before (the slow way)": resolved(count // 8, ODD, ()),
        "canonical form alone, never met before": each(
            len(hrefs), lambda: [clean.resolve(place, href) for href in hrefs]
        ),
        "fingerprint": each(len(urls), lambda: [fingerprint(url) for url in urls]),
        "beside it: ada-url, join alone": each(
            len(hrefs), lambda: [join_url(base, href) for href in hrefs]
        ),
        "beside it: urllib, join alone": each(
            len(hrefs), lambda: [urljoin(base, href) for href in hrefs]
        ),
        "robots.txt: one URL against 4 rules": each(
            len(urls), lambda: [rules.allows(url) for url in urls]
        ),
        "politeness: a slot granted and given back, --fast": each(count, slots),
        "politeness: a slot granted and given back, adaptive": each(count, polite_slots),
    }
    return [Cost(what=what, microseconds=cost) for what, cost in figures.items()]


def main(arguments: list[str] | None = None) -> list[Cost]:
    parser = argparse.ArgumentParser(prog="bench.urls", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer links")
    parser.add_argument("--json", type=Path, help="also write the figures there")
    options = parser.parse_args(arguments)
    costs = measure(20_000 if options.quick else 200_000)
    table = Table("for each", "µs of CPU", title="links, rules and slots")
    for cost in costs:
        table.add_row(cost.what, f"{cost.microseconds:.2f}")
    Console().print(table)
    if options.json:
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(costs)))
    return costs


if __name__ == "__main__":
    main()
