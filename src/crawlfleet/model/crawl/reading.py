"""The result of reading a page: its items, its links, and its directives for crawlers.

A process that reads large pages sends these to the process of the crawl. They are not compiled: of
the named tuples in a compiled module msgspec cannot see the types of the fields.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from crawlfleet.model.crawl.extraction import Item
from crawlfleet.model.crawl.parameters import Outcome


class Directives(NamedTuple):
    """Directives of a page for crawlers."""

    noindex: bool = False
    nofollow: bool = False

    def __or__(self, other: "Directives") -> "Directives":
        return Directives(self.noindex or other.noindex, self.nofollow or other.nofollow)


FREE: Final = Directives()


class LinkKind(StrEnum):
    """The kind of element that contains a link."""

    ANCHOR = "anchor"
    FRAME = "frame"
    REFRESH = "refresh"
    CANONICAL = "canonical"
    NEXT = "next"
    PREV = "prev"
    ALTERNATE = "alternate"
    """A link to the same page in another language."""
    FEED = "feed"
    SITEMAP = "sitemap"
    LISTED = "listed"
    """A link in a sitemap or a feed."""


class LinkTraits(NamedTuple):
    """Attributes of a link on a page."""

    kind: LinkKind = LinkKind.ANCHOR
    nofollow: bool = False
    """True if `rel` has nofollow, ugc or sponsored. Directives of the whole page are in
    `robots`."""


class Reading(NamedTuple):
    """The result of reading a page."""

    base: str
    """Base URL of relative links."""
    items: Sequence[Item] = ()
    links: Mapping[str, LinkTraits] = {}
    """Links by their spelling on the page."""
    is_listing: bool = False
    """True if the page is a sitemap or a feed."""
    robots: Directives = FREE
    """Directives of the page and its headers."""
    outcome: Outcome = Outcome.OK
    """Outcome; `soft_404` and `blocked` are guesses, and only made if no item was found."""
    note: str = ""
    """Reason of an outcome other than `ok`, or a remark about the page."""
