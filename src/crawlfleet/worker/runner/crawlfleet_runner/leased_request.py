"""A request that waits at the master, in the hands of a worker."""

from typing import Any, Final

from .protocol import Failed

MAX_BYTES: Final = 64_000_000
"""Maximum size of the items and requests of a page, which are held until the page is done. It is
well within the memory of a cell."""
EACH_BYTES: Final = 100
"""Size that each held item or request counts in addition to its own bytes."""


class Page:
    """A leased request with its results so far. Each lease makes a new object: results of an
    earlier lease must not count with a later one."""

    def __init__(self, id: int, host: str) -> None:
        self.id = id
        self.host = host
        """The queue of the request: its host, or a part of that."""
        self.status = 0
        self.request: Any = None
        """The Scrapy request."""
        self.out: Any = None
        """The host that counts the request as handed to Scrapy; `None` once it is answered."""
        self.is_left = False
        """True when the request was not sent after all."""
        self.links: dict[int, list[Any]] = {}
        self.lines: list[bytes] = []
        self.ordinals: dict[bytes, int] = {}
        """Number of times that each unfiltered request was made by this page."""
        self._bytes = 0

    def hold(self, size: int) -> None:
        """Count `size` more bytes of items and requests held for the page. Raises `Failed` when
        they are too many."""
        self._bytes += size + EACH_BYTES
        if self._bytes > MAX_BYTES:
            url = getattr(self.request, "url", "a page")
            raise Failed(
                f"{url} led to more than {MAX_BYTES // 1_000_000} MB of items and requests, which"
                " are held until its callback ends: divide it by requests of its own, or run the"
                " spider without `distributed`",
                "invalid",
            )
