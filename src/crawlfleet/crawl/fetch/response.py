"""Interprets the status and headers of a response for a crawl. Plain functions of values."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from crawlfleet.model.crawl.parameters import Outcome

REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
BLOCKS: Final = frozenset({401, 403, 407, 429, 451, 999})
"""Status codes that mean that the crawler is blocked; some large sites send 999."""
HTML_TYPES: Final = frozenset({"text/html", "application/xhtml+xml"})


def judge(status: int, *, location: bool, conditional: bool) -> tuple[Outcome, str]:
    """Return the outcome of a status, and the fault in words.

    `location`: there was a Location header. `conditional`: the request had conditions, without
    which no server may answer "not modified".
    """
    if 200 <= status < 300:
        return Outcome.OK, ""
    if status in REDIRECTS:
        if location:
            return Outcome.REDIRECT, ""
        return Outcome.BAD_RESPONSE, f"{status} without saying where to go"
    if status == 304:
        if conditional:
            return Outcome.NOT_MODIFIED, ""
        return Outcome.BAD_RESPONSE, "304 to a request without conditions"
    if status == 300:
        return (Outcome.REDIRECT, "") if location else (Outcome.OK, "")
    if status == 402:
        return Outcome.PAYMENT_REQUIRED, "the site answered 402: it wants to be paid"
    if status in BLOCKS:
        return Outcome.BLOCKED, f"the site answered {status}"
    if 400 <= status < 500:
        return Outcome.CLIENT_ERROR, f"the site answered {status}"
    if 500 <= status < 600:
        return Outcome.SERVER_ERROR, f"the site answered {status}"
    return Outcome.BAD_RESPONSE, f"{status} is no status"


def media_type(content_type: str | None) -> str:
    """`text/html` of `Text/HTML; charset=…`; empty when there is none."""
    if not content_type:
        return ""
    return content_type.partition(";")[0].partition(",")[0].strip().lower()


@lru_cache(maxsize=1000)
def is_html(content_type: str) -> bool:
    """Return whether the content type is HTML."""
    return media_type(content_type) in HTML_TYPES


def is_wanted(kind: str, wanted: Sequence[str]) -> bool:
    """Return whether a media type is among those wanted. An empty one counts as wanted, since it
    may be anything."""
    if not kind or "*/*" in wanted or kind in wanted:
        return True
    return f"{kind.partition('/')[0]}/*" in wanted
