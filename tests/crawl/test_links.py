import sys
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawlfleet.core.urls.canonical import Canonicaliser, fingerprint
from crawlfleet.core.urls.scope import ScopeRefusal, Territory
from crawlfleet.core.urls.traps import Variants
from crawlfleet.crawl.engine.outcomes import OutcomeReader
from crawlfleet.crawl.extract.page_reader import PageReader
from crawlfleet.crawl.fetch.messages import Fetched
from crawlfleet.crawl.links import MAX_LINKS, Links
from crawlfleet.crawl.public_suffixes import bundled
from crawlfleet.model.crawl.extraction import ExtractionPlan
from crawlfleet.model.crawl.frontier import Link, Visit, WaitingUrl
from crawlfleet.model.crawl.parameters import CrawlParameters, Limits, Outcome, Scope
from tests.sampling import examples

SITE = "https://shop.example"


def links(*, remembered: int = 100, variants: int = 1000, **scope) -> Links:
    territory = Territory(Scope(**scope), Limits(), [f"{SITE}/"], year=2026)
    return Links(Canonicaliser(), territory, Variants(variants), remembered=remembered)


def urls(found: list[Link]) -> list[str]:
    return [link.url for link in found]


def test_a_page_gives_each_link_that_belongs_once_and_in_order() -> None:
    found = links().resolve(
        f"{SITE}/a/b.html",
        ["c.html", "/d", "#top", "d", "https://other.example/", "/d#part", "mailto:x@y", "../e",
         "https://SHOP.example/f?utm_source=x", "", "\ud800", "https://shop.example/d", "g.jpg"],
    )  # fmt: skip

    assert urls(found) == [
        f"{SITE}/a/c.html", f"{SITE}/d", f"{SITE}/a/b.html", f"{SITE}/a/d", f"{SITE}/e",
        f"{SITE}/f", f"{SITE}/a/%EF%BF%BD",
    ]  # fmt: skip
    assert all(link == Link(fingerprint(link.url), link.url, SITE) for link in found)


def test_relative_links_mean_something_else_in_another_folder() -> None:
    crawl = links()
    for _ in range(2):
        assert urls(crawl.resolve(f"{SITE}/a/x", ["b", "?c=1"])) == [
            f"{SITE}/a/b", f"{SITE}/a/x?c=1",
        ]  # fmt: skip
        assert urls(crawl.resolve(f"{SITE}/d/y", ["b", "?c=1"])) == [
            f"{SITE}/d/b", f"{SITE}/d/y?c=1",
        ]  # fmt: skip


HREFS = st.lists(
    st.sampled_from(
        ["a", "b/", "../c", "/d", "#e", "?f=1", " ?g=2", "\t#h", "http:?i", "https:?j", "https:k",
         "https:/l", "//shop.example/m", "/n?o=1", "https://shop.example/p", "q?r=s:t", "u:v", "",
         "\\w", "http://shop.example:81/x", "/2040/01/", "y;jsessionid=1", "z.pdf", "./", "..",
         "javascript:void(0)", "https://www.shop.example/1", "/2?a=1", "/2?a=2", "/2?a=3",
         "/d#3", "/d #4", "a#5", "b/#", "https://shop.example/p#6", "https://shop.example/p\t#7",
         "javascript:void(0)#8", " /d#9"]
    ),
    max_size=20,
)  # fmt: skip
BASES = st.sampled_from(
    [f"{SITE}/", f"{SITE}/a/b", f"{SITE}/a/c?d=1", f"{SITE}/a/(S(lit3py55t21z5v55vlm25s55))/x",
     "https://u:p@shop.example./a/b", "http://shop.example/a/b", f"{SITE}/a/b;jsessionid=1#x",
     f"{SITE}/%7ea/b", "about:blank", f"{SITE}/a/", f"{SITE}/a/x.html", f"{SITE}/a/..",
     f"{SITE}/a/.", f"{SITE}/a/b\\c", f"{SITE}/a/?d=/b", f"{SITE}/%7ea/c", f"{SITE}/a/x#/b"]
)  # fmt: skip


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(st.tuples(BASES, HREFS), max_size=8), st.integers(1, 30))
def test_memory_changes_nothing(pages: list[tuple[str, list[str]]], remembered: int) -> None:
    crawl = links(remembered=remembered)
    for base, hrefs in pages:
        forgetful = links()
        expected = {}
        for href in hrefs:
            fate = forgetful.follow(base, href)
            if isinstance(fate, Link):
                expected[fate.id] = fate
        assert crawl.resolve(base, hrefs) == list(expected.values())
        assert crawl._held <= remembered + 2 + 2 * 20


def bytes_held(crawl: Links) -> int:
    """Of all that is remembered, each object once."""
    whole: dict[int, object] = {}
    found: list[object] = [crawl._by_site, crawl._by_folder, crawl._near, crawl._anywhere]
    found.append(crawl._hosts)
    while found:
        each = found.pop()
        if id(each) not in whole:
            whole[id(each)] = each
            if isinstance(each, dict):
                found += [*each.keys(), *each.values()]
            elif isinstance(each, tuple):
                found += each
    return sum(map(sys.getsizeof, whole.values()))


@pytest.mark.parametrize(
    "href",
    [
        lambda n: f"/{n}",
        lambda n: f"/{n}{'a' * 110}/",
        lambda n: f"/{n}{'a' * 400}/",
        lambda n: f"/{n}{'a' * 1900}",
        lambda n: f"/{n}\N{GRINNING FACE}",
        lambda n: f"/{n}{chr(0x1F600) * 37}",
        lambda n: f"/{n}{chr(0x1F600) * 490}",
        lambda n: f"/{n}{chr(0x1F600) * 1980}",
        lambda n: f"folder{n}/",
        lambda n: f"https://{'b' * 60}{n}.example/{'c' * 400}",
        lambda n: f"javascript:{chr(0x1F600) * 400}{n}",
    ],
)
def test_memory_is_bounded_whatever_links_are_like(href: Callable[[int], str]) -> None:
    crawl = links(remembered=100)
    most = 0
    for page in range(12):
        many = 150 if page == 6 else 15
        crawl.resolve(f"{SITE}/f/{page}", [href(page * 10_000 + n) for n in range(many)])
        most = max(most, bytes_held(crawl))
    assert most < 100 * 500


def test_memory_of_long_folders_is_bounded() -> None:
    crawl = links(remembered=100)
    most = 0
    for number in range(120):
        crawl.resolve(f"{SITE}/{'d' * 1900}{number}/", ["a"])
        most = max(most, bytes_held(crawl))
    assert most < 100 * 500


def test_links_to_one_host_share_its_text() -> None:
    crawl = links(within="any")
    found = crawl.resolve(f"{SITE}/a", [f"https://other.example/{number}" for number in range(5)])
    found += crawl.resolve("https://third.example/b", ["https://other.example/x", f"{SITE}/c"])
    assert len({link.host for link in found}) == 2
    assert len({id(link.host) for link in found}) == 2


def test_hosts_of_links_that_do_not_belong_are_not_kept() -> None:
    crawl = links()
    crawl.resolve(f"{SITE}/a", [f"https://h{number}.example/" for number in range(100)])
    assert not crawl._hosts


def test_links_of_common_length_are_looked_at_once() -> None:
    crawl = links()
    for page in range(5):
        crawl.resolve(f"{SITE}/{page}", [f"https://other.example/{'a' * 400}", "//b.example/c"])
    assert crawl.refused == {"within": 2}


def test_queries_of_one_path_end_somewhere() -> None:
    crawl = links(variants=5, remembered=3)

    for _ in range(3):
        found = crawl.resolve(f"{SITE}/", [f"/calendar?day={day}" for day in range(100)])
        assert len(found) == 5
    assert crawl.refused["variants"] > 0


def test_a_refusal_says_which_rule_said_no() -> None:
    fate = links().follow(f"{SITE}/", "https://other.example/")

    assert isinstance(fate, ScopeRefusal)
    assert fate.rule == "within"
    assert "scope.within" in fate.message


@pytest.mark.parametrize("location", ["https://www.shop.example/", "//www.shop.example/en"])
def test_links_to_where_a_seed_was_redirected_belong_after_all(location: str) -> None:
    crawl = links()
    href = "https://www.shop.example/a"
    assert crawl.resolve(f"{SITE}/", [href]) == []

    crawl.widen(f"{SITE}/", location)

    assert urls(crawl.resolve(f"{SITE}/", [href])) == [href]


def test_where_a_seed_was_redirected_opens_no_other_folders() -> None:
    crawl = links(within="prefix")
    crawl.widen(f"{SITE}/", "https://www.shop.example/en/")

    found = crawl.resolve("https://www.shop.example/en/", ["/en/a", "/de/a"])

    assert urls(found) == ["https://www.shop.example/en/a"]


def test_a_seed_belongs_whatever_the_rules_are() -> None:
    crawl = links(deny=(".",))

    assert crawl.seed("HTTPS://shop.example/a.pdf#b") == Link(
        fingerprint(f"{SITE}/a.pdf"), f"{SITE}/a.pdf", SITE
    )
    assert isinstance(crawl.seed("shop.example"), ScopeRefusal)


@pytest.mark.parametrize(
    ("name", "registrable"),
    [
        ("a.b.co.uk", "b.co.uk"),
        ("www.example.com", "example.com"),
        ("a.me.github.io", "me.github.io"),
        ("x.www.ck", "www.ck"),
        ("a.b.xn--55qx5d.cn", "b.xn--55qx5d.cn"),
    ],
)
def test_the_list_of_public_suffixes_comes_with_us(name: str, registrable: str) -> None:
    assert bundled().registrable(name) == registrable


def test_a_page_with_too_many_links_is_bounded() -> None:
    crawl = links(remembered=100_000)
    found = crawl.resolve(f"{SITE}/", [f"/{number}" for number in range(12_000)])
    assert crawl.first(found) == found[:MAX_LINKS]
    assert crawl.refused == {"links": 2_000}
    assert crawl.first(found, 50_000) == found
    assert crawl.first(found[:10]) == found[:10]
    assert crawl.refused == {"links": 2_000}


def test_the_links_of_a_page_have_so_many_characters_at_most() -> None:
    crawl = links(max_url_chars=65_536)
    found = crawl.resolve(f"{SITE}/", [f"/{number}{'x' * 50_000}" for number in range(200)])
    kept = crawl.first(found)
    assert kept == found[: len(kept)]
    assert 8_000_000 - 60_000 < len(msgspec.msgpack.encode(kept)) < 8_000_000
    assert crawl.refused == {"links": 200 - len(kept)}


def judged(body: bytes, content_type: str) -> tuple[Visit, Links]:
    crawl = links()
    judge = OutcomeReader(
        CrawlParameters(url=f"{SITE}/"),
        links=crawl,
        reader=PageReader(ExtractionPlan()),
        chance=lambda: 0.5,
        keep_bodies=False,
    )
    fetched = Fetched(
        url=f"{SITE}/",
        outcome=Outcome.OK,
        status=200,
        headers=(("content-type", content_type),),
        body=body,
    )
    visit = judge.judge(WaitingUrl(1, f"{SITE}/", 0, 1, 0), fetched, 0.0).visit
    assert visit is not None
    return visit, crawl


def test_what_is_not_followed_is_told_with_the_page() -> None:
    anchors = "".join(f"<a href=/{number}>x</a>" for number in range(50_000))
    visit, crawl = judged(anchors.encode(), "text/html")
    assert [link.url for link in visit.links] == [f"{SITE}/{n}" for n in range(MAX_LINKS)]
    assert visit.note == "only the first 10,000 of its links are followed"
    assert crawl.refused["links"] == 40_000


def test_a_sitemap_may_have_as_many_as_its_standard_allows() -> None:
    places = "".join(f"<url><loc>{SITE}/{number}</loc></url>" for number in range(12_000))
    sitemap = f"<?xml version='1.0'?><urlset>{places}</urlset>"
    visit, crawl = judged(sitemap.encode(), "application/xml")
    assert len(visit.links) == 12_000
    assert not crawl.refused
