"""A node's identity in a file that only its owner can read."""

from pathlib import Path

import msgspec

from crawlfleet.ports.execution import Identity
from crawlfleet.private_file import write_private


class IdentityFile:
    """Keeps the identity across restarts; a damaged file counts as none."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self) -> Identity | None:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=Identity)
        except (OSError, msgspec.DecodeError):
            return None

    def save(self, identity: Identity) -> None:
        write_private(self._path, msgspec.json.encode(identity))
