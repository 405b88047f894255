"""Crawls as the API shows them."""

from datetime import datetime
from typing import Any

import msgspec

from crawlfleet.model.crawl.figures import CrawlFigures
from crawlfleet.model.crawl.frontier import UrlRecord
from crawlfleet.model.wire.politeness import KeyUse
from crawlfleet.views.tasks import TaskState


class OutputView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What of a crawl's output can be read now."""

    items: int
    """While the crawl runs, that may be a step more or less than its figures have."""
    bytes: int
    """As it is kept, packed."""
    columns: tuple[str, ...] = ()
    formats: tuple[str, ...] = ()
    """In which it can be downloaded."""


class CrawlView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One crawl."""

    task_id: str
    state: TaskState
    """That of its task; `paused` also while it runs and is held."""
    project: str
    name: str
    """The host of its first address."""
    url: str
    """Its first address."""
    created_at: datetime
    node_id: str | None = None
    """Where it runs, or ran last."""
    started_at: datetime | None = None
    finished_at: datetime | None = None
    figures: CrawlFigures | None = None
    """The newest; without hosts and rates in a list."""
    output: OutputView | None = None
    """Not in a list, and not where the crawl has sinks of its own."""
    output_missing: str = ""
    """Why output that ought to be here cannot be read, and what to do; not in a list."""


class CrawlPage(msgspec.Struct, frozen=True, kw_only=True):
    items: list[CrawlView]
    next_cursor: str | None


class CrawlItem(msgspec.Struct, frozen=True, kw_only=True):
    """One item, as a page of a site gave it: nothing in it is to be trusted."""

    number: int
    """From 1, in the order of the output."""
    kind: str
    fields: dict[str, Any]


class CrawlItemPage(msgspec.Struct, frozen=True, kw_only=True):
    items: list[CrawlItem]
    next_cursor: str | None
    columns: tuple[str, ...] = ()
    """Every field that an item of the crawl can have."""


class UrlExplanation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of one URL in a crawl."""

    url: str
    """In its canonical form."""
    record: UrlRecord | None = None
    """What the crawl knows of it; not set when it was never taken in."""
    refused_by: str | None = None
    """The rule that keeps it out."""
    why: str = ""


class HostUses(msgspec.Struct, frozen=True, kw_only=True):
    """Hosts, registered domains and addresses that the fleet visits."""

    items: tuple[KeyUse, ...]
    total: int
    """How many there are, of which these are the first."""
