"""Bundles as the API shows them."""

from collections.abc import Callable
from datetime import datetime
from typing import Self

import msgspec

from crawlfleet.model.bundle import Bundle, BundleVersion
from crawlfleet.views.fields import moment


class BundleVersionView(msgspec.Struct, frozen=True, kw_only=True):
    """A version of a bundle."""

    version: int
    digest: str
    """SHA-256 of the archive, in hexadecimal."""
    bytes: int
    files: int
    unpacked_bytes: int
    kind: str
    """`scrapy` (it has a `scrapy.cfg`), `wheel`, or `files`."""
    created_at: datetime
    cause: str
    note: str
    spiders: list[str] = []
    """The names of its spiders, as far as they can be read from the code without running it."""
    ready_on: list[str] = []
    """The ids of nodes that have its environment: they say so, or it has run there lately. Empty
    for a key that is bound to a project."""


class BundleView(msgspec.Struct, frozen=True, kw_only=True):
    """A bundle and the versions that are kept of it."""

    name: str
    project_id: str
    current: int
    """The version that tasks get which name none; 0 when there is none any more."""
    versions: list[BundleVersionView]
    """Newest first."""
    created_at: datetime
    updated_at: datetime
    version: int
    """Counts the changes of the bundle itself, for `If-Match`."""

    @classmethod
    def of(cls, bundle: Bundle, ready_on: Callable[[BundleVersion], list[str]]) -> Self:
        return cls(
            name=bundle.name,
            project_id=bundle.project_id,
            current=bundle.current,
            versions=[
                BundleVersionView(
                    version=each.number,
                    digest=each.digest,
                    bytes=each.bytes,
                    files=each.files,
                    unpacked_bytes=each.unpacked_bytes,
                    kind=str(each.kind),
                    created_at=moment(each.created_at),
                    cause=each.cause,
                    note=each.note,
                    spiders=[*each.spiders],
                    ready_on=ready_on(each),
                )
                for each in bundle.versions
            ],
            created_at=moment(bundle.created_at),
            updated_at=moment(bundle.updated_at),
            version=bundle.version,
        )


class BundlePage(msgspec.Struct, frozen=True, kw_only=True):
    items: list[BundleView]
    next_cursor: str | None
