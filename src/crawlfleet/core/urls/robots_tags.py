"""What a page allows: `<meta name="robots">` and the header `X-Robots-Tag`.

Both are lists of words, and may speak to one crawler by its name: `<meta name="mybot">`. What is
said to us by name is obeyed besides what is said to all.
"""

from collections.abc import Iterable
from typing import Final

from crawlfleet.model.crawl.reading import FREE, Directives

_VALUED: Final = frozenset(
    {"max-snippet", "max-image-preview", "max-video-preview", "unavailable_after"}
)
"""Words that a colon follows, so that it does not mean a name."""
PRODUCT: Final = "crawlfleet"
"""How sites know a crawl that does not introduce itself otherwise."""


def from_words(content: str) -> Directives:
    """Of the content of a robots meta element."""
    words = {word.strip() for word in content.lower().replace(";", ",").split(",")}
    if "none" in words:
        return Directives(True, True)
    return Directives("noindex" in words, "nofollow" in words)


def addressed(product: str) -> frozenset[str]:
    """The names of meta elements that speak to a crawler whose user agent has that product."""
    return frozenset({"robots", product.lower()})


def from_headers(values: Iterable[str], product: str = PRODUCT) -> Directives:
    """Of all values of `X-Robots-Tag`, for a crawler whose user agent has that product."""
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
