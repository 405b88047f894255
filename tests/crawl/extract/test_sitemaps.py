"""Sitemaps and feeds, good and bad."""

import gzip
import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlfleet.crawl.extract.sitemaps import Form, Listed, looks_like_listing, read_listing

URLSET = b"""<?xml version="1.0" encoding="UTF-8"?>
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"
 xmlns:xhtml="http://www.w3.org/1999/xhtml">
<!-- two -->
<url><loc> https://x.example/a?b=1&amp;c=2 </loc><lastmod>2026-11-15</lastmod></url>
<url><loc>https://x.example/b</loc><xhtml:link rel="alternate" hreflang="de"
 href="https://x.example/de/b"/></url>
</urlset>"""
INDEX = b"""<sitemapindex><sitemap><loc>https://x.example/s1.xml</loc></sitemap></sitemapindex>"""
RSS = b"""<rss version="2.0"><channel><title>T</title><link>https://x.example/</link>
<item><title>A</title><link>https://x.example/1</link><guid>1</guid>
<pubDate>Sun, 15 Nov 2026 11:00:00 GMT</pubDate></item>
<item><guid isPermaLink="true">https://x.example/2</guid></item>
<item><guid isPermaLink="false">urn:3</guid></item></channel></rss>"""
ATOM = b"""<feed xmlns="http://www.w3.org/2005/Atom"><link href="https://x.example/"/>
<entry><link rel="self" href="https://x.example/self"/><link href="https://x.example/1"/>
<updated>2026-11-15T10:00:00Z</updated></entry>
<entry><link rel="alternate" href="/2"/></entry></feed>"""


def hrefs(body: bytes) -> list[str]:
    return [entry.href for entry in read_listing(body).entries]


def test_a_urlset() -> None:
    listing = read_listing(URLSET)
    assert listing.form is Form.URLSET
    assert listing.trouble is None
    assert listing.entries == [
        Listed("https://x.example/a?b=1&c=2", "2026-11-15"),
        Listed("https://x.example/b"),
        Listed("https://x.example/de/b"),
    ]


def test_an_index() -> None:
    listing = read_listing(INDEX)
    assert listing.form is Form.INDEX
    assert listing.entries == [Listed("https://x.example/s1.xml")]


def test_feeds() -> None:
    rss = read_listing(RSS)
    assert rss.form is Form.RSS
    assert rss.entries == [
        Listed("https://x.example/1", "2026-11-15T11:00:00+00:00"),
        Listed("https://x.example/2"),
    ]
    atom = read_listing(ATOM)
    assert atom.form is Form.ATOM
    assert [entry.href for entry in atom.entries] == ["https://x.example/1", "/2"]


def test_a_list_in_plain_text() -> None:
    body = b"\xef\xbb\xbfhttps://x.example/a\r\n\r\nnothing\nhttp://x.example/b"
    listing = read_listing(body)
    assert listing.form is Form.TEXT
    assert [entry.href for entry in listing.entries] == [
        "https://x.example/a",
        "http://x.example/b",
    ]


def test_gzip_is_unpacked() -> None:
    assert hrefs(gzip.compress(URLSET)) == hrefs(URLSET)


def test_what_comes_before_an_error_counts() -> None:
    assert hrefs(URLSET[:260])[:1] == ["https://x.example/a?b=1&c=2"]
    broken = read_listing(gzip.compress(URLSET)[:-20])
    assert broken.trouble is not None
    assert read_listing(b"\x1f\x8bjunk").trouble is not None


def test_the_declared_encoding_can_be_overruled() -> None:
    body = '<?xml version="1.0" encoding="gbk"?><urlset><url><loc>http://x/茶</loc></url></urlset>'
    assert read_listing(body.encode(), utf8=True).entries == [Listed("http://x/茶")]
    assert read_listing(body.encode("gbk")).entries == [Listed("http://x/茶")]


def test_entities_and_document_types_are_refused() -> None:
    bomb = b'<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><urlset><url><loc>&b;</loc></url>'
    listing = read_listing(bomb)
    assert listing.entries == []
    assert listing.trouble is not None
    file = (
        b'<!DOCTYPE x [<!ENTITY f SYSTEM "file:///etc/passwd">]><urlset><url><loc>&f;</loc></url>'
    )
    assert read_listing(file).entries == []


@pytest.mark.slow
def test_a_packed_bomb_stays_packed() -> None:
    packer = zlib.compressobj(wbits=31)
    blanks = b" " * 1_000_000
    parts = [packer.compress(each) for each in (b"<urlset>", *[blanks] * 200)]
    bomb = b"".join(parts) + packer.flush()
    tracemalloc.start()
    listing = read_listing(bomb, most_bytes=1_000_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert listing.cut
    assert peak < 10_000_000


def test_there_are_not_more_addresses_than_allowed() -> None:
    body = b"<urlset>" + b"<url><loc>http://x/</loc></url>" * 100 + b"</urlset>"
    listing = read_listing(body, most=10)
    assert len(listing.entries) == 10
    assert listing.cut
    text = read_listing(b"http://x/\n" * 100, most=10)
    assert len(text.entries) == 10
    assert text.cut


@pytest.mark.parametrize(
    "body",
    [URLSET, INDEX, RSS, ATOM, gzip.compress(URLSET)],
    ids=["urlset", "index", "rss", "atom", "packed"],
)
def test_lists_are_known_by_their_looks(body: bytes) -> None:
    assert looks_like_listing(body)
    assert not looks_like_listing(b"<!doctype html><html><body><p>hello")


@given(st.binary(max_size=300))
def test_no_bytes_are_too_strange(body: bytes) -> None:
    read_listing(body)
    read_listing(b"<urlset><url><loc>" + body)
    read_listing(b"\x1f\x8b\x08" + body)
