"""Whatever strangers repeat, reading it takes a time that grows as its length does.

Each reader gets, for each of many pieces, a text of about the greatest length that it may see, in
which that piece comes again and again. A loop that looks back over all that it has read takes many
times as long as it may. Regular expressions have a net of their own, which knows where they repeat.
"""

import gzip
import io
import signal
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import product
from types import FrameType
from typing import Any, Final, NamedTuple

import pytest

from crawlfleet.core.bundles.archives import BadArchive, look_into
from crawlfleet.core.pages.selectors import make_plan
from crawlfleet.core.urls.canonical import Canonicaliser
from crawlfleet.core.urls.robots_rules import MAX_BYTES, names_somebody, parse
from crawlfleet.core.urls.robots_tags import from_headers
from crawlfleet.crawl.engine.outcomes import asked_to_wait
from crawlfleet.crawl.extract.limited_reader import LARGE
from crawlfleet.crawl.extract.page_reader import PageReader
from crawlfleet.crawl.fetch.charset import is_binary, to_utf8
from crawlfleet.crawl.fetch.cookies import CookieJar
from crawlfleet.crawl.fetch.decoding import Overflowing, Undecodable, decoder
from crawlfleet.crawl.fetch.messages import Fetched
from crawlfleet.model.crawl.extraction import Item
from crawlfleet.model.crawl.parameters import Outcome
from crawlfleet.ports.sink import PageRecord
from tests.fuzzing.readers import PLANS, SITE, any_links, write

CPU_S_PER_MB: Final = 2.0
LEAST_CPU_S: Final = 0.5
"""For measuring on a busy machine."""
HEADER_BYTES: Final = 65_536
LONG: Final = 500_000
LARGEST: Final = 3_000_000
"""So much shows also what copies again and again, which is quick."""

MARK_UP: Final = (
    "<p>", "<p>x</p>", "<div>", "<div>x", "<b>", "<b><p>", "<a href=/{n}>", "<a href='/{n}'>x</a>",
    "<table><tr><td>", "<tr><td>1<td>2", "<ul><li>", "<li><a href=?{n}>y</a>", "<option>", "<svg>",
    "<select>", "<template>", "<script>", "<script>x</script>", "<style>", "<title>", "<textarea>",
    "<!--", "<!-- x -->", "<!x>", "</p>", "</x>", "<x{n}>", "<p a{n}=b>", "<p class='x{n}'>x</p>",
    "<meta property=og:title content={n}>", "<meta property=og:x{n} content=y>",
    "<base href=/{n}/>", "<meta name=robots content=noindex>",
    "<meta http-equiv=refresh content='0;url=/{n}'>", "<link rel=canonical href=/{n}>",
    "<link rel=alternate hreflang=x{n} href=/{n}>", "<div itemscope itemprop=x>",
    "<div itemscope itemprop='x y'>", "<i itemprop=x{n}>y</i>", "<div itemscope itemprop=x>y</div>",
    "<div itemscope></div><i itemprop=x>", "<h1>", "<h1>x</h1>",
    "<script type='application/ld+json'>[[",
    "<script type='application/ld+json'>{{\"a\":1}}</script>", "<p>&amp;", "&{n};", "&#x{n};",
    "\N{NO-BREAK SPACE}", "\x00", " ", "\n", "x ", "1,", "1.", "\u4e2d", "<font>", "<br>",
    "<img src=/{n}>", "<form><input name=x{n}>", "<frame src=/{n}>", "<nobr>",
    "<article class=post><h1>x</h1>", "<rt>", "<dl><dt>", "<button>", "<object>", "<h1><h2>",
)  # fmt: skip
"""`{n}` is another number each time."""
SITEMAPS: Final = (
    "<url><loc>http://x.example/{n}</loc></url>", "<url>", "<loc>", "<loc>/{n}",
    "<sitemap><loc>/{n}", "<item><link>/{n}</link></item>", "<entry><link href='/{n}'/>",
    "<!ENTITY a{n} '&a;'>", "<![CDATA[", "<xhtml:link rel=alternate href='/{n}'/>", "<a{n}>",
    "<?x?>",
)  # fmt: skip
ROBOTS: Final = (
    "\n", "\r", "\r\n", ":", "#", "*", "a", " ", "Disallow: /{n}\n", "Disallow: /\n",
    "Allow: /{n}*\n", "User-agent: *\n", "User-agent: x{n}\nDisallow: /{n}\n",
    "User-agent: crawlfleet\n", "Sitemap: /{n}\n", "Crawl-delay: {n}\n", "Disallow: /*a*{n}\r",
    "User-agent: crawlfleet\nDisallow: /{n}$\n",
)  # fmt: skip
ADDRESSES: Final = (
    "/", "//", "a", "a/", "../", "/../", "./", "?", "&", "&a=b", "&a{n}=b", "=", "%", "%41", "%ff",
    ";", ";a=b", "#", "\\", " ", "\t", "\u4e2d", "@", ":", "[", ".", "-", "xn--", "1.", "+", "|",
    "&jsessionid={n}",
)  # fmt: skip
COOKIES: Final = (
    ";", "=", ";a{n}", ";a{n}=b", "; Path=/", "; Domain=.x", "; Max-Age=9", "; Expires=x", '"', ",",
    " ", "a", ".", "; Domain=a.{n}", "\t",
)  # fmt: skip
TAGS: Final = (
    ",", ":", " ", "a", "noindex,", "crawlfleet:", "a{n}:", "unavailable_after: x,", "x{n},",
)  # fmt: skip
NUMBERS: Final = ("9", "1,", "a", " ", ",", "-", "Wed, 99 Jan 9999 ", "+", ":", "(", "\\(")
TYPES: Final = (*TAGS, *NUMBERS, "charset=", "'", '"', ";")
LINES: Final = (*NUMBERS, "[", "]", "[a]\n", "a{n}=b\n", "\n", "#", "\\\n", "-r x\n", ";")
TEXTS: Final = ("a", " ", "a ", "\n", "x{n}\n", '"', ",", "=", "\u4e2d", "\x00", "\r")
CHARSETS: Final = (
    "gbk", "big5", "shift_jis", "euc-jp", "iso-2022-jp", "euc-kr", "koi8-r", "utf-16le", "",
)  # fmt: skip
BYTES: Final = (
    b"\xa4\xa4", b"\xff", b"\x80", b"\x1b$B", b"\x1b(B\xa4", b"\x1b", b"a\xe4", b"\xd8\x00",
    b"\x8f\xa2\xaf", b"<meta charset=x>\xff", b"<!--\xff", b"\x81\x30\x81\x30", b"\x00\xff",
    b"\xe4\xb8", b"    \xe4",
)  # fmt: skip


class Case(NamedTuple):
    read: Callable[[Any], object]
    pieces: tuple[Any, ...]
    length: int
    may_take_s: float


READERS: Final = [PageReader(make_plan(plan, structured=True)) for plan, _ in PLANS[:6]]


def read_page(text: str) -> None:
    for reader in READERS:
        reader.read(text.encode(), f"{SITE}/")


def read_sitemap(text: str) -> None:
    for form in ("urlset", "sitemapindex", "rss", "feed"):
        body = f"<?xml version='1.0'?><{form}>{text}".encode()
        READERS[0].read(body, f"{SITE}/", content_type="application/xml")


def read_robots(text: str) -> None:
    for lead in ("", "User-agent: *\n", "User-agent: *\nDisallow: /"):
        body = (lead + text).encode()
        names_somebody(body)
        rules = parse(body, "crawlfleet")
        for address in ("/", "/a/b?c=d", "/" + "a" * 2000, "/" + "/%41" * 500):
            rules.allows(SITE + address)


def read_address(text: str) -> None:
    links = any_links()
    for lead in ("", "/", "//", "?", "#", "http://", "http://x.example/", "http://a@", "data:"):
        links.resolve(f"{SITE}/a/b", [lead + text])
        links.follow(f"{SITE}/a/b", lead + text)
        Canonicaliser().join(f"{SITE}/a/b?c", lead + text)


def read_many_addresses(text: str) -> None:
    """Links of one page, each a little longer or another one."""
    links = any_links()
    found = text.split("\n")
    links.resolve(f"{SITE}/a/b", found)
    for each in found[:2000]:
        links.follow(f"{SITE}/a/b", each)


def read_cookie(text: str) -> None:
    jar = CookieJar()
    for lead in ("a=b", "", "a="):
        jar.take(f"{SITE}/a/b", [("set-cookie", lead + text)], 0.0)
    jar.take(f"{SITE}/a/b", [("set-cookie", each) for each in text.split(";")], 0.0)
    jar.header(f"{SITE}/a/b", 0.0)
    CookieJar().load("shop.example", text.replace(";", "\n"), 0.0)


def read_tags(text: str) -> None:
    from_headers([text], "crawlfleet")
    from_headers(text.split(","), "crawlfleet")


def read_wait(text: str) -> None:
    headers = (("retry-after", text),)
    answer = Fetched(url=SITE, outcome=Outcome.BLOCKED, status=429, headers=headers, body=b"")
    asked_to_wait(answer, 0.0)


def read_content_type(text: str) -> None:
    for lead in ("", "text/html;", "text/html; charset=", "text/html; charset='"):
        to_utf8(b"\xff", lead + text)
        is_binary(b"\x00\xff", lead + text)


def read_charset(named: tuple[str, bytes]) -> None:
    charset, body = named
    to_utf8(body, f"text/html; charset={charset}" if charset else "")


def unpack(body: bytes) -> None:
    """In small portions: what is unpacked before is not looked at again."""
    for name, packed in (("gzip", gzip.compress(body, 0)), ("deflate", zlib.compress(body, 0))):
        for raw in (packed, body):
            layers = decoder(name, 10_000_000)
            assert layers is not None
            with suppress(Undecodable, Overflowing):
                for at in range(0, len(raw), 100):
                    layers.feed(raw[at : at + 100])
                layers.finish()


def read_archive(text: str) -> None:
    into = io.BytesIO()
    with zipfile.ZipFile(into, "w") as archive:
        for name in ("scrapy.cfg", "requirements.txt", "pyproject.toml", "a/settings.py"):
            archive.writestr(name, text)
    with suppress(BadArchive):
        look_into(into.getvalue())


def write_items(text: str) -> None:
    fields = {"title": text, "x": text.split(" "), "y": [{"a": each} for each in text.split("\n")]}
    write(PageRecord(id=1, url=f"{SITE}/", at=0.0, items=[Item(kind="pages", fields=fields)]))


CASES: Final = {
    "page": Case(read_page, MARK_UP, LARGE, len(READERS) * 1.0),
    "sitemap": Case(read_sitemap, (*SITEMAPS, *MARK_UP), LARGE, 4.0),
    "robots.txt": Case(read_robots, ROBOTS, MAX_BYTES, 3 * MAX_BYTES / 1e6 * CPU_S_PER_MB),
    "address": Case(read_address, ADDRESSES, HEADER_BYTES, 27 * 0.1),
    "cookie": Case(read_cookie, COOKIES, HEADER_BYTES, LEAST_CPU_S),
    "robots tag": Case(read_tags, TAGS, HEADER_BYTES, LEAST_CPU_S),
    "time to wait": Case(read_wait, NUMBERS, HEADER_BYTES, LEAST_CPU_S),
    "content type": Case(read_content_type, TYPES, HEADER_BYTES, 2.0),
    "charset": Case(read_charset, tuple(product(CHARSETS, BYTES)), LONG, LONG / 1e6 * CPU_S_PER_MB),
    "charset unknown": Case(to_utf8, BYTES, LARGEST, LARGEST / 1e6 * CPU_S_PER_MB),
    "packed": Case(unpack, (*BYTES, b"a"), LONG, 4 * LONG / 1e6 * CPU_S_PER_MB),
    "archive": Case(read_archive, LINES, LONG, 4.0),
    "item": Case(write_items, TEXTS, LONG, 3.0),
}  # fmt: skip


def repeated(piece: Any, length: int) -> Any:
    """The piece again and again, up to that length."""
    if isinstance(piece, tuple):
        return piece[0], repeated(piece[1], length)
    if isinstance(piece, bytes):
        return piece * (length // len(piece))
    if "{" not in piece:
        return piece * (length // len(piece))
    return "".join(piece.format(n=n) for n in range(length // len(piece.format(n=10_000))))


@contextmanager
def takes_at_most(cpu_s: float, what: str) -> Iterator[None]:
    """Ends it when it takes longer, where Python can."""

    def stop(signal_number: int, frame: FrameType | None) -> None:
        pytest.fail(f"{what} took more than {cpu_s:.1f} s", pytrace=False)

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, cpu_s)
    began = time.process_time()
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
    assert time.process_time() - began < cpu_s, what


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_no_repetition_makes_reading_slow(name: str) -> None:
    case = CASES[name]
    for piece in case.pieces:
        with takes_at_most(case.may_take_s, f"{piece!r}, again and again"):
            case.read(repeated(piece, case.length))
