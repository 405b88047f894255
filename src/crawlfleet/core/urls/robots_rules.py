"""Rules of robots.txt, and those that follow from its absence (RFC 9309).

This module reads the lines and chooses the groups; protego matches the rules of the chosen group.
Where protego treats groups differently from the RFC, this module follows the RFC: protego takes
`User-agent: crawl` for a name of `crawlfleet`, since one is a prefix of the other, and does not
match `crawlfleet/1.0`. Beyond the RFC, as is common: `Crawl-delay`, and a line `Allow:
/folder/index.html` that allows `/folder/` too. Status 429 counts as unreachable, not as "no rules".
So does a wall in place of the file, whatever its status, and a 2xx that is no final answer, such as
202: the rules are behind it. A page of the site's own in its place is a file without rules.
"""

import re
from typing import Final, Literal

import msgspec
from protego import Protego

from crawlfleet.model.crawl.frontier import HostState
from crawlfleet.model.crawl.parameters import Outcome

MAX_BYTES: Final = 512_000
"""Limit of the text that is read, in bytes; the RFC demands 500 KiB."""
MAX_HOPS: Final = 5
_GIVEN: Final = frozenset({200, 203, 204})
"""Statuses of an answer with the file, or with an empty one. Other 2xx mean something else: 202 is
no final answer, 206 a part."""

LIFETIME_S: Final = 86_400.0
"""Seconds for which an answer is used: a day."""
FIRST_RETRY_S: Final = 300.0
MAX_RETRY_S: Final = 21_600.0
FORGIVEN_AFTER_S: Final = 30 * 86_400.0
"""Seconds of failures (30 days) after which the RFC lets a crawler go on as if there were no
file."""

_ENDS: Final = re.compile(r"\r\n|\r|\n")
_PLAIN_RULE: Final = re.compile(r"/[A-Za-z0-9/_.~-]*").match
_PRODUCT: Final = re.compile(r"[A-Za-z_-]+").match
_NAMES_SOMEBODY: Final = re.compile(
    rb"(?:\A(?:\xef\xbb\xbf)?|[\r\n])[ \t]*user[ -]?agent[ \t]*:", re.IGNORECASE
).search
_AGENT: Final = frozenset({"user-agent", "useragent", "user agent"})
_RULES: Final = {
    "allow": "Allow",
    "disallow": "Disallow",
    "dissallow": "Disallow",
    "dissalow": "Disallow",
    "disalow": "Disallow",
}
_DELAY: Final = frozenset({"crawl-delay", "crawl delay"})
_SITEMAP: Final = frozenset({"sitemap", "site-map"})
_MOST_SITEMAPS: Final = 1000


class RobotsRules:
    """Rules for one crawler on one site."""

    __slots__ = ("_beginnings", "_matcher", "crawl_delay_s", "everything", "reason", "sitemaps")

    def __init__(
        self,
        matcher: Protego | None,
        *,
        everything: bool,
        beginnings: tuple[str, ...] = ("",),
        crawl_delay_s: float | None = None,
        sitemaps: tuple[str, ...] = (),
        reason: str = "",
    ) -> None:
        self._matcher = matcher
        self._beginnings = beginnings
        """Beginnings of the paths that need the matcher; all other paths are allowed."""
        self.everything = everything
        """True if everything is allowed, false if nothing is; used when there is no matcher."""
        self.crawl_delay_s = crawl_delay_s
        self.sitemaps = sitemaps
        self.reason = reason
        """Reason why a URL is not allowed, for `explain`."""

    @property
    def closed(self) -> bool:
        """True if no URL is allowed."""
        return self._matcher is None and not self.everything

    def allows(self, url: str) -> bool:
        """Return whether the canonical URL may be visited; robots.txt itself always may."""
        if self._matcher is None:
            return self.everything or (url.endswith("/robots.txt") and url.count("/") == 3)
        path = url[url.index("/", 8) :]
        if "%" not in path and "//" not in path and not path.startswith(self._beginnings):
            return True
        return self._matcher.can_fetch(url, "*")


ALL_ALLOWED: Final = RobotsRules(None, everything=True)


def parse(body: bytes, product: str) -> RobotsRules:
    """Return the rules of a robots.txt for the crawler with this product token. Never raises."""
    body = body[:MAX_BYTES]
    text = body.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")
    groups, sitemaps = _read(text, product.lower())
    if groups.own is not None:
        rules, delay = groups.own
    else:
        rules, delay = groups.common
    restricts = any(rule.startswith("Disallow") for rule in rules)
    matcher = Protego.parse("\n".join(("User-agent: *", *rules))) if restricts else None
    return RobotsRules(
        matcher,
        everything=True,
        beginnings=tuple({_beginning(rule) for rule in rules if rule.startswith("Disallow")}),
        crawl_delay_s=delay,
        sitemaps=tuple(dict.fromkeys(sitemaps)),
        reason="robots.txt disallows it",
    )


def names_somebody(body: bytes) -> bool:
    """Return whether a line of the text names a crawler for its rules."""
    return _NAMES_SOMEBODY(body[:MAX_BYTES]) is not None


def _beginning(rule: str) -> str:
    """Return the fixed prefix of all paths that a line `Disallow: …` can match: the part before its
    first special character."""
    plain = _PLAIN_RULE(rule.removeprefix("Disallow: "))
    return plain[0] if plain else ""


class _Groups:
    """Rules and delay for our own name (`None` when no group has it) and for `*`."""

    __slots__ = ("common", "own")

    def __init__(self) -> None:
        self.own: tuple[list[str], float | None] | None = None
        self.common: tuple[list[str], float | None] = ([], None)


def _read(text: str, product: str) -> tuple[_Groups, list[str]]:
    """Read all groups; those of one name count together, wherever they are."""
    groups = _Groups()
    sitemaps: list[str] = []
    ours = common = naming = False
    for line in _ENDS.split(text):
        name, _, rest = line.partition("#")[0].partition(":")
        field, value = name.strip().lower(), rest.strip()
        if field in _AGENT:
            if not naming:
                ours = common = False
            naming = True
            if _names(value, product):
                ours = True
                groups.own = groups.own or ([], None)
            elif value.startswith("*"):
                common = True
        elif field in _SITEMAP:
            if value and len(sitemaps) < _MOST_SITEMAPS:
                sitemaps.append(value)
        elif field in _RULES or field in _DELAY:
            naming = False
            if ours and groups.own is not None:
                groups.own = _with(groups.own, field, value)
            if common:
                groups.common = _with(groups.common, field, value)
    return groups, sitemaps


def _with(
    group: tuple[list[str], float | None], field: str, value: str
) -> tuple[list[str], float | None]:
    rules, delay = group
    if field in _DELAY:
        return rules, _seconds(value) if delay is None else delay
    if value:
        rules.append(f"{_RULES[field]}: {value}")
    return group


def _names(value: str, product: str) -> bool:
    """Return whether a User-agent line names this product token, in any case."""
    token = _PRODUCT(value)
    return token is not None and token[0].lower() == product


def _seconds(value: str) -> float | None:
    try:
        seconds = float(value)
    except ValueError:
        return None
    return seconds if 0.0 <= seconds < 1e9 else None


class RobotsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Final result of the fetch of a robots.txt, after its redirects."""

    outcome: Outcome
    status: int = 0
    body: bytes = b""
    retry_after_s: float | None = None
    wall: bool = False
    """True if a wall (captcha, challenge, denial) answered in place of the file."""
    lost_in_redirects: bool = False
    """True if there were more redirects than allowed, or one that led nowhere."""


class RobotsVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """Access to a host that its robots.txt allows now."""

    access: Literal["rules", "all", "none"]
    reason: str = ""


def learn(state: HostState, answer: RobotsAnswer, now: float) -> HostState:
    """Return the host's state after an answer. A failure keeps the rules that were known before,
    and is retried sooner than an answer is refreshed."""
    if _unreachable(answer):
        since = state.robots_failed_at or now
        wait = min(max(FIRST_RETRY_S, now - since), MAX_RETRY_S)  # doubles by and by
        wait = max(wait, min(answer.retry_after_s or 0.0, LIFETIME_S))
        known = has_rules(state)
        return msgspec.structs.replace(
            state,
            robots=state.robots if known else None,
            robots_status=state.robots_status if known else answer.status,
            robots_failed_at=since,
            robots_until=now + wait,
        )
    found = 200 <= answer.status < 300 and not answer.lost_in_redirects
    return msgspec.structs.replace(
        state,
        robots=answer.body[:MAX_BYTES] if found else b"",
        robots_status=answer.status,
        robots_failed_at=0.0,
        robots_until=now + LIFETIME_S,
    )


def is_due(state: HostState | None, now: float) -> bool:
    """Return whether robots.txt has to be fetched before any other URL."""
    return state is None or now >= state.robots_until


def has_rules(state: HostState) -> bool:
    """Return whether the host has served a file, now or before it became unreachable."""
    return state.robots is not None and 200 <= state.robots_status < 300


def verdict(state: HostState, now: float) -> RobotsVerdict:
    """Return the access that follows from a host's state; only valid when robots.txt is not due."""
    if state.robots_failed_at:
        if has_rules(state):
            return RobotsVerdict(access="rules")
        if now - state.robots_failed_at >= FORGIVEN_AFTER_S:
            return RobotsVerdict(access="all")
        what = f"status {state.robots_status}" if state.robots_status else "no answer"
        if 200 <= state.robots_status < 500 and state.robots_status != 429:
            what += ", and a wall in its place"
        return RobotsVerdict(access="none", reason=f"robots.txt cannot be had ({what}): nothing is")
    if 200 <= state.robots_status < 300:
        return RobotsVerdict(access="rules")
    return RobotsVerdict(access="all")


def _unreachable(answer: RobotsAnswer) -> bool:
    if answer.lost_in_redirects:
        return False
    if answer.wall or (200 <= answer.status < 300 and answer.status not in _GIVEN):
        return True
    if answer.outcome is Outcome.TOO_LARGE and not answer.body:
        return True
    return answer.status == 0 or answer.status == 429 or answer.status >= 500
