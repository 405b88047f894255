"""A request that waits at the master, in the hands of a worker."""

from typing import Any


class Page:
    """A request that was leased, and what came of it so far. Another one each time that it is
    leased: what belongs to an earlier lease must not count with a later one."""

    def __init__(self, id: int, host: str) -> None:
        self.id = id
        self.host = host
        """The queue that it waits in: its host, or a part of that."""
        self.status = 0
        self.request: Any = None
        """As it was handed to Scrapy."""
        self.out: Any = None
        """The host that it was let go to, until that has answered."""
        self.is_left = False
        """Whether it was not asked for after all."""
        self.links: dict[int, list[Any]] = {}
        self.lines: list[bytes] = []
        self.ordinals: dict[bytes, int] = {}
        """How often a request was made here that must not be filtered."""
