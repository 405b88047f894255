"""Cookies that sites set, sent back to where they belong, and saved with the host.

The part of RFC 6265 that a crawler needs: domain, path, secure, expiry, and bounds on number and
size, since cookies come from strangers. Instants are wall clock.

Written by hand: `http.cookiejar` wants request objects of urllib, and has neither bounds nor public
suffixes.

    jar = CookieJar()
    jar.take(page.url, page.headers, now)
    headers = (("Cookie", value),) if (value := jar.header(url, now)) else ()
    state = HostState(cookies=jar.dump("shop.example", now))
"""

import re
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from datetime import UTC
from email.utils import parsedate_to_datetime
from functools import lru_cache
from ipaddress import ip_address
from typing import Final, NamedTuple

from crawlfleet.crawl.fetch.request import read_target
from crawlfleet.crawl.public_suffixes import bundled

MAX_COOKIES: Final = 50
"""Maximum number of cookies of one domain; the oldest are dropped first."""
MAX_COOKIE_BYTES: Final = 4096
MAX_DOMAIN_BYTES: Final = 8192
"""Maximum size of all cookies of one domain: servers refuse longer headers."""
MAX_DOMAINS: Final = 10_000

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")


class Cookie(NamedTuple):
    domain: str
    host_only: bool
    """True when the cookie is for this host alone, and not for its subdomains."""
    path: str
    name: str
    value: str
    secure: bool
    expires_at: float | None
    """Time at which the cookie expires. `None`: with the session, which for a crawl means never."""


class CookieJar:
    """The cookies of all hosts that a process visits. Costs next to nothing while it is empty."""

    def __init__(self) -> None:
        self._domains: OrderedDict[str, dict[tuple[str, str], Cookie]] = OrderedDict()

    def header(self, url: str, now: float) -> str | None:
        """The value of the Cookie header for a request; `None` when there is none to send."""
        if not self._domains or (target := read_target(url)) is None:
            return None
        origin = target.origin
        found = [
            cookie
            for cookie in self._known(origin.host, now)
            if (origin.tls or not cookie.secure) and _covers(cookie.path, target.path)
        ]
        if not found:
            return None
        found.sort(key=lambda cookie: -len(cookie.path))
        return "; ".join(f"{each.name}={each.value}" if each.name else each.value for each in found)

    def take(self, url: str, headers: Iterable[tuple[str, str]], now: float) -> bool:
        """Store the cookies of a response (names of headers in lower case). Returns whether it set
        any."""
        lines = [value for name, value in headers if name == "set-cookie"]
        if not lines or (target := read_target(url)) is None:
            return False
        path = target.path.partition("?")[0]
        changed = False
        for line in lines[-MAX_COOKIES:]:
            cookie = self._read(line, target.origin.host, path, target.origin.tls, now)
            if cookie is not None:
                self._put(cookie, now)
                changed = True
        return changed

    def dump(self, host: str, now: float) -> str:
        """Return the cookies of a host as text for `load`; empty when there are none."""
        if not self._domains:
            return ""
        return "\n".join(
            "\t".join(
                (
                    cookie.domain if cookie.host_only else f".{cookie.domain}",
                    cookie.path,
                    "" if cookie.expires_at is None else f"{cookie.expires_at:.0f}",
                    "secure" if cookie.secure else "",
                    cookie.name,
                    cookie.value,
                )
            )
            for cookie in self._known(host, now)
        )

    def load(self, host: str, text: str, now: float, *, unless_known: bool = False) -> None:
        """Load cookies that `dump` wrote for a host, here or elsewhere; other text is ignored.

        With `unless_known`, only if the host has no cookies here: of two sessions one is kept
        whole.
        """
        if unless_known and any(True for _ in self._known(host, now)):
            return
        for line in text.split("\n") if text else ():
            fields = line.split("\t")
            if len(fields) != 6 or (fields[2] and not fields[2].isdigit()):
                continue
            domain, path, expires, secure, name, value = fields
            cookie = Cookie(
                domain.removeprefix("."),
                not domain.startswith("."),
                path,
                name,
                value,
                bool(secure),
                float(expires) if expires else None,
            )
            if _belongs(host, cookie):
                self._put(cookie, now)

    def forget(self, host: str) -> None:
        """Drop a host's own cookies, for instance when another worker has taken the host over."""
        self._domains.pop(host, None)

    def _known(self, host: str, now: float) -> Iterator[Cookie]:
        """The cookies for a host: its own, and those of the domains above it."""
        for domain in _with_parents(host):
            for cookie in self._domains.get(domain, {}).values():
                if cookie.host_only and domain != host:
                    continue
                if cookie.expires_at is None or cookie.expires_at > now:
                    yield cookie

    def _read(self, line: str, host: str, path: str, tls: bool, now: float) -> Cookie | None:
        """The cookie of a Set-Cookie header; `None` when it may not be set."""
        pair, *rest = line.split(";")
        name, equals, value = pair.partition("=")
        if not equals:
            name, value = "", pair
        name, value = name.strip(), value.strip()
        if len(name) + len(value) > MAX_COOKIE_BYTES or not (name or value):
            return None
        if _CONTROL.search(pair):
            return None
        marks = {key.strip().lower(): text.strip() for key, _, text in _split(rest)}
        domain = self._scope(marks.get("domain", ""), host)
        secure = "secure" in marks
        if domain is None or (secure and not tls):
            return None
        given = marks.get("path", "")
        if not given.startswith("/") or len(given) > 1024 or _CONTROL.search(given):
            given = path.rpartition("/")[0] or "/"
        host_only = not marks.get("domain", "").strip(".") or (domain == host and _is_address(host))
        if name.startswith(("__Secure-", "__Host-")) and not secure:
            return None
        if name.startswith("__Host-") and (not host_only or given != "/"):
            return None
        return Cookie(domain, host_only, given, name, value, secure, _expiry(marks, now))

    @staticmethod
    def _scope(wanted: str, host: str) -> str | None:
        """The domain that a cookie of this host is for; `None` when the host may not set it."""
        wanted = wanted.removeprefix(".").lower()
        if not wanted or wanted == host:
            return host
        if not host.endswith(f".{wanted}") or _is_address(host):
            return None
        return None if is_public_suffix(wanted) else wanted

    def _put(self, cookie: Cookie, now: float) -> None:
        known = self._domains.get(cookie.domain)
        key = (cookie.name, cookie.path)
        if cookie.expires_at is not None and cookie.expires_at <= now:
            if known is not None:
                known.pop(key, None)
                if not known:
                    del self._domains[cookie.domain]
            return
        if known is None:
            known = self._domains[cookie.domain] = {}
            if len(self._domains) > MAX_DOMAINS:
                self._domains.popitem(last=False)
        known.pop(key, None)
        known[key] = cookie
        while len(known) > MAX_COOKIES or _weight(known) > MAX_DOMAIN_BYTES:
            del known[next(iter(known))]


def _split(attributes: list[str]) -> Iterator[tuple[str, str, str]]:
    return (each.partition("=") for each in attributes[:20])


def _weight(cookies: dict[tuple[str, str], Cookie]) -> int:
    return sum(len(each.name) + len(each.value) + len(each.path) for each in cookies.values())


def _expiry(marks: dict[str, str], now: float) -> float | None:
    age = marks.get("max-age", "")
    if age.removeprefix("-").isdigit():
        return now + min(int(age[:12]), 10**10) if not age.startswith("-") else 0.0
    if text := marks.get("expires"):
        try:
            moment = parsedate_to_datetime(text)
            return moment.replace(tzinfo=moment.tzinfo or UTC).timestamp()
        except (ValueError, TypeError, IndexError, OverflowError):
            return None
    return None


def _covers(path: str, asked: str) -> bool:
    """Return whether a cookie of `path` goes with a request for `asked` (query and all)."""
    if path == "/" or not asked.startswith(path):
        return path == "/"
    return path.endswith("/") or asked[len(path) : len(path) + 1] in {"", "/", "?"}


def _belongs(host: str, cookie: Cookie) -> bool:
    if host == cookie.domain:
        return True
    return not cookie.host_only and host.endswith(f".{cookie.domain}")


def _with_parents(host: str) -> Iterator[str]:
    yield host
    if _is_address(host):
        return
    _, dot, parent = host.partition(".")
    while dot:
        yield parent
        _, dot, parent = parent.partition(".")


@lru_cache(maxsize=10_000)
def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


@lru_cache(maxsize=10_000)
def is_public_suffix(domain: str) -> bool:
    """Return whether anybody may register names under a domain, such as `co.uk`."""
    below = f"x.{domain}"
    return bundled().registrable(below) == below
