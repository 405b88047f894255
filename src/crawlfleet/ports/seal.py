"""Values that lie in the store, and that nobody but the masters can read."""

from typing import Protocol

from crawlfleet.errors import CrawlfleetError


class Unsealable(CrawlfleetError):
    """A value cannot be read here; the message says why, and what to do."""


class Seal(Protocol):
    """Closes and opens values with the key of this installation."""

    def close(self, value: str, about: str) -> str:
        """The value as text that tells nothing; `about` is what it belongs to, and is needed to
        open it: moved elsewhere, it cannot be read. Raises `Unsealable` where there is no key."""
        ...

    def open(self, sealed: str, about: str) -> str:
        """What was closed. Raises `Unsealable` when it was closed with another key, about another
        thing, or is spoilt."""
        ...
