"""Robots directives of a page: `<meta name="robots">` and the header `X-Robots-Tag`.

Both are lists of words, and may address one crawler by its name: `<meta name="mybot">`. Directives
for our name apply in addition to those for all crawlers.
"""

from collections.abc import Iterable
from typing import Final

from crawlfleet.model.crawl.reading import FREE, Directives

_VALUED: Final = frozenset(
    {"max-snippet", "max-image-preview", "max-video-preview", "unavailable_after"}
)
"""Words that are followed by a colon and a value, so that they are not the name of a crawler."""
PRODUCT: Final = "crawlfleet"
"""Product token of a crawl with the default user agent."""


def from_words(content: str) -> Directives:
    """Return the directives in the content of a robots meta element."""
    words = {word.strip() for word in content.lower().replace(";", ",").split(",")}
    if "none" in words:
        return Directives(True, True)
    return Directives("noindex" in words, "nofollow" in words)


def addressed(product: str) -> frozenset[str]:
    """Return the names of meta elements that address a crawler with this product token."""
    return frozenset({"robots", product.lower()})


def from_headers(values: Iterable[str], product: str = PRODUCT) -> Directives:
    """Return the directives in all values of `X-Robots-Tag`, for a crawler with this product
    token."""
    ours = {"*", product.lower()}
    found = FREE
    for value in values:
        to_us = True
        for part in value.lower().split(","):
            name, colon, rest = part.partition(":")
            if colon and name.strip() not in _VALUED:
                to_us = name.strip() in ours
                part = rest
            if to_us:
                found |= from_words(part)
    return found
