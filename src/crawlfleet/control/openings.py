"""The openings of the kernel: what a feature adds to a master.

No module of the kernel names a feature. A feature is one function of the kernel and the adapters
that returns a `Feature`, and one line in `crawlfleet.master`.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from crawlfleet.errors import FieldProblem
from crawlfleet.model.change import Change
from crawlfleet.model.requests import TaskRequest
from crawlfleet.ports.events import EventSink
from crawlfleet.ports.files import BundleStore
from crawlfleet.ports.frontier.host import FrontierFolders, FrontierServer
from crawlfleet.ports.health_probe import Prober
from crawlfleet.ports.ledger import LedgerBook
from crawlfleet.ports.locks import Locks
from crawlfleet.ports.output import OutputStore
from crawlfleet.ports.seal import Seal
from crawlfleet.ports.sender import Sender
from crawlfleet.ports.tables import Expiring


class Index(Protocol):
    """Rows of a feature that every master holds in memory, beside those of the kernel."""

    subject: str
    """The first word of the events that tell other masters of a change; their subject is the id
    of the row. Empty when rows are not read again."""

    async def read(self, ids: Sequence[str] | None = None) -> Sequence[msgspec.Struct]:
        """Read these rows from the store; without `ids`, all that are held in memory."""
        ...

    def ids_of(self, change: Change) -> Iterable[str]:
        """Return the ids of this feature's rows in a refused change: these rows are read again."""
        ...

    def take(self, change: Change) -> None:
        """Put the rows of a change into memory, where they are newer than those there."""
        ...

    def clear(self) -> None:
        """Drop all rows, because the copy is loaded anew."""
        ...


class LookedUp(Protocol):
    """Data that a check has read for a batch of requests."""

    def problems(self, request: TaskRequest) -> Iterable[FieldProblem]:
        """Return the problems of one of the requests."""
        ...

    def fields(self, request: TaskRequest) -> Mapping[str, Any]:
        """Return the fields of the task that follow from the data, such as its bundle."""
        ...


class Check(Protocol):
    """Checks the things that submitted tasks name, before the tasks are accepted."""

    is_of_place: bool
    """Set if the check concerns where and with which code and secrets a task runs: such a check
    applies to templates, too.
    """

    async def look_up(self, requests: Sequence[TaskRequest]) -> LookedUp:
        """Read what the requests name, all at once."""
        ...


class Loop(NamedTuple):
    """A loop that runs for as long as this master leads."""

    name: str
    run: Callable[[], Awaitable[None]]


async def _nothing() -> None:
    return None


@dataclass(frozen=True, kw_only=True)
class Feature:
    """The parts that one feature adds to a master."""

    services: Sequence[object] = ()
    """Services for the handlers of the API, looked up by type."""
    indexes: Sequence[Index] = ()
    checks: Sequence[Check] = ()
    hearers: Sequence[EventSink] = ()
    """Sinks that get every event in order while this master leads, after the kernel."""
    loops: Sequence[Loop] = ()
    expiring: Sequence[Expiring] = ()
    """Rows that are removed some time after they ended, by the settings."""
    open: Callable[[], Awaitable[None]] = _nothing
    """Awaited once the store is open."""
    close: Callable[[], Awaitable[None]] = _nothing
    """Awaited when the master stops, also after a failed start."""


def _unknown() -> float | None:
    return None


@dataclass(frozen=True, kw_only=True)
class Adapters:
    """The adapters that a master may have; services that miss one say so when they are called."""

    output: OutputStore | None = None
    """Keeps the output of crawls."""
    archives: BundleStore | None = None
    """Keeps the code of bundles."""
    seal: Seal | None = None
    """Makes secrets unreadable in the store."""
    shelf: FrontierFolders | None = None
    """Keeps the frontiers of crawls; without it they stay on the nodes."""
    server: FrontierServer | None = None
    """Keeps the frontiers that several nodes work for."""
    locks: Locks | None = None
    ledger: LedgerBook | None = None
    sender: Sender | None = None
    """Sends the messages of webhooks."""
    prober: Prober | None = None
    """Probes the health endpoints of nodes."""
    disk_free: Callable[[], float | None] = _unknown
    """Returns the free share of the disk with the master's data; `None` if unknown."""


NO_ADAPTERS: Final = Adapters()
