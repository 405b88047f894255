"""Bundles: code that people hand over to the fleet, in numbered versions that never change.

A bundle belongs to a project and has a name there. Its content is an archive, known by its SHA-256,
and lies in a folder of the master; what is here is what the store knows of it.
"""

from enum import StrEnum
from typing import Annotated, Final

import msgspec

MOST_ARCHIVE_BYTES: Final = 10_000_000
"""Of an archive as it is handed over; in base64 it still fits into a request."""
MOST_VERSIONS: Final = 100
"""Of one bundle that are kept at the same time."""
MOST_TOLD: Final = 64
"""Environments that a node speaks of: those that it used last."""
CAPABILITY: Final = "bundles"
"""What a node must have to be given code of a bundle."""


class BundleKind(StrEnum):
    """What is in an archive."""

    SCRAPY = "scrapy"
    """A Scrapy project: it has a `scrapy.cfg`."""
    WHEEL = "wheel"
    """A Python package, built."""
    FILES = "files"
    """Modules, scripts and whatever else."""


class BundleVersion(msgspec.Struct, frozen=True, kw_only=True):
    """One archive of a bundle; its number is never used again."""

    number: int
    digest: str
    """SHA-256 of the archive, in hexadecimal."""
    bytes: int
    files: int
    unpacked_bytes: int
    kind: BundleKind
    created_at: float
    cause: str
    """Who handed it over."""
    note: str = ""
    spiders: tuple[str, ...] = ()
    """Their names, as far as they could be read from the code."""


class Bundle(msgspec.Struct, frozen=True, kw_only=True):
    """Code of a project under one name."""

    id: str
    project_id: str
    name: str
    created_at: float
    updated_at: float
    current: int = 0
    """The version that tasks get which name none; 0 when there is none any more."""
    last: int = 0
    """The highest number that was ever used."""
    versions: tuple[BundleVersion, ...] = ()
    """Those that are kept, newest first."""
    version: int = 1

    def numbered(self, number: int) -> BundleVersion | None:
        """The version of that number, if it is kept."""
        return next((each for each in self.versions if each.number == number), None)


class BundleRef(msgspec.Struct, frozen=True, kw_only=True):
    """What a task runs: fixed when it is submitted, so that all of its attempts run the same."""

    name: str
    number: int
    digest: str

    def __str__(self) -> str:
        return f"{self.name}@{self.number}"


def bundle_id(project_id: str, name: str) -> str:
    """The id of a bundle; ids of projects have no slash."""
    return f"{project_id}/{name}"


class BundleRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Code to be handed over."""

    name: str
    """Letters, digits, dot, dash and underscore, at most 64."""
    archive: bytes
    """A zip archive or a wheel, in base64; 10 MB at most before that."""
    note: str = ""
    """What is new, for people."""


class BundleRollback(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    version: Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)] | None = None
    """The version to go back (or forward) to; the one before the present one when not set."""


class BundleRemoval(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    version: Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)] | None = None
    """The version to remove; all of them when not set."""


class BundleFetch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request to the service `bundle`: the archive of a bundle that the node makes ready."""

    digest: str
