"""Where the links of pages lead whose charset is older than UTF-8: where browsers go."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from crawlfleet.core.pages.selectors import make_plan
from crawlfleet.core.pages.values import absolute
from crawlfleet.crawl.extract.page_reader import PageReader
from crawlfleet.crawl.fetch.charset import to_utf8
from crawlfleet.crawl.fetch.legacy_charsets import decode
from crawlfleet.model.crawl.reading import Reading
from crawlfleet.testing.zoo.animal import reply
from tests.crawl.crawling import OddSite, crawl, odd_site
from tests.support.browser import chromium

SITE = "http://site.example"
BASE = f"<!doctype html><base href='{SITE}/dir/page?b=1'>"

# The last column was taken from Chromium 156's `a.href`; the slow test below asks it again.
# fmt: off
LINKS = [
    ('gb2312', b'/s?q=\xd6\xd0\xce\xc4', '/s?q=%D6%D0%CE%C4'),
    ('gbk', b'/s?q=\x83r&n=1', '/s?q=%83r&n=1'),
    ('gb18030', b'?q=\xa2\xe3\x819\xee9', '/dir/page?q=%A2%E3%819%EE9'),
    ('x-gbk', b's?q=\xd6\xd0\xce\xc4#\xd6\xd0', '/dir/s?q=%D6%D0%CE%C4#%E4%B8%AD'),
    ('big5', b'/s?q=\xc1c\xc5\xe9\xa4\xa4\xa4\xe5', '/s?q=%C1c%C5%E9%A4%A4%A4%E5'),
    ('big5-hkscs', b'/s?q=\xb3\\\xa5\\\xbb\\', '/s?q=%B3\\%A5\\%BB\\'),
    ('shift_jis', b'/s?q=\x93\xfa\x96{\x8c\xea', '/s?q=%93%FA%96{%8C%EA'),
    ('windows-31j', b'/s?q=\x87@\x83\\\xee\xe0', '/s?q=%87@%83\\%FB%FC'),
    ('x-sjis', b'/s?q=\xb1\xb2\xb3\x81`', '/s?q=%B1%B2%B3%81`'),
    ('euc-jp', b'/s?q=\xc6\xfc\xcb\xdc\xb8\xec', '/s?q=%C6%FC%CB%DC%B8%EC'),
    ('euc-jp', b'/s?q=\xad\xa1\x8e\xb1\xa1\xc1', '/s?q=%AD%A1%8E%B1%A1%C1'),
    ('iso-2022-jp', b'/s?q=\x1b$BF|K\\\x1b(B&p=1', '/s?q=%1B$BF|K\\%1B(B&p=1'),
    ('euc-kr', b'/s?q=\xc7\xd1\xb1\xb9', '/s?q=%C7%D1%B1%B9'),
    ('ks_c_5601-1987', b'/s?q=\x8cc\xb9\xe6', '/s?q=%8Cc%B9%E6'),
    ('windows-949', b'/s?q=\xc7\xd1\xb1\xdb', '/s?q=%C7%D1%B1%DB'),
    ('windows-1250', b'/s?q=\x9elu\x9dou\xe8k\xfd', '/s?q=%9Elu%9Dou%E8k%FD'),
    ('windows-1251', b'/s?q=\xcf\xf0\xe8\xe2\xe5\xf2', '/s?q=%CF%F0%E8%E2%E5%F2'),
    ('windows-1252', b'/s?q=caf\xe9\x80', '/s?q=caf%E9%80'),
    ('iso-8859-1', b'/s?q=na\xefve\x80', '/s?q=na%EFve%80'),
    ('latin1', b'/s?q=stra\xdfe', '/s?q=stra%DFe'),
    ('us-ascii', b'/s?q=\xfcber', '/s?q=%FCber'),
    ('windows-1253', b'/s?q=\xc5\xeb\xeb\xdc\xe4\xe1', '/s?q=%C5%EB%EB%DC%E4%E1'),
    ('windows-1254', b'/s?q=\xdd\xf0\xfe', '/s?q=%DD%F0%FE'),
    ('iso-8859-9', b'/s?q=\xfeehir', '/s?q=%FEehir'),
    ('windows-1255', b'/s?q=\xf9\xec\xe5\xed', '/s?q=%F9%EC%E5%ED'),
    ('windows-1256', b'/s?q=\xe3\xd1\xcd\xc8\xc7', '/s?q=%E3%D1%CD%C8%C7'),
    ('windows-1257', b'/s?q=\xe0\xe8\xe6\xeb', '/s?q=%E0%E8%E6%EB'),
    ('windows-1258', b'/s?q=Vi\xeat', '/s?q=Vi%EAt'),
    ('tis-620', b'/s?q=\xe4\xb7\xc2', '/s?q=%E4%B7%C2'),
    ('windows-874', b'/s?q=\xa1\xc3\xd8\xa7', '/s?q=%A1%C3%D8%A7'),
    ('iso-8859-2', b'/s?q=\xa3\xf3d\xbc', '/s?q=%A3%F3d%BC'),
    ('iso-8859-3', b'/s?q=\xf8usta', '/s?q=%F8usta'),
    ('iso-8859-4', b'/s?q=\xf3\xbad\xba', '/s?q=%F3%BAd%BA'),
    ('iso-8859-5', b'/s?q=\xbc\xde\xe1\xda\xd2\xd0', '/s?q=%BC%DE%E1%DA%D2%D0'),
    ('iso-8859-6', b'/s?q=\xd3\xe4\xc7\xe5', '/s?q=%D3%E4%C7%E5'),
    ('iso-8859-7', b'/s?q=\xc1\xe8\xde\xed\xe1', '/s?q=%C1%E8%DE%ED%E1'),
    ('iso-8859-8', b'/s?q=\xf9\xec\xe5\xed', '/s?q=%F9%EC%E5%ED'),
    ('iso-8859-8-i', b'/s?q=\xf2\xe1\xf8\xe9\xfa', '/s?q=%F2%E1%F8%E9%FA'),
    ('iso-8859-10', b'/s?q=\xfe\xe6\xf0\xbf', '/s?q=%FE%E6%F0%BF'),
    ('iso-8859-13', b'/s?q=\xfealias', '/s?q=%FEalias'),
    ('iso-8859-14', b'/s?q=\xf0\xfe', '/s?q=%F0%FE'),
    ('iso-8859-15', b'/s?q=\xbduf\xa4', '/s?q=%BDuf%A4'),
    ('iso-8859-16', b'/s?q=\xfear\xe3', '/s?q=%FEar%E3'),
    ('koi8-r', b'/s?q=\xf0\xd2\xc9\xd7\xc5\xd4', '/s?q=%F0%D2%C9%D7%C5%D4'),
    ('koi8-u', b'/s?q=\xae\xbe\xf0', '/s?q=%AE%BE%F0'),
    ('ibm866', b'/s?q=\x8f\xe0\xa8\xa2\xa5\xe2', '/s?q=%8F%E0%A8%A2%A5%E2'),
    ('macintosh', b'/s?q=caf\x8e', '/s?q=caf%8E'),
    ('x-mac-cyrillic', b'/s?q=\x8f\xf0\xe8\xe2\xe5\xf2', '/s?q=%8F%F0%E8%E2%E5%F2'),
    ('windows-1251', b'/s?q=&#20013;&eacute;\xcf', '/s?q=%26%2320013%3B%26%23233%3B%CF'),
    ('iso-8859-1', b'/s?q=&#20013;&#128512;', '/s?q=%26%2320013%3B%26%23128512%3B'),
    ('gbk', b'/s?q=&#20013;&eacute;&euro;', '/s?q=%D6%D0%A8%A6%80'),
    ('shift_jis', b'/s?q=&#x4e2d;&yen;&minus;', '/s?q=%92%86\\%81|'),
    ('euc-jp', b'/s?q=&#9312;&cent;', '/s?q=%AD%A1%26%23162%3B'),
    ('iso-2022-jp', b'/s?q=a&#20013;b&eacute;', '/s?q=a%1B$BCf%1B(Bb%26%23233%3B'),
    ('iso-2022-jp', b'/s?q=c&yen;', '/s?q=c%1B(J\\%1B(B'),
    ('windows-1252', b"/s?q=\x81\x80'x'", '/s?q=%81%80%27x%27'),
    ('gbk', b'/\xd6\xd0\xce\xc4?q=\xd6\xd0#\xd6\xd0', '/%E4%B8%AD%E6%96%87?q=%D6%D0#%E4%B8%AD'),
    ('gbk', b'/a#?q=\xd6\xd0', '/a#?q=%E4%B8%AD'),
    ('gbk', b'/s?q=%E4%B8%AD\xd6\xd0&%d6', '/s?q=%E4%B8%AD%D6%D0&%d6'),
    ('gbk', b'http://other.example/s?\xd6\xd0=\xce\xc4?\xce\xc4', 'http://other.example/s?%D6%D0=%CE%C4?%CE%C4'),
    ('euc-kr', b'//other.example?\xc7\xd1', 'http://other.example/?%C7%D1'),
    ('utf-8', b'/s?q=\xe4\xb8\xad\xe6\x96\x87', '/s?q=%E4%B8%AD%E6%96%87'),
    ('utf-16le', b'/\x00s\x00?\x00q\x00=\x00-N\x87e', '/s?q=%E4%B8%AD%E6%96%87'),
    ('unicode-1-1-utf-8', b'/s?q=\xc3\xa9', '/s?q=%C3%A9'),
]
# fmt: on
"""The charset that the page's header names, the link's bytes on the page, and where it leads."""


def page_with(label: str, href: bytes) -> bytes:
    before, after = f'{BASE}<a href="', '">x</a>'
    if label == "utf-16le":
        return before.encode("utf-16-le") + href + after.encode("utf-16-le")
    return before.encode() + href + after.encode()


def reading_of(body: bytes, content_type: str = "text/html") -> Reading:
    text = to_utf8(body, content_type)
    reader = PageReader(make_plan({"to": "a@href"}))
    return reader.read(text.utf8, f"{SITE}/", charset=text.charset, content_type=content_type)


def led_to(reading: Reading) -> list[str | None]:
    return [absolute(reading.base, href) for href in reading.links]


def test_the_table_has_links_of_all_charsets() -> None:
    assert len(LINKS) >= 60
    assert len({label for label, _, _ in LINKS}) >= 45


@pytest.mark.parametrize(("label", "href", "expected"), LINKS)
def test_a_link_leads_where_browsers_go(label: str, href: bytes, expected: str) -> None:
    target = SITE + expected if expected.startswith("/") else expected

    assert led_to(reading_of(page_with(label, href), f"text/html; charset={label}")) == [target]


def test_a_page_of_ascii_may_name_its_charset_itself() -> None:
    body = b"<meta charset=gbk><a href='/s?q=&#20013;'>x</a><a href='/s?p=1'>y</a>"

    assert led_to(reading_of(body)) == [f"{SITE}/s?q=%D6%D0", f"{SITE}/s?p=1"]
    assert led_to(reading_of(body[18:])) == [f"{SITE}/s?q=%E4%B8%AD", f"{SITE}/s?p=1"]


def test_all_that_leads_elsewhere_is_in_the_charset_of_the_page() -> None:
    body = """<base href="/d?q=中"><link rel=canonical href="/c?q=中"><link rel=next href="?n=中">
        <meta http-equiv=refresh content="5; url=/r?q=中"><iframe src="/f?q=中"></iframe>
        <a href="">x</a><a href="/中?q=中">y</a><area href="/a?q=中">"""
    reading = reading_of(body.encode("gbk"), "text/html; charset=gb2312")

    assert reading.base == f"{SITE}/d?q=%D6%D0"
    assert set(led_to(reading)) == {
        f"{SITE}/{each}=%D6%D0" for each in ("c?q", "d?n", "r?q", "f?q", "a?q", "%E4%B8%AD?q")
    }


def test_addresses_in_items_are_those_of_the_links() -> None:
    body = "<div class=p><a href='/s?q=中'>x</a><b itemscope><a itemprop=url href='?q=中'></a>"
    text = to_utf8(body.encode("gbk"), "text/html; charset=gbk")
    plan = make_plan({"p": ".p", "to": {"css": "a@href", "type": "url"}}, structured=True)
    items = PageReader(plan).read(text.utf8, f"{SITE}/", charset=text.charset).items

    assert items[0].fields["to"] == f"{SITE}/s?q=%D6%D0"
    assert items[0].fields["url"] == f"{SITE}/s?q=%D6%D0"
    microdata = items[-1].fields["microdata"]
    assert microdata[0]["properties"]["url"] == [f"{SITE}/?q=%D6%D0"]


def test_lists_of_addresses_are_utf8_whatever_their_text_is() -> None:
    """Sitemaps and feeds have addresses, and no browser goes where they lead."""
    body = (
        "<?xml version='1.0' encoding='gbk'?><urlset><url><loc>http://a.example/?q=中</loc></url>"
    )
    reading = reading_of(body.encode("gbk"), "application/xml")

    assert led_to(reading) == ["http://a.example/?q=%E4%B8%AD"]


@pytest.fixture
def site() -> Iterator[OddSite]:
    with odd_site() as site:
        yield site


@pytest.mark.slow
def test_a_crawl_asks_for_what_browsers_ask_for(site: OddSite, tmp_path: Path) -> None:
    codecs = {"gb2312": "gbk", "shift_jis": "cp932", "windows-1251": "cp1251"}
    site.page("/", *(f"/{label}/" for label in codecs))
    for label, codec in codecs.items():
        body = f"<a href='/{label}?q=ио'>x</a>".encode(codec)
        site.answers[f"/{label}/"] = reply(body, content_type=f"text/html; charset={label}")
    site.answers["/raw"] = b"HTTP/1.1 302 Found\r\nLocation: /\xd6\xd0\r\nContent-Length: 0\r\n\r\n"
    crawl(tmp_path, site.url("/"), site.url("/raw"))

    asked = set(site.paths())
    expected = {"/gb2312?q=%A7%DA%A7%E0", "/shift_jis?q=%84y%84%80", "/windows-1251?q=%E8%EE"}
    assert expected <= asked
    assert "/%D6%D0" in asked


@pytest.mark.slow
def test_chromium_still_goes_there(site: OddSite) -> None:
    for number, (label, href, _) in enumerate(LINKS):
        kind = f"text/html; charset={label}"
        site.answers[f"/{number}"] = reply(page_with(label, href), content_type=kind)
    found = []
    with chromium() as browser:
        tab = browser.new_page()
        for number in range(len(LINKS)):
            tab.goto(site.url(f"/{number}"))
            found.append(tab.evaluate("document.links[0].href").removeprefix(SITE))

    assert found == [expected for _, _, expected in LINKS]


@pytest.mark.slow
def test_text_is_read_as_chromium_reads_it(site: OddSite) -> None:
    """All bytes of the small charsets, and all pairs of the large ones."""
    small = [
        *("koi8-r", "koi8-u", "macintosh", "windows-874", "ibm866", "x-mac-cyrillic"),
        *(f"windows-125{number}" for number in range(9)),
        *(f"iso-8859-{number}" for number in (2, 3, 4, 5, 6, 7, 8, 10, 13, 14, 15, 16)),
    ]
    # How many characters Python's codecs have elsewhere, or not at all.
    large = {"euc-kr": 0, "euc-jp": 0, "shift_jis": 0, "gbk": 20, "gb18030": 20, "big5": 200}
    site.page("/")
    with chromium() as browser:
        tab = browser.new_page()
        tab.goto(site.url("/"))
        for name in small:
            single = tab.evaluate(
                "e => [...Array(128).keys()].map("
                "b => new TextDecoder(e).decode(new Uint8Array([b + 128])))", name,
            )  # fmt: skip
            assert [decode(bytes((byte,)), name) for byte in range(128, 256)] == single, name
        for name, others in large.items():
            pairs = tab.evaluate(
                "e => { const d = new TextDecoder(e), found = [];"
                "for (let a = 129; a < 255; a++) for (let b = 64; b < 255; b++)"
                "found.push(d.decode(new Uint8Array([a, b]))); return found }", name,
            )  # fmt: skip
            ours = [decode(bytes((a, b)), name) for a in range(129, 255) for b in range(64, 255)]
            theirs = zip(ours, pairs, strict=True)
            differing = [(a, b) for a, b in theirs if a != b and "\ufffd" not in b]
            assert len(differing) <= others, name
