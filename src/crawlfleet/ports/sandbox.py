"""The port of the sandbox: cells that run foreign code with only the resources of their order.

The worker's pool starts processes for foreign code by a `Sandbox`. A `CellOrder` lists everything
that such a process may use; the sandbox hides the rest of the machine, as well as its level allows.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol, TypeVar

import msgspec

from crawlfleet.model.isolation import Egress, Isolation, Limits
from crawlfleet.model.wire.node_protocol import Assignment

P = TypeVar("P")

WAY_OUT: Final = "CELL_WAY_OUT"
"""The variable with the URL of the agent's proxy in a cell. crawlfleet's own fetcher uses only this
one; the usual proxy variables are for HTTP libraries."""
PUBLIC_HEADER: Final = "Crawlfleet-Public-Only"
"""The request header to that proxy that forbids private addresses, whatever the node allows."""
ADDRESS_HEADER: Final = "Crawlfleet-Address"
"""The response header with the address that the proxy connected to."""
OUTCOME_HEADER: Final = "Crawlfleet-Outcome"
"""The header of a refusal with the outcome of the visit, such as `dns`."""


class CellOrder(msgspec.Struct, frozen=True, kw_only=True):
    """The resources that a process in a cell may use."""

    command: tuple[str, ...] = ()
    """The program and its arguments; when empty, the loop of the Python executors."""
    limits: Limits = Limits()
    variables: dict[str, str] = {}
    """Environment of the process, in addition to the sandbox's own variables (`PATH`, `HOME`,
    `TMPDIR`, `LANG`, and the proxy). Secrets do not belong here: they go through the pipe.
    """
    readable: tuple[str, ...] = ()
    """Files and folders that it may read, at the same paths as outside, in addition to the system's
    programs and libraries and the installed packages."""
    writable: tuple[str, ...] = ()
    """Folders that it may read and change, at the same paths as outside, in addition to its scratch
    folder. New contents count against its disk limit, and stay. If the cell is another user than
    the agent, that user becomes the owner of the folder itself, not of its contents."""
    folder: str = ""
    """The working folder; the scratch folder when empty."""
    egress: Egress | None = None
    """Network rules of the cell; no network when not set."""


class Provision(msgspec.Struct, frozen=True, kw_only=True):
    """Additional resources for an execution, such as the files of its bundle."""

    command: tuple[str, ...] = ()
    """A program that speaks the executor protocol, instead of the host of the Python executors."""
    variables: dict[str, str] = {}
    readable: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    folder: str = ""


Provide = Callable[[Assignment], Awaitable[Provision]]
"""Provides what an execution of a task type needs, and fetches it if necessary. Raises
`CrawlfleetError` when that is impossible."""


class Cell(Protocol):
    """One confined process with all its children. Its output goes to its asyncio protocol, as with
    `subprocess_exec`."""

    is_made_ahead: bool
    """Set if the cell was prepared before its work: then its early death is not the fault of the
    work.
    """

    def get_pid(self) -> int:
        """Return the process id on this machine; for people, not for signals."""
        ...

    def get_returncode(self) -> int | None:
        """Return the exit code, negative for a signal; `None` while it runs."""
        ...

    def get_pipe_transport(self, fd: int) -> Any:
        """Return the transport of its stdin (0), stdout (1) or stderr (2)."""
        ...

    def kill(self) -> None:
        """Start to end all its processes, and close its network. May be called at any time, and
        again."""
        ...

    async def stop(self) -> None:
        """Kill the cell, and wait until none of its code runs and its last writes are visible to
        others. May be called twice.
        """
        ...

    def reason(self) -> str:
        """Return the limit that ended it, in words; empty when none did."""
        ...

    def figures(self) -> dict[str, float]:
        """Return its usage, for the metrics of the execution."""
        ...

    async def clear(self) -> None:
        """Wait until none of its processes runs, and remove all leftovers. May be called twice."""
        ...

    def close(self) -> None:
        """Close the pipes; processes that still run are killed."""
        ...


class Sandbox(Protocol):
    """Starts processes in cells."""

    @property
    def isolation(self) -> Isolation:
        """The isolation of its cells."""
        ...

    async def open(self) -> None:
        """Prepare, so that the first cell starts quickly; raises nothing."""
        ...

    async def start(
        self, order: CellOrder, make: Callable[[], P], *, ahead: bool = True
    ) -> tuple[Cell, P]:
        """Start a process in a cell, and return the cell and its protocol (an
        `asyncio.SubprocessProtocol`). With `ahead` the cell may be a prepared one. Raises
        `SandboxFailed` when a layer is impossible: the process never runs with less."""
        ...

    async def close(self) -> None:
        """End all cells and remove all leftovers, and start no more. May be called twice."""
        ...
