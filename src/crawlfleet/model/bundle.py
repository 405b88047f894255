"""Bundles: user code in numbered versions that never change.

A bundle belongs to a project and has a name in it. Its content is an archive, identified by its
SHA-256, in a folder of the master; these structs are the rows of the store.
"""

from enum import StrEnum
from typing import Annotated, Final

import msgspec

MAX_ARCHIVE_BYTES: Final = 10_000_000
"""Maximum size of an archive; in base64 it still fits into a request."""
MAX_VERSIONS: Final = 100
"""Maximum number of stored versions of a bundle."""
MAX_TOLD: Final = 64
"""Maximum number of environments that a node reports: the most recently used ones."""
CAPABILITY: Final = "bundles"
"""Capability of a node that runs code of bundles."""


class BundleKind(StrEnum):
    """The kind of code in an archive."""

    SCRAPY = "scrapy"
    """A Scrapy project: it has a `scrapy.cfg`."""
    WHEEL = "wheel"
    """A Python package, built."""
    FILES = "files"
    """Modules, scripts and other files."""


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
    """The change that made the version, in words, such as `deployed by admin`."""
    note: str = ""
    spiders: tuple[str, ...] = ()
    """Names of the spiders that were found in the code."""


class Bundle(msgspec.Struct, frozen=True, kw_only=True):
    """Code of a project under one name."""

    id: str
    project_id: str
    name: str
    created_at: float
    updated_at: float
    current: int = 0
    """Version for tasks that name none; 0 when there is none any more."""
    last: int = 0
    """The highest number that was ever used."""
    versions: tuple[BundleVersion, ...] = ()
    """Stored versions, newest first."""
    version: int = 1

    def numbered(self, number: int) -> BundleVersion | None:
        """The version of that number, if it is kept."""
        return next((each for each in self.versions if each.number == number), None)


class BundleRef(msgspec.Struct, frozen=True, kw_only=True):
    """The code of a task: fixed when the task is submitted, so that all attempts run the same
    code."""

    name: str
    number: int
    digest: str

    def __str__(self) -> str:
        return f"{self.name}@{self.number}"


def bundle_id(project_id: str, name: str) -> str:
    """The id of a bundle; ids of projects have no slash."""
    return f"{project_id}/{name}"


class BundleRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A bundle version to upload."""

    name: str
    """Letters, digits, dot, dash and underscore, at most 64."""
    archive: bytes
    """A zip archive or a wheel, in base64; 10 MB at most before that."""
    note: str = ""
    """Changes in this version, for people."""


class BundleRollback(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    version: Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)] | None = None
    """Version to make current; when not set, the one before the current version."""


class BundleRemoval(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    version: Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)] | None = None
    """The version to remove; all of them when not set."""


class BundleFetch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request to the service `bundle`: the archive of a bundle that the node prepares."""

    digest: str
