"""What a page allows: `<meta name="robots">` and the header `X-Robots-Tag`.

Both are lists of words; the header may speak to one crawler by its name. What is said to us by
name is obeyed besides what is said to all.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

_VALUED: Final = frozenset(
    {"max-snippet", "max-image-preview", "max-video-preview", "unavailable_after"}
)
"""Words that a colon follows, so that it does not mean a name."""


class Directives(NamedTuple):
    """What a page asks of crawlers."""

    noindex: bool = False
    nofollow: bool = False

    def __or__(self, other: "Directives") -> "Directives":
        return Directives(self.noindex or other.noindex, self.nofollow or other.nofollow)


FREE: Final = Directives()


def from_words(content: str) -> Directives:
    """Of the content of a robots meta element."""
    words = {word.strip() for word in content.lower().replace(";", ",").split(",")}
    if "none" in words:
        return Directives(True, True)
    return Directives("noindex" in words, "nofollow" in words)


def from_headers(values: Iterable[str], agent: str = "crawlfleet") -> Directives:
    """Of all values of `X-Robots-Tag`."""
    found = FREE
    for value in values:
        to_us = True
        for part in value.lower().split(","):
            name, colon, rest = part.partition(":")
            if colon and name.strip() not in _VALUED:
                to_us = name.strip() in {"*", agent}
                part = rest
            if to_us:
                found |= from_words(part)
    return found
