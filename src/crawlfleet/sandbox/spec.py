"""The messages between the agent and the process that becomes a cell.

They go over a pair of sockets. The agent's end is also the lifeline: when it closes, the cell ends.
"""

from typing import Final

import msgspec

from crawlfleet.model.isolation import Layer


class Bind(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file or folder of the machine that the cell sees at the same path."""

    path: str
    own: bool = False
    """The cell's user owns the file inside, so that it can read files of root."""
    write: bool = False
    """The cell may change the file."""


class CellSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The complete specification of a cell."""

    layers: tuple[Layer, ...]
    module: str = ""
    """The module whose `main` is called; when empty, `command` is run."""
    command: tuple[str, ...] = ()
    variables: dict[str, str] = {}
    scratch: str
    """The scratch folder. With a mount namespace it lies in the cell's root and is gone with it."""
    folder: str = ""
    """The working folder; the scratch folder when empty."""
    measured: tuple[str, ...] = ()
    """Folders that the supervisor measures, because no file system limits their size."""
    rlimits: dict[str, int] = {}
    """Limits of each process, by their names in the module `resource`."""
    memory_bytes: int | None = None
    """The supervisor ends the cell when its processes together use more memory than this."""
    disk_bytes: int | None = None
    uid: int | None = None
    """The user to become; `None` keeps the user of the agent."""
    groups: tuple[str, ...] = ()
    """The files to write `0` to, to enter the control groups."""
    base: str = ""
    """An empty folder of the agent; the cell's root is mounted over it."""
    binds: tuple[Bind, ...] = ()
    links: dict[str, str] = {}
    """The symbolic links of the root, such as `/bin` to `usr/bin`."""
    hidden: tuple[str, ...] = ()
    """Paths that the cell must not see, even below a folder that it sees."""
    readable: tuple[str, ...] = ()
    """The paths that Landlock lets the cell read and execute."""
    writable: tuple[str, ...] = ()
    proxy_port: int = 0
    """The port of the agent's proxy; 0 when there is none."""
    waits: bool = False
    """The cell is prepared: it begins its work after the message `GO`."""


class CellStatus(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A report of a cell: one that it began or failed, and one how it ended."""

    begun: int = 0
    """The process id of the supervisor on this machine."""
    failed: str = ""
    ended: int | None = None
    """The exit code of the work, or the negative number of a signal."""
    reason: str = ""


GO: Final = b"go"
"""The message by which the work of a prepared cell begins."""
_statuses = msgspec.json.Decoder(CellStatus)
_specs = msgspec.json.Decoder(CellSpec)
encode = msgspec.json.encode
replace = msgspec.structs.replace
decode_status = _statuses.decode
decode_spec = _specs.decode
