"""Crawls as the API shows them."""

from datetime import datetime
from typing import Any

import msgspec

from crawlfleet.model.crawl.figures import CrawlFigures
from crawlfleet.model.crawl.frontier import UrlRecord
from crawlfleet.model.wire.politeness import KeyUse
from crawlfleet.views.tasks import TaskState


class OutputView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The part of a crawl's output that can be read now."""

    items: int
    """Number of items; while the crawl runs, it may be a step ahead of or behind the figures."""
    bytes: int
    """Size as stored, compressed."""
    columns: tuple[str, ...] = ()
    formats: tuple[str, ...] = ()
    """Formats in which the output can be downloaded."""


class CrawlView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One crawl."""

    task_id: str
    state: TaskState
    """State of the crawl's task; `paused` also while the crawl runs but is held."""
    project: str
    name: str
    """The host of its first address."""
    url: str
    """The first address of the crawl."""
    created_at: datetime
    node_id: str | None = None
    """The node that runs the crawl, or ran it last."""
    started_at: datetime | None = None
    finished_at: datetime | None = None
    figures: CrawlFigures | None = None
    """The newest figures; in a list without hosts and rates."""
    output: OutputView | None = None
    """The output; not in a list, and not where the crawl has sinks of its own."""
    output_missing: str = ""
    """Reason why expected output cannot be read, and what to do; not in a list."""


class CrawlPage(msgspec.Struct, frozen=True, kw_only=True):
    items: list[CrawlView]
    next_cursor: str | None


class CrawlItem(msgspec.Struct, frozen=True, kw_only=True):
    """One item, as a page of a site gave it: nothing in it is to be trusted."""

    number: int
    """Position in the order of the output, from 1."""
    kind: str
    fields: dict[str, Any]


class CrawlItemPage(msgspec.Struct, frozen=True, kw_only=True):
    items: list[CrawlItem]
    next_cursor: str | None
    columns: tuple[str, ...] = ()
    """Every field that an item of the crawl can have."""


class UrlExplanation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The state of one URL in a crawl."""

    url: str
    """The URL in its canonical form."""
    record: UrlRecord | None = None
    """The crawl's record of the URL; not set when the crawl never accepted it."""
    refused_by: str | None = None
    """The rule that keeps the URL out of the crawl."""
    why: str = ""


class HostUses(msgspec.Struct, frozen=True, kw_only=True):
    """Hosts, registered domains and addresses that the fleet visits."""

    items: tuple[KeyUse, ...]
    total: int
    """Number of all hosts, domains and addresses; `items` has the first of them."""
