"""Requests to a fetcher and its results; a failing site is an outcome, not an error."""

from collections.abc import Callable
from typing import Literal

import msgspec

from crawlfleet.model.crawl.parameters import Outcome


class FetchRequest(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One request. Redirects are not followed: each hop is a visit of its own."""

    url: str
    """The URL, canonical and absolute, `http` or `https`."""
    headers: tuple[tuple[str, str], ...] = ()
    """Headers beside the usual ones: conditions, cookies of the host."""
    content_types: tuple[str, ...] = ("*/*",)
    """Content types whose body is read."""
    max_body_bytes: int = 10_000_000
    cut: bool = False
    """True to get the beginning of a body that is too large; otherwise its body is empty."""
    method: Literal["GET", "HEAD", "POST"] = "GET"
    body: bytes = b""
    """The body of a POST, over HTTP/1.1 only. It may be sent twice if a kept connection was
    dead."""
    proxy: str | None = None
    """Proxy for this request instead of the crawl's own."""
    may_go: Callable[[], bool] | None = None
    """A last check, called at the moment in which the request is to go out. `None`: there is
    none."""


class Fetched(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The result of a request."""

    url: str
    outcome: Outcome
    status: int = 0
    headers: tuple[tuple[str, str], ...] = ()
    """Headers in the order in which they came, with names in lower case."""
    body: bytes = b""
    """Body after transfer and content encodings were decoded."""
    wire_bytes: int = 0
    """Size of the message as it came over the wire, headers and all."""
    reason: str = ""
    """The cause of a failure, for people to read."""
    address: str = ""
    """The IP address of the server, or of the proxy where there is one."""
    sent_s: float = 0.0
    """Seconds until the request went out, from the same beginning as `first_byte_s` and
    `elapsed_s`."""
    first_byte_s: float = 0.0
    elapsed_s: float = 0.0

    def header(self, name: str) -> str | None:
        """Return the first value of a header, by its lower-case name; `None` if it is missing."""
        for key, value in self.headers:
            if key == name:
                return value
        return None
