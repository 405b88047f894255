"""Limits on the number of followers: each costs the master a connection and reads."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from crawlfleet.errors import Busy

MAX_FOLLOWERS: Final = 100
MAX_FOLLOWERS_OF_KEY: Final = 50
"""Maximum number of followers with one key, so that it does not shut out the others."""


class FollowerSlots:
    """A limited number of places for followers; `what` names their subject in error messages."""

    def __init__(
        self, what: str, *, most: int = MAX_FOLLOWERS, most_of_one: int = MAX_FOLLOWERS_OF_KEY
    ) -> None:
        self._what = what
        self._most = most
        self._most_of_one = most_of_one
        self._taken: Counter[str] = Counter()
        """Number of followers by the name of their key."""

    @contextmanager
    def take(self, name: str) -> Iterator[None]:
        """Hold a place for as long as the block is entered; raises `Busy` when there is none."""
        if self._taken.total() >= self._most:
            raise Busy(f"{self._most} follow {self._what} already; try again later")
        if self._taken[name] >= self._most_of_one:
            raise Busy(
                f"{self._most_of_one} follow {self._what} with this key already; end one of them"
            )
        self._taken[name] += 1
        try:
            yield
        finally:
            self._taken[name] -= 1
            if not self._taken[name]:
                del self._taken[name]
