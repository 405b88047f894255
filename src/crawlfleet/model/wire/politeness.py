"""What crawls and the fleet's politeness ledger say to each other.

A key is a host, a registered domain or an IP address. All times are spans from when the message
was written: the two sides need no common clock.
"""

from typing import Final

import msgspec

HOST: Final = "host:"
DOMAIN: Final = "domain:"
ADDRESS: Final = "address:"


class Terms(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """How a crawl would treat a key, were it alone."""

    key: str
    delay_s: float
    """Between the starts of two requests."""
    concurrency: int
    """Requests at once."""
    most: int = 0
    """Of these, so many are of use to the one who asks: others of its crawl make the rest. 0 is all
    of them."""


class WindowRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Requests wait for all of these keys at once."""

    host: str
    keys: tuple[Terms, ...]
    waiting: int = 1


class Return(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A key is needed no longer, or its window is over."""

    key: str
    started_ago_s: float | None = None
    """When the last request went out; `None` when none did."""
    in_flight: int = 0
    """Requests that have not ended; say it again when they have."""


class Pause(msgspec.Struct, frozen=True, kw_only=True):
    """A host asked to be left alone, or cannot be reached."""

    key: str
    for_s: float
    why: str


class LedgerRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All that an engine has to say; returns and pauses count before wants."""

    wants: tuple[WindowRequest, ...] = ()
    returns: tuple[Return, ...] = ()
    pauses: tuple[Pause, ...] = ()
    longest_s: float = 60.0
    """For how long one request of this engine may be under way."""
    engine: str = ""
    """Which one of an execution that has several."""


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """Requests to a key may start from then until then, and so many may be under way."""

    key: str
    start_in_s: float
    """Counted from when the answer came."""
    end_in_s: float
    """Counted from when it was asked for."""
    delay_s: float
    """Between two starts: what the most careful of those who visit it asks for."""
    permits: int


class Refused(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Not now."""

    host: str
    key: str
    """What stands in the way."""
    again_in_s: float
    why: str
    is_pause: bool = False
    """Whether the host is left alone by everybody until then."""


class LedgerReply(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer."""

    windows: tuple[Window, ...] = ()
    refusals: tuple[Refused, ...] = ()


class KeyUse(msgspec.Struct, frozen=True, kw_only=True):
    """Who uses a key and what it waits for, for people."""

    key: str
    delay_s: float = 0.0
    concurrency: int = 1
    used_by: tuple[str, ...] = ()
    """Executions that may send requests now, or have some under way."""
    waiting: tuple[str, ...] = ()
    """Executions that wait for their turn, in its order."""
    next_in_s: float = 0.0
    """Before then nobody may ask it, by its rate."""
    paused_for_s: float = 0.0
    pause: str = ""
    """Why it is left alone."""
