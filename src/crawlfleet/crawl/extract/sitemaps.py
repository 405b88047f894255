"""Reads sitemaps and feeds: lists of links that a site offers.

They are read as a stream and with limits, since their authors may be mistaken or hostile: no
document types, no entities but the five, nothing loaded, nothing unpacked beyond a size. Entries
before an error count.

Written by hand: ultimate-sitemap-parser fetches by itself and is under the GPL, and feedparser has
no bounds.
"""

import re
import zlib
from collections.abc import Iterator
from enum import StrEnum
from typing import Any, Final

import msgspec

from crawlfleet.core.pages.values import convert
from crawlfleet.model.crawl.extraction import ValueType

MAX_ADDRESSES: Final = 50_000
"""As the sitemap protocol has it."""
MAX_BYTES: Final = 52_428_800
"""Likewise, unpacked."""
LONGEST: Final = 2_048
_GZIP: Final = b"\x1f\x8b"
_CHUNK: Final = 65_536
_WRONG_DECLARATION: Final = re.compile(rb"<!(?:DOCTYPE|ENTITY)", re.IGNORECASE)
_ENTRIES: Final = frozenset({"url", "sitemap", "item", "entry"})


class Form(StrEnum):
    """The kind of a list of links."""

    URLSET = "urlset"
    INDEX = "index"
    """A list of sitemaps."""
    TEXT = "text"
    RSS = "rss"
    ATOM = "atom"
    UNKNOWN = "unknown"


_ROOTS: Final = {
    "urlset": Form.URLSET,
    "sitemapindex": Form.INDEX,
    "rss": Form.RSS,
    "RDF": Form.RSS,
    "feed": Form.ATOM,
}


class Listed(msgspec.Struct, frozen=True, gc=False):
    """One address of a list, as it is written there."""

    href: str
    changed: str | None = None
    """When it was last changed or published, in ISO 8601."""


class LinkListing(msgspec.Struct, frozen=True, kw_only=True):
    """The links of a sitemap or feed."""

    form: Form
    entries: list[Listed]
    cut: bool = False
    """True when the list had more entries than the limits allow."""
    trouble: str | None = None
    """The fault that ended reading; entries before it are kept. `None` if there was none."""


def looks_like_listing(body: bytes, content_type: str = "") -> bool:
    """Return whether the body may be a sitemap or feed."""
    if body.startswith(_GZIP) or content_type == "text/plain":
        return True
    head = body[:2000]
    return any(mark in head for mark in (b"<urlset", b"<sitemapindex", b"<rss", b"<feed", b"<rdf:"))


def read_listing(
    body: bytes, *, utf8: bool = False, most: int = MAX_ADDRESSES, most_bytes: int = MAX_BYTES
) -> LinkListing:
    """Return the links of a sitemap (XML or text, gzipped or not) or of a feed. Never raises.
    `utf8`: the body was converted to UTF-8 before, whatever its declaration says."""
    utf8 = utf8 and not body.startswith(_GZIP)
    body, cut, trouble = _unpacked(body, most_bytes)
    start = body[:_CHUNK].lstrip(b"\xef\xbb\xbf \t\r\n")
    if not start.startswith(b"<"):
        return _text(body, most, cut, trouble)
    if _WRONG_DECLARATION.search(start):
        trouble = "it declares a document type or entities, which lists have no need of"
        return LinkListing(form=Form.UNKNOWN, entries=[], trouble=trouble)
    return _Stream(most, cut, trouble).read(body, "utf-8" if utf8 else None)


def _unpacked(body: bytes, most: int) -> tuple[bytes, bool, str | None]:
    """Return the body without gzip, whether it was cut, and the error if there was one."""
    if not body.startswith(_GZIP):
        return body[:most], len(body) > most, None
    unpacker = zlib.decompressobj(wbits=31)
    try:
        plain = unpacker.decompress(body, most)
    except zlib.error as error:
        return b"", False, f"it cannot be unpacked: {error}"
    if unpacker.unconsumed_tail:
        return plain, True, None
    return plain, False, None if unpacker.eof else "it is cut off in the middle"


def _text(body: bytes, most: int, cut: bool, trouble: str | None) -> LinkListing:
    """One address a line."""
    entries: list[Listed] = []
    for raw in body.split(b"\n"):
        line = raw.strip(b"\xef\xbb\xbf \t\r\0")
        if line[:8].lower().startswith((b"http://", b"https://")) and len(line) <= LONGEST:
            if len(entries) >= most:
                cut = True
                break
            entries.append(Listed(line.decode("utf-8", "replace")))
    form = Form.TEXT if entries else Form.UNKNOWN
    return LinkListing(form=form, entries=entries, cut=cut, trouble=trouble)


class _Stream:
    """Reads XML piece by piece, and keeps nothing but the entries."""

    def __init__(self, most: int, cut: bool, trouble: str | None) -> None:
        self._most = most
        self._cut = cut
        self._trouble = trouble
        self._form = Form.UNKNOWN
        self._entries: list[Listed] = []

    def read(self, body: bytes, encoding: str | None) -> LinkListing:
        from lxml import etree

        parser = etree.XMLPullParser(
            events=("start", "end"),
            encoding=encoding,
            recover=True,
            resolve_entities=False,
            no_network=True,
            load_dtd=False,
            huge_tree=False,
            remove_comments=True,
            remove_pis=True,
        )
        try:
            for at in range(0, len(body), _CHUNK):
                parser.feed(body[at : at + _CHUNK])
                if not self._take(parser.read_events()):
                    break
            else:
                parser.close()
                self._take(parser.read_events())
        except (etree.XMLSyntaxError, ValueError, AssertionError) as error:
            if not self._entries or self._trouble is None:
                self._trouble = f"it is no proper XML: {error}"
        return LinkListing(
            form=self._form, entries=self._entries, cut=self._cut, trouble=self._trouble
        )

    def _take(self, events: Iterator[Any]) -> bool:
        """Take the elements parsed so far. Returns false when reading can end."""
        for event, element in events:
            name = _local(element)
            if event == "start":
                if self._form is Form.UNKNOWN and element.getparent() is None:
                    self._form = _ROOTS.get(name, Form.UNKNOWN)
                continue
            if name in _ENTRIES:
                for entry in _entry(element, name):
                    if len(self._entries) >= self._most:
                        self._cut = True
                        return False
                    self._entries.append(entry)
                element.clear()
                while element.getprevious() is not None:
                    del element.getparent()[0]
        return True


def _entry(element: Any, name: str) -> Iterator[Listed]:
    """The address of an entry; with those of its other languages, where a sitemap has them."""
    href = changed = None
    others: list[str] = []
    for child in element:
        match _local(child):
            case "loc":
                href = href or _content(child)
            case "link" if name in {"item", "entry"}:
                if child.get("rel", "alternate") == "alternate":
                    href = href or child.get("href") or _content(child)
            case "link":
                others.append(child.get("href") or "")
            case "guid" if child.get("isPermaLink", "true") != "false":
                guid = _content(child)
                href = href or (guid if guid.startswith(("http://", "https://")) else None)
            case "lastmod" | "updated" | "published" | "pubDate" | "date":
                changed = changed or convert(_content(child), ValueType.DATE)
            case _:
                pass
    for each in (href, *others):
        if each and len(each) <= LONGEST:
            yield Listed(each.strip(), changed)


def _content(element: Any) -> str:
    return (element.text or "").strip()


def _local(element: Any) -> str:
    tag = element.tag
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""
