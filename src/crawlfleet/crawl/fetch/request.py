"""A request as it goes over the wire.

URLs and headers come from pages in the end, so that nothing may pass here that would end a line.
"""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final, NamedTuple

import ada_url

from crawlfleet import __version__
from crawlfleet.model.crawl.parameters import Fetching

ACCEPT: Final = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
ENCODINGS: Final = "gzip, deflate, br, zstd"
OURS: Final = frozenset({"host", "connection", "content-length", "transfer-encoding", "upgrade"})
"""Headers that belong to the connection, which callers may not set."""
OF_HTTP_1: Final = frozenset({"keep-alive", "proxy-connection", "te"})
"""Headers that have no place in HTTP/2."""
DEFAULT_PORTS: Final = {"http": 80, "https": 443}

_ORIGIN: Final = re.compile(
    r"(https?)://(?:[^@/?#]*@)?([a-z0-9._~-]+|\[[0-9a-f:.]+\])(?::([0-9]{1,5}))?", re.ASCII
)
_DOTTED: Final = re.compile(r"(?:(?:0|[1-9][0-9]{0,2})\.){3}(?:0|[1-9][0-9]{0,2})", re.ASCII)
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
_BREAKS: Final = re.compile(r"[\r\n\0]")


class RequestOrigin(NamedTuple):
    """The server that a URL names. Credentials in a URL are left off."""

    tls: bool
    host: str
    """A name or an address, without brackets."""
    port: int
    authority: str
    """Host and port as in a Host header."""


class Target(NamedTuple):
    origin: RequestOrigin
    path: str
    """Path with the query."""


def read_target(url: str) -> Target | None:
    """Return the target of a URL; `None` if it is no web address.

    A canonical URL is read directly; any other is made canonical first.
    """
    if (target := _read_canonical(url)) is not None:
        return target
    try:
        return _read_canonical(ada_url.URL(url).href)
    except ValueError:
        return None


def _read_canonical(url: str) -> Target | None:
    cut = url.find("/", 8)
    if cut < 0 or " " in url or not (url.isascii() and url.isprintable()):
        return None
    if (origin := _read_origin(url[:cut])) is None:
        return None
    path = url[cut:]
    if "#" in path:
        path = path.partition("#")[0]
    return Target(origin, path)


@lru_cache(maxsize=10_000)
def _read_origin(text: str) -> RequestOrigin | None:
    if not (match := _ORIGIN.fullmatch(text)):
        return None
    scheme, host, port = match.groups()
    if host.rpartition(".")[2][:1].isdigit() and not _DOTTED.fullmatch(host):
        return None  # an IPv4 address in one of its odd spellings
    usual = DEFAULT_PORTS[scheme]
    number = int(port) if port else usual
    if not 0 < number < 65536:
        return None
    authority = host if number == usual else f"{host}:{number}"
    return RequestOrigin(scheme == "https", host.strip("[]"), number, authority)


def user_agent(fetching: Fetching) -> str:
    """Return the User-Agent header: the configured one, or ours with the contact address if one is
    set."""
    for name, value in fetching.headers.items():
        if name.lower() == "user-agent":
            return value
    if fetching.user_agent:
        return fetching.user_agent
    contact = f" (+{fetching.contact})" if fetching.contact else ""
    return f"crawlfleet/{__version__}{contact}"


def header_problem(headers: Iterable[tuple[str, str]]) -> str | None:
    """Why these headers cannot be sent; `None` when they can."""
    for name, value in headers:
        if not _NAME.fullmatch(name):
            return f"{name!r} is no name of a header"
        if name.lower() in OURS:
            return f"the header {name} is set by the connection itself"
        if _BREAKS.search(value):
            return f"the header {name} has a line break or a NUL in it"
    return None


class Manner:
    """The headers that all requests of a crawl share."""

    def __init__(self, fetching: Fetching) -> None:
        headers = {"User-Agent": user_agent(fetching), "Accept": ACCEPT}
        headers |= {"Accept-Encoding": ENCODINGS}
        replaced = {name.lower() for name in fetching.headers}
        self._headers: Mapping[str, str] = {
            **{name: value for name, value in headers.items() if name.lower() not in replaced},
            **fetching.headers,
        }
        self.problem = header_problem(self._headers.items())
        self._names = frozenset(name.lower() for name in self._headers)
        self._common = "".join(f"{name}: {value}\r\n" for name, value in self._headers.items())

    def fields(
        self, method: str, path: str, authority: str, extra: tuple[tuple[str, str], ...]
    ) -> list[tuple[bytes, bytes]]:
        """The request as fields of HTTP/2, over TLS; `extra` as for `encode`."""
        fields = {":method": method, ":scheme": "https", ":authority": authority, ":path": path}
        for name, value in (*self._headers.items(), *extra):
            if (lower := name.lower()) not in OF_HTTP_1:
                fields[lower] = value
        return [
            (name.encode(), value.encode("latin-1", "replace")) for name, value in fields.items()
        ]

    def encode(
        self, method: str, path: str, authority: str, extra: tuple[tuple[str, str], ...]
    ) -> bytes:
        """The request; `extra` headers, which must be without problem, replace the common ones."""
        if not extra:
            text = f"{method} {path} HTTP/1.1\r\nHost: {authority}\r\n{self._common}\r\n"
            return text.encode("latin-1", "replace")
        given = {name.lower() for name, _ in extra}
        common = self._common
        if not self._names.isdisjoint(given):
            common = "".join(
                f"{name}: {value}\r\n"
                for name, value in self._headers.items()
                if name.lower() not in given
            )
        more = "".join(f"{name}: {value}\r\n" for name, value in extra)
        text = f"{method} {path} HTTP/1.1\r\nHost: {authority}\r\n{common}{more}\r\n"
        # Cookies and validators go back as they came: byte for byte where they can.
        return text.encode("latin-1", "replace")
