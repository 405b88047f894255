"""A store's rows in bulk, to be carried out of one store and into another.

Apart from the port of a running master: one reads while masters write, the other needs a store
that nobody uses.
"""

from collections.abc import AsyncIterator, Iterable
from typing import Any, Final, NamedTuple, Protocol

RESTORED_STORE: Final = "store"
"""The subject of the event that tells of a restore; there are no others about it."""


class Portion(NamedTuple):
    """Some rows of one table; a table without a row is a portion without one."""

    table: str
    columns: tuple[str, ...]
    rows: list[list[Any]]


class Archive(Protocol):
    """All tables of a store at once. Every method may raise `StoreUnavailable`."""

    async def revision(self) -> str:
        """The revision of the schema in the store; raises `StoreTooNew` for one not known here."""
        ...

    def dump(self) -> AsyncIterator[Portion]:
        """Every row as it was at one instant, table after table, while others go on writing."""
        ...

    async def load(self, portions: Iterable[Portion], *, force: bool, now: float) -> None:
        """Put these rows in place of what is there, all of them or none.

        Sessions of nodes that were open are ended at `now`, and the epoch is higher than any
        before on either side: nodes and masters of the earlier life are fenced off.
        Raises `Conflict` when the store has rows already, unless `force`, or when it is in use.
        What the iterable raises passes through, and nothing was changed.
        """
        ...
