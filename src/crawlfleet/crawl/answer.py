"""What an answer's status and headers mean to a crawl. Plain functions of values."""

import re
from collections.abc import Sequence
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Final

from crawlfleet.model.crawl import Outcome

REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
BLOCKS: Final = frozenset({401, 403, 407, 429, 451, 999})
"""999 is what some large sites say to crawlers."""
HTML_TYPES: Final = frozenset({"text/html", "application/xhtml+xml"})
MAX_RETRY_AFTER_S: Final = 86_400.0

_SECONDS: Final = re.compile(r"[0-9]{1,9}(?:\.[0-9]+)?", re.ASCII)


def judge(status: int, *, location: bool, conditional: bool) -> tuple[Outcome, str]:
    """The outcome that a status stands for, and what is wrong with it, for people.

    `location` says whether there was a Location header, `conditional` whether the request had
    conditions, without which nobody may answer "not modified".
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
    if status in BLOCKS:
        return Outcome.BLOCKED, f"the site answered {status}"
    if 400 <= status < 500:
        return Outcome.CLIENT_ERROR, f"the site answered {status}"
    if 500 <= status < 600:
        return Outcome.SERVER_ERROR, f"the site answered {status}"
    return Outcome.BAD_RESPONSE, f"{status} is no status"


def retry_after(value: str | None, now: float) -> float | None:
    """The seconds that a Retry-After header asks for; `None` when it says nothing that counts.

    Takes seconds and dates (`now` is wall clock). A moment in the past is 0, a far one a day.
    """
    if not value:
        return None
    value = value.strip()
    if _SECONDS.fullmatch(value):
        return min(float(value), MAX_RETRY_AFTER_S)
    try:
        moment = parsedate_to_datetime(value)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        seconds = moment.timestamp() - now
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
    return min(max(seconds, 0.0), MAX_RETRY_AFTER_S)


def media_type(content_type: str | None) -> str:
    """`text/html` of `Text/HTML; charset=…`; empty when there is none."""
    if not content_type:
        return ""
    return content_type.partition(";")[0].partition(",")[0].strip().lower()


def is_wanted(kind: str, wanted: Sequence[str]) -> bool:
    """Whether a media type is among those wanted. One that is not told may be anything."""
    if not kind or "*/*" in wanted or kind in wanted:
        return True
    return f"{kind.partition('/')[0]}/*" in wanted
