"""Where pages lead."""

import pytest

from crawlfleet.crawl.discover import PLAIN, Discovered, Found, Kind, discover
from crawlfleet.crawl.markup import Page

URL = "https://x.example/dir/page"


def of(html: str) -> Discovered:
    return discover(Page(html.encode(), URL))


def test_links_come_in_order_and_once() -> None:
    found = of('<a href="/b">1</a><area href=c><a href=" /b ">2</a><a name=x>3</a><a href="">4</a>')
    assert [*found.links.items()] == [("/b", PLAIN), ("c", PLAIN)]
    assert found.base == URL


def test_links_that_lead_nowhere_are_left_out() -> None:
    found = of(
        '<a href="#top">a</a><a href="JavaScript:x()">b</a><a href="mailto:a@b">c</a>'
        '<a href="tel:1">d</a><a href="data:,x">e</a><a href="' + "x" * 70_000 + '">f</a>'
    )
    assert not found.links


@pytest.mark.parametrize(
    ("html", "link"),
    [
        ('<link rel=next href="/2">', ("/2", Found(Kind.NEXT))),
        ('<link rel="prev" href="/0">', ("/0", Found(Kind.PREV))),
        ('<link rel="Previous" href="/0">', ("/0", Found(Kind.PREV))),
        ('<link rel=canonical href="/c">', ("/c", Found(Kind.CANONICAL))),
        ('<link rel=alternate hreflang=de href="/de">', ("/de", Found(Kind.ALTERNATE))),
        (
            '<link rel=alternate type="application/rss+xml" href="/feed">',
            ("/feed", Found(Kind.FEED)),
        ),
        ('<link rel=sitemap href="/s.xml">', ("/s.xml", Found(Kind.SITEMAP))),
        ('<iframe src="/f"></iframe>', ("/f", Found(Kind.FRAME))),
        ('<frameset><frame src="/f"></frameset>', ("/f", Found(Kind.FRAME))),
        ('<meta http-equiv=refresh content="5; url=/r">', ("/r", Found(Kind.REFRESH))),
        ("<meta http-equiv=Refresh content=\"0;URL='/r'\">", ("/r", Found(Kind.REFRESH))),
        ('<meta http-equiv=refresh content="0, /r">', ("/r", Found(Kind.REFRESH))),
        ('<iframe src="/f" href="/g"></iframe>', ("/f", Found(Kind.FRAME))),
        ('<a rel="nofollow noopener" href="/n">', ("/n", Found(nofollow=True))),
        ('<a rel=UGC href="/n">', ("/n", Found(nofollow=True))),
        ('<a rel=sponsored href="/n">', ("/n", Found(nofollow=True))),
        ('<a rel=noopener href="/n">', ("/n", PLAIN)),
        ('<a rel=nofollow href="/n"></a><a href="/n">', ("/n", PLAIN)),
        ('<a href="/n"></a><a rel=nofollow href="/n">', ("/n", PLAIN)),
    ],
)
def test_every_kind_of_link(html: str, link: tuple[str, Found]) -> None:
    assert [*of(html).links.items()] == [link]


@pytest.mark.parametrize(
    "html",
    [
        '<link rel=stylesheet href="/s.css">',
        '<link rel="alternate stylesheet" href="/s.css">',
        "<meta http-equiv=refresh content=30>",
        "<iframe></iframe>",
        '<img src="/i.png">',
        "<link href=/x>",
        "<svg><use href=/u /><image href=/i /></svg>",
        "<meta href=/m>",
        "<a href>",
    ],
)
def test_what_is_no_link(html: str) -> None:
    assert not of(html).links


def test_the_first_base_counts() -> None:
    assert of('<base target=x><base href="/b/"><base href="/c/">').base == "https://x.example/b/"
    assert of('<base href="http://[">').base == URL


def test_the_page_may_ask_not_to_be_kept_or_followed() -> None:
    assert of('<meta name=robots content="noindex">').robots == (True, False)
    assert of('<meta name=ROBOTS content="none">').robots == (True, True)
    assert of('<meta name=googlebot content="none">').robots == (False, False)
    both = '<meta name=robots content="noindex"><meta name=crawlfleet content="nofollow">'
    assert of(both).robots == (True, True)
