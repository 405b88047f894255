"""Where a master keeps the archives of bundles."""

from collections.abc import Sequence
from typing import Protocol


class BundleStore(Protocol):
    """Keeps archives by their digest; what has the same digest is the same.

    Every method may raise `OutputUnavailable`; then nothing was changed.
    """

    async def put(self, digest: str, archive: bytes) -> None:
        """Make it durable, and new again if it was there before."""
        ...

    async def get(self, digest: str) -> bytes | None:
        """The archive, or `None`; never one that was damaged since."""
        ...

    async def older_than(self, seconds: float) -> Sequence[str]:
        """The digests of those that were put longer ago."""
        ...

    async def remove(self, digest: str) -> None:
        """May be called twice."""
        ...
