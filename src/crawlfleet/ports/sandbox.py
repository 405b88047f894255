"""Keeping work apart: processes that see only what they were given, and end when they are told to.

The worker's pool asks a `Sandbox` to start the processes that run foreign code. What such a
process is given stands in its `CellOrder`; everything else of the machine is kept from it, as
well as the level allows.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol, TypeVar

import msgspec

from crawlfleet.model.isolation import Egress, Isolation, Limits
from crawlfleet.model.wire.node_protocol import Assignment

P = TypeVar("P")

WAY_OUT: Final = "CELL_WAY_OUT"
"""The variable in which a cell finds the address of the agent's proxy, as a URL. Beside those that
every HTTP library knows: what fetches pages by its own rules goes by this one alone."""
PUBLIC_HEADER: Final = "Crawlfleet-Public-Only"
"""Of a request to that proxy: no private address, whatever the node allows."""
ADDRESS_HEADER: Final = "Crawlfleet-Address"
"""Of its answer: the address that it has connected to."""
OUTCOME_HEADER: Final = "Crawlfleet-Outcome"
"""Of its refusal: what it means for a visit, such as `dns`."""


class CellOrder(msgspec.Struct, frozen=True, kw_only=True):
    """What a process is given."""

    command: tuple[str, ...] = ()
    """The program and its arguments; when empty, the host of the Python executors."""
    limits: Limits = Limits()
    variables: dict[str, str] = {}
    """Its environment, beside those that the sandbox sets (`PATH`, `HOME`, `TMPDIR`, `LANG`, and
    the proxy). Secrets do not belong here: they go through the pipe."""
    readable: tuple[str, ...] = ()
    """Files and folders that it may read, at the same place as outside, beside the system's
    programs and libraries and the installed packages."""
    writable: tuple[str, ...] = ()
    """Folders that it may read and change, at the same place as outside, beside its scratch
    folder; what it adds there counts against its disk, and stays. Where a cell is another user
    than the agent, the folder itself becomes that user's, and what is in it does not."""
    folder: str = ""
    """Where it starts; in its scratch folder when empty."""
    egress: Egress | None = None
    """Whom it may talk to; nobody when not set."""


class Provision(msgspec.Struct, frozen=True, kw_only=True):
    """What an execution needs beyond the usual, such as the files of its project."""

    command: tuple[str, ...] = ()
    """A program that speaks the executor protocol, instead of the host of the Python executors."""
    variables: dict[str, str] = {}
    readable: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    folder: str = ""


Provide = Callable[[Assignment], Awaitable[Provision]]
"""Finds out, and fetches where it must, what an execution of some task type needs. Raises
`CrawlfleetError` when that cannot be had."""


class Cell(Protocol):
    """One confined process with all that it starts. Its protocol hears what comes from it, as
    with asyncio's `subprocess_exec`."""

    is_made_ahead: bool
    """Whether it waited for its work: what happened to it then says nothing of that."""

    def get_pid(self) -> int:
        """As this machine counts; for people, not for signals."""
        ...

    def get_returncode(self) -> int | None:
        """Negative for the signal that ended it; `None` while it runs."""
        ...

    def get_pipe_transport(self, fd: int) -> Any:
        """The transport of its stdin (0), stdout (1) or stderr (2)."""
        ...

    def kill(self) -> None:
        """Order the end of all its processes, and let nothing of theirs out any more; may be
        called at any time, and again."""
        ...

    async def stop(self) -> None:
        """Kill it, and wait until none of its code runs, and nothing of what it did is still to
        be seen by others. May be called twice."""
        ...

    def reason(self) -> str:
        """Which limit ended it, in words; empty when none did."""
        ...

    def figures(self) -> dict[str, float]:
        """What it used, for the metrics of the execution."""
        ...

    async def clear(self) -> None:
        """Wait until nothing of it runs, and remove all traces. May be called twice."""
        ...

    def close(self) -> None:
        """Close the pipes; processes that still run are killed."""
        ...


class Sandbox(Protocol):
    """Starts processes in cells."""

    @property
    def isolation(self) -> Isolation:
        """What it offers."""
        ...

    async def open(self) -> None:
        """Make ready, so that the first cell begins quickly; raises nothing."""
        ...

    async def start(
        self, order: CellOrder, make: Callable[[], P], *, ahead: bool = True
    ) -> tuple[Cell, P]:
        """A process in a new cell, and the protocol (an `asyncio.SubprocessProtocol`) that hears
        it. The cell may have been made `ahead`, unless that is not wanted. Raises `SandboxFailed`
        when a layer cannot be had: never runs it with less."""
        ...

    async def close(self) -> None:
        """End all cells and remove all traces; none is started any more. May be called twice."""
        ...
