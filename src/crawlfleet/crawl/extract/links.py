"""Finds the links of a page as they are written, and the page's directives.

Links stay strings here, each once. Making them absolute and canonical is the most expensive step,
and follows where the crawl decides whether a link belongs to it.
"""

import re
from itertools import islice
from typing import Final, NamedTuple

from crawlfleet.core.urls.robots_tags import PRODUCT, addressed, from_words
from crawlfleet.crawl.extract.markup import HtmlPage
from crawlfleet.crawl.fetch.charset import UTF8
from crawlfleet.model.crawl.reading import FREE, Directives, LinkKind, LinkTraits

MOST: Final = 50_000
"""Maximum number of links of one page."""
LONGEST: Final = 65_536
"""Maximum number of characters of one link; a longer one is no address."""

_REFRESH: Final = re.compile(
    r"""\s*[\d.]*\s*(?:[;,]|\s)\s*(?:url\s*=\s*)?(?:"([^"]*)|'([^']*)|(.*))""",
    re.IGNORECASE | re.DOTALL,
)
_SKIPPED: Final = ("#", "javascript:", "mailto:", "tel:", "data:", "about:", "blob:", "sms:")
_LONGEST_SKIPPED: Final = max(map(len, _SKIPPED))
_DOUBTFUL: Final = frozenset(
    ("", *(begin(each[0]) for each in _SKIPPED for begin in (str.lower, str.upper)))
)
"""First characters of all skipped links; the empty string stands for an empty link."""
_UNENDORSED: Final = frozenset({"nofollow", "ugc", "sponsored"})
_TO_US: Final = addressed(PRODUCT)


PLAIN: Final = LinkTraits()
"""The traits of nearly every link."""
_UNENDORSED_ANCHOR: Final = LinkTraits(nofollow=True)


class Discovered(NamedTuple):
    """The links of a page with its base address and directives."""

    base: str
    """The base address of relative links."""
    links: dict[str, LinkTraits]
    """Links in the order of the page, each spelling once, without white space around them. Their
    queries are in the charset of the page."""
    robots: Directives = FREE
    """Directives in the page itself; headers may add more."""


def discover(page: HtmlPage, to_us: frozenset[str] = _TO_US) -> Discovered:
    """Return the links of a page; `to_us` are the names of meta elements with directives for this
    crawl. Never raises."""
    links: dict[str, LinkTraits] = {}
    robots = FREE
    for tag, attributes in page.leads:
        if tag == "a" or tag == "area":
            if (href := attributes.get("href")) is not None:
                href = href.strip()
                if (rel := attributes.get("rel")) and _is_unendorsed(rel):
                    links.setdefault(href, _UNENDORSED_ANCHOR)
                elif (known := links.get(href)) is None or known.nofollow:
                    links[href] = PLAIN
        elif tag == "link":
            if (href := attributes.get("href")) and (kind := _kind_of_link(attributes)):
                _add(links, href, kind)
        elif tag == "iframe" or tag == "frame":
            if source := attributes.get("src"):
                _add(links, source, LinkKind.FRAME)
        elif tag == "meta" and (content := attributes.get("content")):
            asked = _meta(content, attributes, links, to_us)
            if asked is not FREE:
                robots |= asked
    return Discovered(base=page.base, links=_usable(links, page), robots=robots)


def _is_unendorsed(rel: str) -> bool:
    return not _UNENDORSED.isdisjoint(rel.lower().split())


def _meta(
    content: str,
    attributes: dict[str, str | None],
    links: dict[str, LinkTraits],
    to_us: frozenset[str],
) -> Directives:
    """Return the directives of a meta element. The target of a refresh is added to `links`."""
    if (attributes.get("name") or "").strip().lower() in to_us:
        return from_words(content)
    refreshes = (attributes.get("http-equiv") or "").strip().lower() == "refresh"
    if refreshes and (target := _refreshed(content)):
        _add(links, target, LinkKind.REFRESH)
    return FREE


def _add(links: dict[str, LinkTraits], href: str, kind: LinkKind) -> None:
    href = href.strip()
    known = links.get(href)
    if known is None or known.nofollow:
        links[href] = LinkTraits(kind)


def _usable(links: dict[str, LinkTraits], page: HtmlPage) -> dict[str, LinkTraits]:
    """Drop links that cannot be addresses, and spell the others in the charset of the page."""
    doubtful = [href for href in links if href[:1] in _DOUBTFUL]
    if len(page.body) > LONGEST:
        doubtful += [h for h in links if len(h) > LONGEST and h[:1] not in _DOUBTFUL]
    for href in doubtful:
        if not leads_on(href):
            del links[href]
    if len(links) > MOST:
        links = dict(islice(links.items(), MOST))
    if page.charset != UTF8 and not "".join(links).isascii():
        return {page.spelt(href): found for href, found in links.items()}
    return links


def leads_on(href: str) -> bool:
    """Return whether the link may be the address of another page."""
    if not 0 < len(href) <= LONGEST:
        return False
    if href[0] == "/" or href[:4] == "http":
        return True
    return not href[:_LONGEST_SKIPPED].lower().startswith(_SKIPPED)


def _kind_of_link(attributes: dict[str, str | None]) -> LinkKind | None:
    rel = (attributes.get("rel") or "").lower().split()
    for word in rel:
        if word in {"next", "prev", "canonical", "sitemap"}:
            return LinkKind(word)
        if word == "previous":
            return LinkKind.PREV
        if word == "alternate":
            type = (attributes.get("type") or "").lower()
            if "rss" in type or "atom" in type:
                return LinkKind.FEED
            if attributes.get("hreflang") and "stylesheet" not in rel:
                return LinkKind.ALTERNATE
    return None


def _refreshed(content: str) -> str | None:
    """Return the target of a refresh such as `5; url=/next`; `None` if there is none."""
    found = _REFRESH.match(content[:LONGEST])
    if found is None:
        return None
    return (found[1] or found[2] or found[3] or "").strip() or None
