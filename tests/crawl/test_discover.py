"""Where pages lead."""

import pytest

from crawlfleet.crawl.discover import Discovered, Found, Kind, discover
from crawlfleet.crawl.markup import Page

URL = "https://x.example/dir/page"


def of(html: str) -> Discovered:
    return discover(Page(html.encode(), URL))


def test_links_come_in_order_and_once() -> None:
    found = of('<a href="/b">1</a><area href=c><a href=" /b ">2</a><a name=x>3</a><a href="">4</a>')
    assert found.links == [Found("/b"), Found("c")]
    assert found.base == URL


def test_links_that_lead_nowhere_are_left_out() -> None:
    found = of(
        '<a href="#top">a</a><a href="JavaScript:x()">b</a><a href="mailto:a@b">c</a>'
        '<a href="tel:1">d</a><a href="data:,x">e</a><a href="' + "x" * 70_000 + '">f</a>'
    )
    assert found.links == []


@pytest.mark.parametrize(
    ("html", "link"),
    [
        ('<link rel=next href="/2">', Found("/2", Kind.NEXT)),
        ('<link rel="prev" href="/0">', Found("/0", Kind.PREV)),
        ('<link rel="Previous" href="/0">', Found("/0", Kind.PREV)),
        ('<link rel=canonical href="/c">', Found("/c", Kind.CANONICAL)),
        ('<link rel=alternate hreflang=de href="/de">', Found("/de", Kind.ALTERNATE)),
        (
            '<link rel=alternate type="application/rss+xml" href="/feed">',
            Found("/feed", Kind.FEED),
        ),
        ('<link rel=sitemap href="/s.xml">', Found("/s.xml", Kind.SITEMAP)),
        ('<iframe src="/f"></iframe>', Found("/f", Kind.FRAME)),
        ('<frameset><frame src="/f"></frameset>', Found("/f", Kind.FRAME)),
        ('<meta http-equiv=refresh content="5; url=/r">', Found("/r", Kind.REFRESH)),
        ("<meta http-equiv=Refresh content=\"0;URL='/r'\">", Found("/r", Kind.REFRESH)),
        ('<meta http-equiv=refresh content="0, /r">', Found("/r", Kind.REFRESH)),
        ('<a rel="nofollow noopener" href="/n">', Found("/n", nofollow=True)),
        ('<a rel=UGC href="/n">', Found("/n", nofollow=True)),
        ('<a rel=sponsored href="/n">', Found("/n", nofollow=True)),
        ('<a rel=noopener href="/n">', Found("/n")),
        ('<a rel=nofollow href="/n"></a><a href="/n">', Found("/n")),
        ('<a href="/n"></a><a rel=nofollow href="/n">', Found("/n")),
    ],
)
def test_every_kind_of_link(html: str, link: Found) -> None:
    assert of(html).links == [link]


@pytest.mark.parametrize(
    "html",
    [
        '<link rel=stylesheet href="/s.css">',
        '<link rel="alternate stylesheet" href="/s.css">',
        "<meta http-equiv=refresh content=30>",
        "<iframe></iframe>",
        '<img src="/i.png">',
        "<link href=/x>",
    ],
)
def test_what_is_no_link(html: str) -> None:
    assert of(html).links == []


def test_the_first_base_counts() -> None:
    assert of('<base target=x><base href="/b/"><base href="/c/">').base == "https://x.example/b/"
    assert of('<base href="http://[">').base == URL


def test_the_page_may_ask_not_to_be_kept_or_followed() -> None:
    assert of('<meta name=robots content="noindex">').robots == (True, False)
    assert of('<meta name=ROBOTS content="none">').robots == (True, True)
    assert of('<meta name=googlebot content="none">').robots == (False, False)
    both = '<meta name=robots content="noindex"><meta name=crawlfleet content="nofollow">'
    assert of(both).robots == (True, True)
