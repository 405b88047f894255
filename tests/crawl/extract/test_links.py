"""Where pages lead."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawlfleet.crawl.extract import markup
from crawlfleet.crawl.extract.links import PLAIN, Discovered, discover
from crawlfleet.crawl.extract.markup import HtmlPage
from crawlfleet.model.crawl.reading import LinkKind, LinkTraits

URL = "https://x.example/dir/page"


def of(html: str) -> Discovered:
    return discover(HtmlPage(html.encode(), URL))


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
        ('<link rel=next href="/2">', ("/2", LinkTraits(LinkKind.NEXT))),
        ('<link rel="prev" href="/0">', ("/0", LinkTraits(LinkKind.PREV))),
        ('<link rel="Previous" href="/0">', ("/0", LinkTraits(LinkKind.PREV))),
        ('<link rel=canonical href="/c">', ("/c", LinkTraits(LinkKind.CANONICAL))),
        ('<link rel=alternate hreflang=de href="/de">', ("/de", LinkTraits(LinkKind.ALTERNATE))),
        (
            '<link rel=alternate type="application/rss+xml" href="/feed">',
            ("/feed", LinkTraits(LinkKind.FEED)),
        ),
        ('<link rel=sitemap href="/s.xml">', ("/s.xml", LinkTraits(LinkKind.SITEMAP))),
        ('<iframe src="/f"></iframe>', ("/f", LinkTraits(LinkKind.FRAME))),
        ('<frameset><frame src="/f"></frameset>', ("/f", LinkTraits(LinkKind.FRAME))),
        ('<p></p><frameset><frame src="/f"></frameset>', ("/f", LinkTraits(LinkKind.FRAME))),
        ('<x:y><!-- --> <frameset><frame src="/f">', ("/f", LinkTraits(LinkKind.FRAME))),
        (
            '</head><!-- --> <noscript></noscript><frameset><frameset><frame src="/f">',
            ("/f", LinkTraits(LinkKind.FRAME)),
        ),
        ('<meta http-equiv=refresh content="5; url=/r">', ("/r", LinkTraits(LinkKind.REFRESH))),
        ("<meta http-equiv=Refresh content=\"0;URL='/r'\">", ("/r", LinkTraits(LinkKind.REFRESH))),
        ('<meta http-equiv=refresh content="0, /r">', ("/r", LinkTraits(LinkKind.REFRESH))),
        ('<iframe src="/f" href="/g"></iframe>', ("/f", LinkTraits(LinkKind.FRAME))),
        ('<a rel="nofollow noopener" href="/n">', ("/n", LinkTraits(nofollow=True))),
        ('<a rel=UGC href="/n">', ("/n", LinkTraits(nofollow=True))),
        ('<a rel=sponsored href="/n">', ("/n", LinkTraits(nofollow=True))),
        ('<a rel=noopener href="/n">', ("/n", PLAIN)),
        ('<a rel=nofollow href="/n"></a><a href="/n">', ("/n", PLAIN)),
        ('<a href="/n"></a><a rel=nofollow href="/n">', ("/n", PLAIN)),
    ],
)
def test_every_kind_of_link(html: str, link: tuple[str, LinkTraits]) -> None:
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


PIECES = st.sampled_from(
    ['<a href="/1">', '<a href=" /2 " rel=ugc>', "</a>", "<area href=3>", "<a name=4>", "<div>",
     '<base href="/b/">', "<link rel=next href=/5>", "<link rel=icon href=/6>", "<svg>", "</svg>",
     "<meta name=robots content=nofollow>", "<meta http-equiv=refresh content='0;url=/7'>",
     "<meta http-equiv=' REFRESH ' content='0;url=/8'>", "<meta http-equiv=x content=refresh>",
     "<meta http-equiv content=9>", "<meta href=/10 content=11>", "<iframe src=/12>", "</iframe>",
     "<iframe>", "<IFRAME SRC=/13 href=/14>", "<template>", "</template>", "<p>", "<noscript>",
     "<a xlink:href=/15>", "<a href=/16 xlink:href=/17>", "<a href>", "<table>", "<select>",
     "<frameset>", "</frameset>", "<frame src=/20>", "<frame src=/21 href=/22>", "</noscript>",
     "<noframes>", "</noframes>", "<math>", "</math>", "<x:meta>", "<!-- -->", "</body>", " ",
     "</head>", "<html>", "<body>"]
)  # fmt: skip
PAGES = st.tuples(
    st.sampled_from(["", "<head>", "<body>", "<p></p>", "<noscript></noscript>"]),
    st.sampled_from(["", "", "<frameset><frame src=/18><frame src=/19>"]),
    st.lists(PIECES, max_size=25).map("".join),
).map("".join)


@settings(max_examples=300, deadline=None)
@given(PAGES)
def test_links_are_those_of_one_search_for_all_kinds_and_in_its_order(html: str) -> None:
    found = of(html)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(markup, "_only_hrefs_lead", lambda *_: False)
        expected = of(html)
    assert found == expected
    assert [*found.links] == [*expected.links]


def test_a_frame_that_is_none_of_a_frameset_leads_nowhere() -> None:
    assert not of("<svg><frame src=/f></frame></svg><p>").links
    assert not of("<svg><frame src=/f></frame></svg><iframe>").links
    assert not of("<p>words<frameset><frame src=/f></frameset>").links
