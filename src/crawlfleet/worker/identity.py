"""A node's identity in a file that only its owner can read."""

from pathlib import Path

import msgspec

from crawlfleet.ports.execution import Identity
from crawlfleet.private_file import write_private


class IdentityFile:
    """Keeps the identity across restarts; a damaged file counts as none.

    With it the key by which the node knows its master: that of `master_pin`, else of the file.
    """

    def __init__(self, path: Path, *, master_pin: str = "") -> None:
        self._path = path
        known = self.load()
        self.master_pin = master_pin or (known.master_pin if known else "")
        if known is not None and known.master_pin != self.master_pin:
            self.save(known)

    def load(self) -> Identity | None:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=Identity)
        except (OSError, msgspec.DecodeError):
            return None

    def save(self, identity: Identity) -> None:
        kept = msgspec.structs.replace(identity, master_pin=self.master_pin)
        write_private(self._path, msgspec.json.encode(kept))
