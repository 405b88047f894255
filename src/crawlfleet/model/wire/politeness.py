"""Messages between crawls and the fleet's politeness ledger.

A key is a host, a registered domain or an IP address. All times are spans from when the message
was written: the two sides need no common clock.
"""

from typing import Final

import msgspec

HOST: Final = "host:"
DOMAIN: Final = "domain:"
ADDRESS: Final = "address:"


class Terms(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Politeness of one crawl for a key, without regard to other crawls."""

    key: str
    delay_s: float
    """Seconds between the starts of two requests."""
    concurrency: int
    """Maximum number of requests at once."""
    most: int = 0
    """Maximum part of `concurrency` that this engine uses; other workers of the same crawl use the
    rest. 0 for no own limit."""


class WindowRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A request for windows of all these keys at once."""

    host: str
    keys: tuple[Terms, ...]
    waiting: int = 1


class Return(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The return of a key that is not needed any more, or whose window is over."""

    key: str
    started_ago_s: float | None = None
    """Seconds since the start of the last request; `None` when there was none."""
    in_flight: int = 0
    """Number of running requests; the engine sends the return again when they have ended."""


class Pause(msgspec.Struct, frozen=True, kw_only=True):
    """A pause that a host asked for, or of a host that cannot be reached."""

    key: str
    for_s: float
    why: str


class LedgerRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All messages of an engine at once; returns and pauses are handled before wants."""

    wants: tuple[WindowRequest, ...] = ()
    returns: tuple[Return, ...] = ()
    pauses: tuple[Pause, ...] = ()
    longest_s: float = 60.0
    """Maximum duration of one request of this engine."""
    engine: str = ""
    """Name of the engine within an execution that has several."""


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """A time in which requests to a key may start, with a maximum number at once."""

    key: str
    start_in_s: float
    """Seconds from the arrival of the answer to the start of the window."""
    end_in_s: float
    """Seconds from the sending of the request to the end of the window."""
    delay_s: float
    """Seconds between two starts: the longest delay of all crawls that visit the key."""
    permits: int


class Refused(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A refusal for now."""

    host: str
    key: str
    """Key that is busy or paused."""
    again_in_s: float
    why: str
    is_pause: bool = False
    """True if the host is paused for all crawls until then."""


class LedgerReply(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Windows and refusals for an engine."""

    windows: tuple[Window, ...] = ()
    refusals: tuple[Refused, ...] = ()


class KeyUse(msgspec.Struct, frozen=True, kw_only=True):
    """Users and state of a key, for people."""

    key: str
    delay_s: float = 0.0
    concurrency: int = 1
    used_by: tuple[str, ...] = ()
    """Executions that may send requests now, or have some running."""
    waiting: tuple[str, ...] = ()
    """Executions that wait for their turn, in order."""
    next_in_s: float = 0.0
    """Seconds until its delay allows the next request."""
    paused_for_s: float = 0.0
    pause: str = ""
    """Reason of the pause."""
