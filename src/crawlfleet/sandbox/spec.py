"""What the agent tells a process that is about to become a cell, and what it hears from there.

The two talk over a pair of sockets of their own. The agent's end is also the lifeline: when it
closes, for whatever reason, the cell ends.
"""

from typing import Final

import msgspec

from crawlfleet.model.isolation import Layer


class Bind(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something of the machine's files that the cell sees, at the same place."""

    path: str
    own: bool = False
    """Whether it shows as the cell's own, so that it can be read although it is root's."""
    write: bool = False
    """Whether it may be changed."""


class CellSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A cell, down to its last path."""

    layers: tuple[Layer, ...]
    module: str = ""
    """Whose `main` is called; or else a command is run."""
    command: tuple[str, ...] = ()
    variables: dict[str, str] = {}
    scratch: str
    """Its folder: made here and gone with the cell where it has mounts of its own, else there."""
    folder: str = ""
    """Where it starts, if not there."""
    measured: tuple[str, ...] = ()
    """Folders that the watchdog measures: no file system bounds them."""
    rlimits: dict[str, int] = {}
    """By the names of the module `resource`."""
    memory_bytes: int | None = None
    """More than this of all its processes together, and the watchdog ends it."""
    disk_bytes: int | None = None
    uid: int | None = None
    """Whom to become, if not to stay."""
    groups: tuple[str, ...] = ()
    """Control groups to enter: their files `cgroup.procs`."""
    base: str = ""
    """An empty folder of the agent's, over which the cell's root is mounted."""
    binds: tuple[Bind, ...] = ()
    links: dict[str, str] = {}
    """Symbolic links of its root, such as `/bin` to `usr/bin`."""
    hidden: tuple[str, ...] = ()
    """What must not be seen, although it lies in something that may."""
    readable: tuple[str, ...] = ()
    """What Landlock lets it read, and run."""
    writable: tuple[str, ...] = ()
    proxy_port: int = 0
    """Where it finds the agent's proxy; nowhere when 0."""
    waits: bool = False
    """Whether it is made ahead: its work begins when the agent says so."""


class Word(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What comes from a cell: once that it has begun or failed, and once how it ended."""

    begun: int = 0
    """The process that watches over it, as this machine counts."""
    failed: str = ""
    ended: int | None = None
    """Its exit code, or the negative number of a signal."""
    reason: str = ""


GO: Final = b"go"
"""What a cell that waits is told when its work begins."""
_words = msgspec.json.Decoder(Word)
_specs = msgspec.json.Decoder(CellSpec)
encode = msgspec.json.encode
replace = msgspec.structs.replace
decode_word = _words.decode
decode_spec = _specs.decode
