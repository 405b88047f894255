"""Keeps a node's identity in a file that only its owner can read."""

import asyncio
from pathlib import Path
from typing import Final

import msgspec

from crawlfleet.ports.execution import Identity
from crawlfleet.private_file import write_private
from crawlfleet.telemetry import Component, logger

log = logger(Component.WORKER)
WRITE_AGAIN_S: Final = 5.0
"""Seconds until a failed write is tried again."""


class IdentityFile:
    """Keeps the identity across restarts; a damaged file counts as none.

    With it the key by which the node knows its master: that of `master_pin`, else of the file.
    """

    def __init__(self, path: Path, *, master_pin: str = "") -> None:
        self._path = path
        self._unwritten: Identity | None = None
        """The node's identity while it could not be written to disk; else `None`."""
        known = self.load()
        self.master_pin = master_pin or (known.master_pin if known else "")
        if known is not None and known.master_pin != self.master_pin:
            self.save(known)

    def load(self) -> Identity | None:
        if self._unwritten is not None:
            return self._unwritten
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=Identity)
        except (OSError, msgspec.DecodeError):
            return None

    def save(self, identity: Identity) -> None:
        """Save the identity durably in place of any other. Raises `OSError`, and keeps the other
        then."""
        kept = msgspec.structs.replace(identity, master_pin=self.master_pin)
        write_private(self._path, msgspec.json.encode(kept))
        self._unwritten = None

    def adopt(self, identity: Identity) -> None:
        """The master knows the node as this one by now: a disk that takes nothing must not stop
        it, and costs it its name only if it ends before there is room."""
        try:
            self.save(identity)
        except OSError as error:
            self._unwritten = identity
            log.error(
                "who this node is cannot be written to disk: if it ends now it will join anew",
                file=str(self._path),
                error=str(error),
                again_in_s=WRITE_AGAIN_S,
            )
            asyncio.get_running_loop().call_later(WRITE_AGAIN_S, self._write_again)

    def _write_again(self) -> None:
        if self._unwritten is not None:
            self.adopt(self._unwritten)
