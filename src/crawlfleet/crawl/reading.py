"""One parse of a page: its items, its links, and what it allows."""

from collections.abc import Sequence
from typing import Any

import msgspec

from crawlfleet.core import page_signs
from crawlfleet.core.robots_tags import FREE, Directives, from_headers
from crawlfleet.core.values import read_json
from crawlfleet.crawl.discover import Found, discover
from crawlfleet.crawl.extract import Extractor
from crawlfleet.crawl.markup import Page
from crawlfleet.crawl.texts import text_of
from crawlfleet.model.extraction import Item, Plan


class Reading(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What was on a page."""

    items: Sequence[Item] = ()
    base: str
    """What the links are relative to."""
    links: Sequence[Found] = ()
    robots: Directives = FREE
    """Of the page and its headers."""
    title: str = ""
    blocked: str | None = None
    """What seems to keep us out in place of a page."""
    soft_404: str | None = None
    """Why the page seems to be a missing one, whatever its status."""
    cut: bool = False
    """Whether the page was too deep or too large to be read to its end."""


class PageReader:
    """Reads pages by a plan; the same reader serves a whole crawl."""

    def __init__(self, plan: Plan) -> None:
        self._extractor = Extractor(plan) if plan else None

    def read(
        self,
        body: bytes,
        url: str,
        *,
        status: int = 200,
        headers: Sequence[tuple[str, str]] = (),
        links: bool = True,
    ) -> Reading:
        """Read a page.

        `body` is UTF-8, `url` canonical, `headers` have lower-case names. JSON has items, but no
        links. The answer depends on nothing but the arguments. Never raises.
        """
        kind, tags = "", []
        for name, value in headers:
            if name == "content-type":
                kind = value
            elif name == "x-robots-tag":
                tags.append(value)
        robots = from_headers(tags) if tags else FREE
        page, document = open_page(body, url, kind)
        items = self._extractor.items(page, document) if self._extractor else ()
        if document is not None:
            return Reading(items=items, base=url, robots=robots)
        found = discover(page) if links else None
        title = page.title
        missing = wall = None
        if page_signs.worth_a_look(status=status, title=title, size=len(body)):
            text = _visible(page)
            missing = page_signs.soft_404(status=status, title=title, text=text)
            wall = page_signs.blocked(
                status=status, title=title, text=text, body=body, headers=headers
            )
        return Reading(
            items=items,
            base=page.base,
            links=found.links if found else (),
            robots=robots | found.robots if found else robots,
            title=title,
            blocked=wall,
            soft_404=missing,
            cut=page.cut or page.allowance.used_up,
        )


def _visible(page: Page) -> str:
    body = page.tree.body
    return "" if body is None else " ".join(text_of(body, page.allowance).split())


def open_page(body: bytes, url: str, content_type: str) -> tuple[Page, Any]:
    """The page, and its body as a value where that is JSON; `None` where it is not."""
    kind = content_type.partition(";")[0].strip().lower()
    document = None
    if kind.endswith("json") or (kind != "text/html" and body.lstrip()[:1] in {b"{", b"["}):
        document = read_json(body)
    return Page(b"" if document is not None else body, url), document
