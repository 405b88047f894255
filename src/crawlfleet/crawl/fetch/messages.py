"""What a fetch is asked for and what it brings back; a bad site is an outcome, not an error."""

from collections.abc import Callable
from typing import Literal

import msgspec

from crawlfleet.model.crawl.parameters import Outcome


class FetchRequest(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One request. Redirects are not followed: each hop is a visit of its own."""

    url: str
    """Canonical and absolute, `http` or `https`."""
    headers: tuple[tuple[str, str], ...] = ()
    """Beside the usual ones: conditions, cookies of the host."""
    content_types: tuple[str, ...] = ("*/*",)
    """Those whose body is read."""
    max_body_bytes: int = 10_000_000
    cut: bool = False
    """Whether the beginning of a body that is too large is wanted; else it is empty."""
    method: Literal["GET", "HEAD", "POST"] = "GET"
    body: bytes = b""
    """What a POST says; over HTTP/1.1 only. It may go twice, where a kept connection was dead."""
    proxy: str | None = None
    """Instead of the crawl's own."""
    may_go: Callable[[], bool] | None = None
    """Asked in the moment in which the request is to go out, where somebody has a say in that."""


class Fetched(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What came of it."""

    url: str
    outcome: Outcome
    status: int = 0
    headers: tuple[tuple[str, str], ...] = ()
    """Names in lower case, in the order of their coming."""
    body: bytes = b""
    """With transfer and content encodings undone."""
    wire_bytes: int = 0
    """As they came over the wire, headers and all."""
    reason: str = ""
    """What went wrong, for people."""
    address: str = ""
    """The IP address that was really talked to; that of the proxy where there is one."""
    sent_s: float = 0.0
    """Until the request went out, as `first_byte_s` and `elapsed_s` from the beginning."""
    first_byte_s: float = 0.0
    elapsed_s: float = 0.0

    def header(self, name: str) -> str | None:
        """The first value of a header, by its lower-case name."""
        for key, value in self.headers:
            if key == name:
                return value
        return None
