"""All that reads bytes of strangers, each with something to read.

A reader is a function of a generator of chance: it makes an input, reads it as the product does,
and returns how large it was. It fails by an exception, by never ending, or by its memory.
"""

import asyncio
import contextlib
import gzip
import io
import random
import re
import zipfile
import zlib
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import brotli
import msgspec

from crawlfleet import zstd
from crawlfleet.adapters.sinks.csv import CommaSeparated
from crawlfleet.adapters.sinks.jsonl import JsonLines
from crawlfleet.adapters.sinks.warc import WarcFormat
from crawlfleet.core.bundles.archives import BadArchive, look_into
from crawlfleet.core.pages.selectors import make_plan
from crawlfleet.core.urls.canonical import Canonicaliser
from crawlfleet.core.urls.robots_rules import parse
from crawlfleet.core.urls.robots_tags import addressed, from_headers
from crawlfleet.core.urls.scope import Territory
from crawlfleet.core.urls.traps import Variants
from crawlfleet.crawl.engine.outcomes import OutcomeReader, asked_to_wait
from crawlfleet.crawl.extract.limited_reader import LimitedReader
from crawlfleet.crawl.fetch.charset import is_binary, to_utf8
from crawlfleet.crawl.fetch.cookies import CookieJar
from crawlfleet.crawl.fetch.decoding import Overflowing, Undecodable, decoder
from crawlfleet.crawl.fetch.fetcher import Fetcher
from crawlfleet.crawl.fetch.messages import Fetched, FetchRequest
from crawlfleet.crawl.links import Links
from crawlfleet.model.crawl.frontier import WaitingUrl
from crawlfleet.model.crawl.parameters import CrawlParameters, Fetching, Limits, Outcome, Scope
from crawlfleet.ports.sink import PageRecord
from tests.fuzzing.web_pages import ADDRESSES, broken, json_document, links, web_page

SITE: Final = "https://shop.example"
MAX_BYTES: Final = 5_000_000
PLANS: Final[tuple[tuple[dict[str, Any], bool], ...]] = (
    ({}, False),
    ({}, True),
    ({"title": "h1", "price": {"css": ".price", "type": "price"}, "x": "a@href"}, False),
    ({"product": "div", "title": "p", "link": "a@href"}, False),
    ({"rows": {"select": "div", "fields": {"a": "a@href", "p": {"css": "p", "many": True}}}}, True),
    ({"deep": "div div div p", "wide": "p ~ p:nth-child(2n+1) ~ b", "html": "div::html"}, False),
    ({"a": {"xpath": "//div/p"}, "b": {"xpath": "//a/@href"}}, False),
    ({"a": {"xpath": "//div//p[. = //b]"}, "b": "h1"}, False),
    ({"a": {"json": "$.a"}, "all": {"json": "$[*]", "type": "json", "many": True}}, False),
    ({"n": {"css": "p", "regex": r"(\d+)+", "type": "number"}, "d": {"css": "p", "type": "date"}},
     False),
)  # fmt: skip
KINDS: Final = ("text/html", "text/html; charset=gbk", "", "application/json", "application/xml")


LIMITS: Final = (
    re.compile(r"reading it took more than [\d.]+ s of CPU"),
    re.compile(
        r"(the HTML parser gave up|reading it failed): it needs more memory than the [\d,]+ MB "
        r"that a page of [\d.]+ MB may have; .+"
    ),
)


class Read(NamedTuple):
    """An input that was read."""

    bytes: int
    unreadable: str = ""
    """The reason."""


def a_size(chance: random.Random, most: int = MAX_BYTES) -> int:
    """Mostly small, now and then as large as it gets."""
    return int(min(most, 10 ** chance.uniform(2, 6.7)))


def any_links() -> Links:
    territory = Territory(Scope(within="any"), Limits(), [f"{SITE}/"], year=2026)
    return Links(Canonicaliser(), territory, Variants(1000), remembered=100)


def read_page(chance: random.Random) -> Read:
    """A page on its whole way: charset, parser, items, links, and every format of output."""
    selectors, structured = chance.choice(PLANS)
    kind = chance.choice(KINDS)
    size = a_size(chance)
    body = json_document(chance, size) if "json" in kind else web_page(chance, size)
    return Read(len(body), asyncio.run(_visit(selectors, structured, kind, body)))


async def _visit(selectors: dict[str, Any], structured: bool, kind: str, body: bytes) -> str:
    """Read a page as a crawl does. Return why it is unreadable, nothing where it is not."""
    reader = LimitedReader(make_plan(selectors, structured=structured))
    judge = OutcomeReader(
        CrawlParameters(url=f"{SITE}/"),
        links=any_links(),
        reader=reader,
        chance=lambda: 0.5,
        keep_bodies=True,
    )
    fetched = Fetched(
        url=f"{SITE}/",
        outcome=Outcome.OK,
        status=200,
        headers=(("content-type", kind), ("x-robots-tag", "noarchive")),
        body=body,
    )
    try:
        reading = None
        if not judge.reads_at_once(fetched):
            reading = await judge.read_within_limit(fetched)
        judged = judge.judge(WaitingUrl(1, f"{SITE}/", 0, 1, 0), fetched, 0.0, reading=reading)
    finally:
        await judge.close()
    assert judged.visit is not None
    # A small page has no reason to fail: nothing in it is too much for the reader.
    if judged.visit.outcome is Outcome.UNREADABLE:
        assert is_a_limit(judged.visit.note), judged.visit.note
    if judged.page is not None:
        write(judged.page)
    return judged.visit.note if judged.visit.outcome is Outcome.UNREADABLE else ""


def is_a_limit(note: str) -> bool:
    """Tell whether a page is unreadable because it reached its limit on CPU or on memory."""
    return any(limit.fullmatch(note) for limit in LIMITS)


def write(page: PageRecord) -> None:
    for format in (JsonLines(kinds=True), CommaSeparated(("title", "x")), WarcFormat()):
        format.encode([page])


def read_robots(chance: random.Random) -> Read:
    lines = ("User-agent: *", "Disallow: /*a*b*c*$", "Allow: /", "Crawl-delay: 1e9", "Sitemap: x")
    lines += ("Disallow:", "\ufeffUser-agent: crawlfleet", "Disallow: " + "*" * 500, "#", "a" * 999)
    body = chance.choice(("\n", "\r\n", "\r")).join(
        chance.choices(lines, k=a_size(chance, 1_000_000) // 15)
    )
    raw = broken(chance, body.encode())
    rules = parse(raw, "crawlfleet")
    for address in ADDRESSES:
        if canonical := Canonicaliser().join(f"{SITE}/", address):
            rules.allows(canonical)
    rules.allows(SITE + "/" + "a" * 5000 + "b" * 5000)
    return Read(len(raw))


def read_sitemap(chance: random.Random) -> Read:
    form = chance.choice(("urlset", "sitemapindex", "rss", "feed", "x"))
    entry = chance.choice(
        (
            "<url><loc>https://shop.example/{n}</loc><lastmod>2026</lastmod></url>",
            "<item><link>https://shop.example/{n}</link></item>",
            "<entry><link href='/{n}'/>",
            "<a>",
            "<!ENTITY a '&b;&b;&b;'>&a;",
        )
    )
    count = a_size(chance) // len(entry) + 1
    body = f"<?xml version='1.0'?><{form}>" + "".join(entry.format(n=n) for n in range(count))
    raw = broken(chance, body.encode() + f"</{form}>".encode())
    packed = gzip.compress(raw, 1) if chance.random() < 0.3 else raw
    asyncio.run(_visit({}, False, "application/xml", packed))
    return Read(len(raw))


def read_charset(chance: random.Random) -> Read:
    body = web_page(chance, a_size(chance, 1_000_000))
    name = chance.choice(("gbk", "big5", "shift_jis", "utf-16", "koi8-r", "utf-7", "iso-2022-jp"))
    raw = broken(chance, body.decode("utf-8", "replace").encode(name, "replace"))
    kind = chance.choice(("", f"text/html; charset={name}", "text/html; charset=" + " " * 60_000))
    to_utf8(raw, kind)
    is_binary(raw, kind)
    return Read(len(raw))


def read_encoding(chance: random.Random) -> Read:
    body = web_page(chance, a_size(chance, 2_000_000))
    coded = {
        "gzip": lambda: gzip.compress(body, 1),
        "deflate": lambda: zlib.compress(body, 1),
        "br": lambda: brotli.compress(body, quality=1),
        "zstd": lambda: zstd.compress(body, 1),
    }
    names = chance.choices(list(coded), k=chance.choice((1, 1, 2, 3)))
    raw = broken(chance, coded[names[0]]())
    layers = decoder(", ".join(names), 10_000_000)
    if layers is not None:
        try:
            for at in range(0, len(raw), 65_536):
                layers.feed(raw[at : at + 65_536])
            layers.finish()
        except (Undecodable, Overflowing):
            pass
    return Read(len(raw))


def read_cookies(chance: random.Random) -> Read:
    jar = CookieJar()
    parts = ("a=b", "Domain=.shop.example", "Path=/", "Max-Age=99999999999", "Expires=x", "Secure")
    parts += ("=", ";", "a" * 5000, "\x00=\x01", "Expires=Wed, 99 Jan 9999 99:99:99 GMT", '"' * 50)
    lines = ["; ".join(chance.choices(parts, k=chance.randint(1, 30))) for _ in range(200)]
    jar.take(f"{SITE}/a/b", [("set-cookie", line) for line in lines], 1_763_200_000.0)
    jar.header(f"{SITE}/a/b", 1_763_200_000.0)
    CookieJar().load("shop.example", jar.dump("shop.example", 0.0), 0.0)
    return Read(sum(map(len, lines)))


def read_links(chance: random.Random) -> Read:
    kit = (*ADDRESSES, "a" * 60_000, "/" * 60_000, "?" + "&=" * 30_000, "%" * 60_000, "/(" * 9_000)
    kit += ("/;jsessionid=" + "a" * 60_000, "/a/b" * 9_000, "." * 60_000, "/../" * 9_000)
    found = [
        broken(chance, chance.choice(kit).encode("utf-8", "replace")).decode("utf-8", "replace")
        for _ in range(50)
    ]
    place = any_links()
    place.resolve(f"{SITE}/a/b", found)
    for each in found:
        place.follow(f"{SITE}/a/b", each)
    return Read(sum(map(len, found)))


def read_headers(chance: random.Random) -> Read:
    values = ("none", "crawlfleet: noindex", "unavailable_after: x", ",", ":", "a:" * 9_000)
    tags = chance.choices(values, k=50)
    from_headers(tags, "crawlfleet")
    addressed("crawlfleet")
    wait = chance.choice(
        ("1e999", "9" * 99_999, "Wed, 99 Jan 9999 99:99:99 GMT", "a," * 9_000, "-")
    )
    fetched = Fetched(
        url=SITE, outcome=Outcome.BLOCKED, status=429, headers=(("retry-after", wait),), body=b""
    )
    asked_to_wait(fetched, 0.0)
    return Read(sum(map(len, tags)) + len(wait))


def read_answer(chance: random.Random) -> Read:
    """What a server sends, by the fetcher itself."""
    body = web_page(chance, a_size(chance, 200_000))
    headers = [
        "Content-Type: text/html",
        chance.choice((f"Content-Length: {len(body)}", "Transfer-Encoding: chunked", "X: y")),
        *chance.choices(
            ("Set-Cookie: a=b", "X" * 3000 + ": y", " folded", ": none", "a b: c", "Location: /x"),
            k=chance.randint(0, 20),
        ),
    ]
    status = chance.choice((200, 200, 301, 304, 404, 503, 99, 1000))
    head = f"HTTP/1.1 {status} OK\r\n" + "\r\n".join(headers) + "\r\n\r\n"
    if "chunked" in head:
        body = f"{len(body):x}\r\n".encode() + body + b"\r\n0\r\n\r\n"
    raw = broken(chance, head.encode() + body) if chance.random() < 0.7 else head.encode() + body
    asyncio.run(_fetch(raw))
    return Read(len(raw))


async def _fetch(raw: bytes) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1000)
        writer.write(raw)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    limits = Limits(first_byte_s=2, idle_s=2, total_s=5)
    fetcher = Fetcher(limits=limits, fetching=Fetching(allow_private=True), allow_private=True)
    try:
        request = FetchRequest(url=f"http://127.0.0.1:{port}/", max_body_bytes=1_000_000)
        assert isinstance((await fetcher.fetch(request)).outcome, Outcome)
    finally:
        await fetcher.close()
        server.close()


MEMBERS: Final[tuple[str, ...]] = ("scrapy.cfg", "setup.py", "a/b.py", "../x", "/e")
MEMBERS += ("requirements.txt", "pyproject.toml")


def read_archive(chance: random.Random) -> Read:
    """What users upload as code."""
    into = io.BytesIO()
    with zipfile.ZipFile(into, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in chance.sample(MEMBERS, chance.randint(1, 6)):
            with_text = chance.choice(
                (b"[settings]\ndefault = a.b\n", b"[" * 9_000, b"x #" * 9_000, links(chance, 9_000))
            )
            archive.writestr(name, with_text)
    raw = broken(chance, into.getvalue())
    with contextlib.suppress(BadArchive):
        look_into(raw)
    return Read(len(raw))


def read_json(chance: random.Random) -> Read:
    raw = broken(chance, json_document(chance, a_size(chance, 1_000_000)))
    asyncio.run(_visit(*PLANS[8], "application/json", raw))
    return Read(len(raw))


READERS: Final[dict[str, Callable[[random.Random], Read]]] = {
    "page": read_page,
    "robots.txt": read_robots,
    "sitemap": read_sitemap,
    "charset": read_charset,
    "encoding": read_encoding,
    "cookies": read_cookies,
    "links": read_links,
    "headers": read_headers,
    "answer": read_answer,
    "archive": read_archive,
    "json": read_json,
}
WEIGHTS: Final = {"page": 8}


class Step(msgspec.Struct, frozen=True):
    """What reading one input took, in all processes."""

    seed: int
    reader: str
    bytes: int
    cpu_s: float
    unreadable: str = ""
