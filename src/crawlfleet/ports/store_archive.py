"""The port for all rows of a store in bulk, to be carried from one store into another.

It is apart from the port of a running master: a dump reads while masters write, a load needs a
store that nobody uses.
"""

from collections.abc import AsyncIterator, Iterable
from typing import Any, Final, NamedTuple, Protocol

RESTORED_STORE: Final = "store"
"""The subject of the event that records a restore; there are no other events about it."""


class Portion(NamedTuple):
    """Some rows of one table; an empty table is a portion without rows."""

    table: str
    columns: tuple[str, ...]
    rows: list[list[Any]]


class Archive(Protocol):
    """All tables of a store at once. Every method may raise `StoreUnavailable`."""

    async def revision(self) -> str:
        """The revision of the schema in the store; raises `StoreTooNew` for one not known here."""
        ...

    def dump(self) -> AsyncIterator[Portion]:
        """Yield every row as it was at one instant, table after table, despite writers."""
        ...

    async def load(self, portions: Iterable[Portion], *, force: bool, now: float) -> None:
        """Replace all rows of the store by these, all of them or none.

        Open sessions of nodes are ended at `now`, and the epoch is higher than any before on either
        side: nodes and masters of the earlier life are fenced off. Raises `Conflict` when the store
        has rows already, unless `force`, or when it is in use. Exceptions of the iterable pass
        through, and nothing was changed.
        """
        ...
