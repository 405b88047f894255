"""The port of the store for the archives of bundles."""

from collections.abc import Sequence
from typing import Protocol


class BundleStore(Protocol):
    """Stores archives by their digest: two archives with one digest are the same.

    Every method may raise `OutputUnavailable`; then nothing was changed.
    """

    async def put(self, digest: str, archive: bytes) -> None:
        """Make the archive durable; its age begins anew if it was there before."""
        ...

    async def get(self, digest: str) -> bytes | None:
        """Return the archive, or `None`; never one that was damaged since."""
        ...

    async def older_than(self, seconds: float) -> Sequence[str]:
        """Return the digests of archives that were put longer ago."""
        ...

    async def remove(self, digest: str) -> None:
        """Remove an archive. May be called twice."""
        ...
