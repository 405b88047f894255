"""What reading a page gives: its items, its links, and what it asks of crawlers.

A process that reads large pages sends these to the process of the crawl. They are not compiled: of
the named tuples in a compiled module msgspec cannot see the types of the fields.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from crawlfleet.model.crawl.extraction import Item
from crawlfleet.model.crawl.parameters import Outcome


class Directives(NamedTuple):
    """What a page asks of crawlers."""

    noindex: bool = False
    nofollow: bool = False

    def __or__(self, other: "Directives") -> "Directives":
        return Directives(self.noindex or other.noindex, self.nofollow or other.nofollow)


FREE: Final = Directives()


class LinkKind(StrEnum):
    """What makes a link."""

    ANCHOR = "anchor"
    FRAME = "frame"
    REFRESH = "refresh"
    CANONICAL = "canonical"
    NEXT = "next"
    PREV = "prev"
    ALTERNATE = "alternate"
    """The same page in another language."""
    FEED = "feed"
    SITEMAP = "sitemap"
    LISTED = "listed"
    """A link in a sitemap or a feed."""


class LinkTraits(NamedTuple):
    """What a page says about one of its links."""

    kind: LinkKind = LinkKind.ANCHOR
    nofollow: bool = False
    """Set by `rel`: nofollow, ugc or sponsored. What the whole page asks for is in `robots`."""


class Reading(NamedTuple):
    """All that is known of a page once it was read."""

    base: str
    """The URL that relative links start from."""
    items: Sequence[Item] = ()
    links: Mapping[str, LinkTraits] = {}
    """The links by their spelling on the page."""
    is_listing: bool = False
    """Whether the page is a sitemap or a feed."""
    robots: Directives = FREE
    """What the page and its headers ask for."""
    outcome: Outcome = Outcome.OK
    """`soft_404` and `blocked` are guesses, and only made where no item was found."""
    note: str = ""
    """Why the outcome is not `ok`, or what is remarkable about the page."""
