"""Pages made to hurt: none raises, none takes long, none takes much memory.

A page may take as long as the reader process gives it, many times what it does take; without the
cuts each of these takes minutes.
"""

import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawlfleet.core.pages import css
from crawlfleet.core.pages.selectors import make_plan
from crawlfleet.crawl.extract.css_search import find
from crawlfleet.crawl.extract.limited_reader import READ_S, READ_S_PER_MB
from crawlfleet.crawl.extract.markup import HtmlPage
from crawlfleet.crawl.extract.page_reader import CUT, PageReader
from crawlfleet.crawl.extract.truncate import DEEPEST, MAX_TAGS
from crawlfleet.model.crawl.parameters import Outcome
from crawlfleet.model.crawl.reading import LinkKind, LinkTraits
from tests.sampling import examples

pytestmark = pytest.mark.slow

URL = "https://x.example/"
PLAN: dict[str, Any] = {
    "title": "h1",
    "rows": {"select": "div", "fields": {"a": "a@href", "p": {"css": "p", "many": True}}},
    "texts": {"css": "div", "many": True},
    "deep": "div.x div div div p",
    "wide": "p ~ p:nth-child(2n+1) ~ b",
    "xpath": "//div/p",
}
READER = PageReader(make_plan({k: v for k, v in PLAN.items() if k != "xpath"}, structured=True))
LINKS = PageReader(make_plan({}))
XPATH = PageReader(make_plan({"rows": {"xpath": "//div", "fields": {"p": "./p"}}}))
PAGES: dict[str, Callable[[], bytes]] = {
    "nested": lambda: b"<div>" * 100_000,
    "nested and closed": lambda: b"<div>" * 100_000 + b"</div>" * 100_000,
    "nested with false ends": lambda: b"<div></x>" * 100_000,
    "nested with text": lambda: b"<div>x" * 9_000,
    "formatting": lambda: b"<b><p>" * 100_000,
    "tables": lambda: b"<table><tr><td>" * 60_000,
    "lists": lambda: b"<ul><li>" * 60_000,
    "ten megabytes of elements": lambda: b"<p>" * 3_300_000,
    "ten megabytes of links": lambda: b'<a href="/x">' * 700_000,
    "ten megabytes of text": lambda: b"x" * 10_000_000,
    "ten megabytes of brackets": lambda: b"<" * 10_000_000,
    "ten megabytes of attributes": lambda: (
        b"<p " + b" ".join(b'a%d=">"' % n for n in range(900_000))
    ),
    "ten megabytes of one tag": lambda: b"<a b" * 2_500_000,
    "quotes": lambda: b'<a b="' * 1_500_000,
    "null bytes": lambda: b"\0" * 1_000_000 + b"<a\0 href=\0/x\0>",
    "scripts": lambda: b"<script>" * 200_000,
    "json-ld": lambda: b'<script type="application/ld+json">' + b"[" * 1_000_000,
    "microdata": lambda: b"<p itemscope itemprop=x>" * 50_000,
    "microdata in pairs": lambda: b"<div itemscope><i itemscope itemprop=x></i></div>" * 50_000,
    "svg": lambda: b"<svg><g>" * 60_000,
    "entities": lambda: b"&amp;" * 2_000_000,
}
"""Made when they are needed: together they have 100 MB."""


@contextmanager
def takes_less_than(seconds: float) -> Iterator[None]:
    """Of processor time, since other tests run beside this one."""
    before = time.process_time()
    yield
    assert time.process_time() - before < seconds


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize(
    "reader",
    [
        pytest.param(READER, id="plan"),
        pytest.param(LINKS, id="links", marks=pytest.mark.slow),
        pytest.param(XPATH, id="xpath", marks=pytest.mark.slow),
    ],
)
def test_a_hostile_page_is_read_in_bounded_time(name: str, reader: PageReader) -> None:
    page = PAGES[name]()
    with takes_less_than(READ_S + READ_S_PER_MB * len(page) / 1e6):
        reader.read(page, URL)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert peak < 3_000_000, f"{peak} kB"


def test_what_comes_before_the_cut_is_read() -> None:
    reading = LINKS.read(b'<a href="/first">1</a>' + b"<div>" * 100_000, URL)
    assert [*reading.links] == ["/first"]
    assert reading.note == CUT
    assert HtmlPage(b"<div>" * 100_000, URL).tree.css("div")[DEEPEST - 1 :]
    assert len(HtmlPage(b"<p>" * 400_000, URL).tree.css("p")) == MAX_TAGS


@pytest.mark.parametrize("name", ["article", "menu", "listing", "optgroup", "INS", "li-x"])
def test_nested_elements_are_cut_whatever_their_names_begin_with(name: str) -> None:
    page = HtmlPage(b"<%s class=x>" % name.encode() * 100_000, URL)
    with takes_less_than(2):
        assert len(page.tree.css(name.lower())) == DEEPEST


@pytest.mark.parametrize("name", ["td", "li", "option", "colgroup", "dd", "img", "basefont", "BR"])
def test_elements_that_end_by_themselves_are_not_deep(name: str) -> None:
    assert not HtmlPage(b"<%s class=x>" % name.encode() * 15_000, URL).cut


@pytest.mark.parametrize(
    "html",
    [
        b"<ul>" + b"<li><a href=/x>y</a>" * 50_000 + b"</ul>",
        b"<p>x<br><img src=a><input>" * 40_000,
        b"<table>" + b"<tr><td>1<td>2" * 50_000 + b"</table>",
        b"<div><span>x</div>" * 1_900 + b"<p>y</p>" * 50_000,
        b"<A HREF=/x>y</a>" * 60_000,
        b"<p>" + b"<img src='data:," + b"ab cd" * 200_000 + b"'>",
        b"<script>" + b"if (a <b) x = '</div>';" * 3_000 + b"</script>" + b"<p>z</p>" * 9_000,
    ],
    ids=["list", "void", "table", "sloppy", "upper case", "image", "script"],
)
def test_large_pages_for_people_are_not_cut(html: bytes) -> None:
    assert not HtmlPage(html, URL).cut


def test_dear_selectors_are_bounded_on_pages_made_for_them() -> None:
    with takes_less_than(20):
        assert found(b"<div>" * 9_000, "div.x div div div") == 0
        assert found(b"<div>" * 9_000 + b"<p>", "div div div > div p") == 1
        assert found(b"<p>" * 100_000, "a ~ p ~ p") == 0
        assert found(b"<p>" * 100_000, "p:nth-child(2)") == 0


def test_dear_selectors_are_tried_on_large_pages_for_people() -> None:
    page = b"<div class=x><div><div><div><p>" * 8 + b"<p>x</p>" * 3_000
    assert found(page, "div.x div div > div p") == 3_008
    table = b"<table>" + b"<tr><td>1<td>2<td>3" * 20_000
    assert found(table, "table td:nth-child(2)") == 20_000
    assert found(table, "table tbody tr td:nth-child(2), caption") == 20_000


def found(body: bytes, selector: str) -> int:
    return len(find(HtmlPage(body, URL), selector, css.chains(selector)))


@pytest.mark.parametrize(
    ("selector", "searching"),
    [
        ("a", False),
        ("a > b + c", False),
        ("a[title='x y ~ z']", False),
        ("a, b", False),
        ("a b", True),
        ("a ~ b", True),
        ("li:nth-child(2)", True),
        ("a:has(b)", True),
        ("a:not(b c)", True),
        ("a:not(b)", False),
    ],
)
def test_selectors_that_search_are_known(selector: str, searching: bool) -> None:
    assert bool(css.chains(selector)) is searching


def test_patterns_cannot_run_away() -> None:
    evil = {"css": "p", "regex": r"^(a+)+$"}
    with takes_less_than(10):
        reading = PageReader(make_plan({"x": evil})).read(b"<p>" + b"a" * 90_000 + b"b", URL)
    assert reading.items == []


FRAGMENTS = st.sampled_from(
    [
        b"<div class=product>",
        b"</div>",
        b"<h2 class=title>",
        b"<a href='",
        b"'>",
        b"<table><tr><td>",
        b"<script>",
        b"</script>",
        b"<!--",
        b"-->",
        b"<svg><title>",
        b"<template>",
        b"<base href=//[>",
        b"<meta name=robots content=none>",
        b"<meta http-equiv=refresh content='0;url=",
        b"&#0;&#xD800;",
        b"\0",
        b"\xff\xfe",
        b"\xed\xa0\x80",
        b"<p itemscope itemprop='a b'>",
        b'<script type="application/ld+json">{"@graph": [',
        b"x",
        b" ",
    ]
)
HTML = st.lists(FRAGMENTS | st.binary(max_size=8), max_size=40).map(b"".join)
READERS = [
    READER,
    XPATH,
    PageReader(make_plan({"product": "div.product", "title": "h2.title", "price": "a@href"})),
]


@settings(max_examples=examples(300), deadline=None)
@given(HTML, st.sampled_from(READERS), st.sampled_from(["", "text/html", "application/json"]))
def test_no_page_is_too_strange(body: bytes, reader: PageReader, kind: str) -> None:
    first = reader.read(body, URL, content_type=kind)
    assert first == reader.read(body, URL, content_type=kind)


def test_signs_are_only_looked_for_where_nothing_was_found() -> None:
    body = b"<title>404 Not LinkTraits</title><h1>Not found: the novel</h1>"
    assert LINKS.read(body, URL).outcome is Outcome.SOFT_404
    assert PageReader(make_plan({"title": "h1"})).read(body, URL).outcome is Outcome.OK
    wall = b"<title>Just a moment...</title><a href=/x>x</a>Verify you are a human"
    reading = LINKS.read(wall, URL, status=403)
    assert reading.outcome is Outcome.BLOCKED
    assert not reading.links
    assert reading.note


def test_a_sitemap_is_a_page_of_links() -> None:
    body = b"<sitemapindex><sitemap><loc>http://x/1</loc></sitemap></sitemapindex>"
    reading = LINKS.read(body, URL, content_type="application/xml")
    assert reading.links == {"http://x/1": LinkTraits(LinkKind.SITEMAP)}
    assert LINKS.read(body, URL, content_type="text/html").links == {}


def test_headers_are_heard() -> None:
    reading = LINKS.read(b"<p>", URL, robots_tags=["noindex"])
    assert reading.robots == (True, False)
