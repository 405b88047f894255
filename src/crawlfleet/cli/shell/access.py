"""The flags of a command that say how to reach its master."""

from pathlib import Path

import msgspec


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """The values of these flags; `cli.shell.connection` makes a connection of them."""

    url: str | None = None
    key: str | None = None
    data: Path | None = None
    ca: Path | None = None
    cert: Path | None = None
    cert_key: Path | None = None
