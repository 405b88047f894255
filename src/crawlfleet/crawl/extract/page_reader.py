"""Reads a page in one parse: its items, its links, its directives, and whether it is a page at
all."""

from collections.abc import Sequence
from typing import Any, Final, Protocol

from crawlfleet.core.pages import page_signs
from crawlfleet.core.pages.values import read_json
from crawlfleet.core.urls.robots_tags import PRODUCT, addressed, from_headers
from crawlfleet.crawl.extract.extract import Extractor
from crawlfleet.crawl.extract.links import discover
from crawlfleet.crawl.extract.markup import HtmlPage
from crawlfleet.crawl.extract.sitemaps import Form, looks_like_listing, read_listing
from crawlfleet.crawl.extract.text import text_of
from crawlfleet.crawl.fetch.charset import UTF8, Text, to_utf8
from crawlfleet.model.crawl.extraction import ExtractionPlan
from crawlfleet.model.crawl.parameters import Outcome
from crawlfleet.model.crawl.reading import FREE, Directives, LinkKind, LinkTraits, Reading

HTML: Final = frozenset({"text/html", "application/xhtml+xml"})
GZIP: Final = b"\x1f\x8b"
"""First bytes of gzip data."""
CUT: Final = "too deep or too large to be read to its end"


def decoded(body: bytes, content_type: str) -> Text:
    """The body in UTF-8; a packed one (a sitemap may be) as it is."""
    return Text(body, UTF8) if body.startswith(GZIP) else to_utf8(body, content_type)


def read_failed(error: Exception) -> str:
    """Why a page is unreadable whose reading raised this."""
    return f"reading it failed: {type(error).__name__}: {error}"


class Reader(Protocol):
    """Reads the pages of a whole crawl."""

    def reads_at_once(self, body: bytes) -> bool:
        """Return whether `read` may read the page, because it cannot take long."""

    def read(
        self,
        body: bytes,
        url: str,
        *,
        charset: str = UTF8,
        status: int = 200,
        content_type: str = "",
        robots_tags: Sequence[str] = (),
        headers: Sequence[tuple[str, str]] = (),
    ) -> Reading:
        """Read a page, a JSON document, a sitemap or a feed.

        `body` is UTF-8 (or gzip, for a sitemap), and was in `charset` when it came, as
        `crawl.fetch.charset` names it; `url` is canonical, `robots_tags` are the values of
        `X-Robots-Tag`, `headers` have lower-case names. JSON has items and no links, sitemaps and
        feeds have links and no items. The answer depends on nothing but the arguments.
        """

    async def read_within_limit(
        self,
        body: bytes,
        url: str,
        *,
        status: int = 200,
        content_type: str = "",
        robots_tags: Sequence[str] = (),
        headers: Sequence[tuple[str, str]] = (),
    ) -> Reading:
        """Read a page that may take long, with its body as it came over the wire. A page that
        exceeds the limit yields the outcome `unreadable`."""

    async def close(self) -> None:
        """Free the resources of `read_within_limit`."""


class PageReader:
    """Reads pages by a plan; the same reader serves a whole crawl."""

    def __init__(self, plan: ExtractionPlan, *, product: str = PRODUCT) -> None:
        """`product` is the name by which pages may speak to this crawl."""
        self._extractor = Extractor(plan) if plan else None
        self._product = product
        self._to_us = addressed(product)

    def read(
        self,
        body: bytes,
        url: str,
        *,
        charset: str = UTF8,
        status: int = 200,
        content_type: str = "",
        robots_tags: Sequence[str] = (),
        headers: Sequence[tuple[str, str]] = (),
    ) -> Reading:
        robots = from_headers(robots_tags, self._product) if robots_tags else FREE
        kind = content_type.partition(";")[0].strip().lower()
        if kind not in HTML and looks_like_listing(body, kind):
            return _listing(body, url, robots)
        page, document = open_page(body, url, kind, charset)
        items = self._extractor.items(page, document) if self._extractor else ()
        if document is not None:
            return Reading(items=items, base=url, robots=robots)
        found = discover(page, self._to_us)
        outcome, note = Outcome.OK, ""
        if not items:
            outcome, note = _judged(page, status, headers)
        return Reading(
            items=items,
            base=found.base,
            links=found.links if outcome is not Outcome.BLOCKED else {},
            robots=robots | found.robots,
            outcome=outcome,
            note=note or (CUT if page.cut or page.allowance.used_up else ""),
        )


def _judged(page: HtmlPage, status: int, headers: Sequence[tuple[str, str]]) -> tuple[Outcome, str]:
    """Return the outcome of the page (`OK`, `BLOCKED` or `SOFT_404`) and the reason."""
    title = page.title
    if not page_signs.worth_a_look(status=status, title=title, size=len(page.body)):
        return Outcome.OK, ""
    text = visible_text(page)
    if why := page_signs.blocked(
        status=status, title=title, text=text, body=page.body, headers=headers
    ):
        return Outcome.BLOCKED, why
    if why := page_signs.soft_404(status=status, title=title, text=text):
        return Outcome.SOFT_404, why
    return Outcome.OK, ""


def visible_text(page: HtmlPage) -> str:
    """Return the visible text of the page without its title."""
    body = page.tree.body
    return "" if body is None else " ".join(text_of(body, page.allowance).split())


def _listing(body: bytes, url: str, robots: Directives) -> Reading:
    """Return a sitemap or a feed as a page of links."""
    listing = read_listing(body, utf8=True)
    kind = LinkKind.SITEMAP if listing.form is Form.INDEX else LinkKind.LISTED
    links = dict.fromkeys((each.href for each in listing.entries), LinkTraits(kind))
    note = listing.trouble or (CUT if listing.cut else "")
    return Reading(base=url, links=links, is_listing=True, robots=robots, note=note)


def open_page(body: bytes, url: str, kind: str, charset: str = UTF8) -> tuple[HtmlPage, Any]:
    """Return the page, and its body as a value if that is JSON, else `None`. `body` is UTF-8, and
    was in `charset` when it came."""
    document = None
    if kind.endswith("json") or (kind not in HTML and body[:100].lstrip()[:1] in {b"{", b"["}):
        document = read_json(body)
    return HtmlPage(b"" if document is not None else body, url, charset), document
