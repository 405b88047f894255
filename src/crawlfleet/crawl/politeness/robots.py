"""Fetches and caches the robots.txt of visited hosts.

The decisions are in `core.urls.robots_rules`. The file's state moves with the host in its
`HostState`; the parsed rules stay behind.
"""

import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final

from crawlfleet.core.pages.page_signs import in_place_of_rules
from crawlfleet.core.politeness.retry import retry_after_s
from crawlfleet.core.urls.canonical import Canonicaliser
from crawlfleet.core.urls.robots_rules import (
    ALL_ALLOWED,
    MAX_BYTES,
    MAX_HOPS,
    RobotsAnswer,
    RobotsRules,
    is_due,
    learn,
    names_somebody,
    parse,
    verdict,
)
from crawlfleet.crawl.extract.markup import HtmlPage
from crawlfleet.crawl.extract.page_reader import visible_text
from crawlfleet.crawl.fetch.charset import to_utf8
from crawlfleet.crawl.fetch.messages import Fetched, FetchRequest
from crawlfleet.model.crawl.frontier import HostState
from crawlfleet.model.crawl.parameters import Outcome, Urls
from crawlfleet.telemetry import Component, logger

log = logger(Component.WORKER)

REMEMBERED: Final = 1000
"""Maximum number of hosts whose parsed rules are kept; others are parsed again from their state."""
REMEMBERED_BYTES: Final = 16_000_000
"""Maximum size of the robots.txt texts in memory: most have a few hundred bytes, but half a million
is allowed."""

_MOST_BODY_BYTES: Final = 10_000_000
_AS_THEY_ARE: Final = Urls(keep_tracking=True, sort_query=False, drop_session_ids=False)

_LOOKED_AT_BYTES: Final = 64_000
"""Number of bytes that are examined of a response without rules. Block pages are smaller, and even
the worst page of that size is parsed in a fraction of a second: the parser cannot be stopped
here."""
_MARK_UP: Final = re.compile(rb"\s*<").match
_COMPATIBLE: Final = re.compile(r"Mozilla/[^(]*\(compatible; *([A-Za-z_-]+)").match
_FIRST: Final = re.compile(r"\s*([A-Za-z_-]+)").match

Fetch = Callable[[FetchRequest], Awaitable[Fetched]]
"""Fetches one hop with a slot of that hop's host; never raises for what a site does."""


class Robots:
    """The robots.txt rules of each host."""

    def __init__(self, fetch: Fetch, *, product: str, remembered: int = REMEMBERED) -> None:
        """`product` is the name by which sites know us: the first word of the user agent."""
        self._fetch = fetch
        self._product = product
        self._remembered = remembered
        self._bytes = 0
        self._parsed: OrderedDict[str, tuple[bytes, RobotsRules]] = OrderedDict()
        self._urls = Canonicaliser(_AS_THEY_ARE)

    async def refreshed(
        self, host: str, state: HostState, now: float, *, fetch: Fetch | None = None
    ) -> HostState:
        """The host's state with a robots.txt that may be used now; fetched when it is due, by
        `fetch` if one is given.

        Asking twice at once fetches twice: let one ask for each host.
        """
        if not is_due(state, now):
            return state
        answer = await self._answer(f"{host}/robots.txt", now, fetch or self._fetch)
        return learn(state, answer, now)

    def rules(self, host: str, state: HostState, now: float) -> RobotsRules:
        """The rules that follow from a host's state."""
        found = verdict(state, now)
        if found.access == "all":
            return ALL_ALLOWED
        if found.access == "none":
            return RobotsRules(None, everything=False, reason=found.reason)
        text = state.robots or b""
        known = self._parsed.get(host)
        if known is not None and (known[0] is text or known[0] == text):
            self._parsed.move_to_end(host)
            return known[1]
        if known is not None:
            self._bytes -= len(known[0])
        rules = parse(text, self._product)
        self._parsed[host] = (text, rules)
        self._parsed.move_to_end(host)
        self._bytes += len(text)
        while len(self._parsed) > self._remembered or self._bytes > REMEMBERED_BYTES:
            _, (oldest, _) = self._parsed.popitem(last=False)
            self._bytes -= len(oldest)
        return rules

    async def _answer(self, url: str, now: float, fetch: Fetch) -> RobotsAnswer:
        for _ in range(MAX_HOPS + 1):
            fetched = await fetch(
                FetchRequest(url=url, content_types=("*/*",), max_body_bytes=_MOST_BODY_BYTES)
            )
            if not 300 <= fetched.status < 400 or fetched.outcome is not Outcome.REDIRECT:
                return RobotsAnswer(
                    outcome=fetched.outcome,
                    status=fetched.status,
                    body=fetched.body,
                    wall=_is_wall(fetched),
                    retry_after_s=retry_after_s(fetched.header("retry-after"), now),
                )
            target = self._urls.join(url, fetched.header("location") or "")
            if target is None or target == url:
                break
            url = target
        return RobotsAnswer(outcome=Outcome.REDIRECT_LOOP, status=310, lost_in_redirects=True)


def _is_wall(fetched: Fetched) -> bool:
    """Return whether a page that keeps visitors out came in place of robots.txt.

    A file with rules is taken for robots.txt, whatever its comments say. Mark-up and files without
    rules are examined.
    """
    if not 200 <= fetched.status < 500:
        return False
    text = to_utf8(fetched.body[:MAX_BYTES], fetched.header("content-type") or "").utf8
    if fetched.status < 300 and not _MARK_UP(text) and names_somebody(text):
        return False
    page = HtmlPage(text[:_LOOKED_AT_BYTES], fetched.url)
    signs = in_place_of_rules(
        status=fetched.status,
        title=page.title,
        text=visible_text(page),
        body=page.body,
        headers=fetched.headers,
    )
    if signs:
        log.info("a wall in place of robots.txt", url=fetched.url, why=signs)
    return signs is not None


def product_of(user_agent: str) -> str:
    """The name by which a robots.txt may call us: `crawlfleet` of `crawlfleet/1.0 (+https://…)`,
    `mybot` of `Mozilla/5.0 (compatible; mybot/2.0)`."""
    found = _COMPATIBLE(user_agent) or _FIRST(user_agent)
    return found[1] if found else "*"
