"""The port that seals secret values, so that the store holds nothing that others can read."""

from typing import Protocol

from crawlfleet.errors import CrawlfleetError


class Unsealable(CrawlfleetError):
    """A value cannot be read here; the message says why, and what to do."""


class Seal(Protocol):
    """Encrypts and decrypts values with the key of this installation."""

    def close(self, value: str, about: str) -> str:
        """Return the value encrypted; `about` names its owner, and is needed to open it: moved
        elsewhere, it cannot be read. Raises `Unsealable` where there is no key.
        """
        ...

    def open(self, sealed: str, about: str) -> str:
        """Return the decrypted value. Raises `Unsealable` when it was sealed with another key or
        another `about`, or is damaged.
        """
        ...
