"""Views of a crawl's work: its shards, the partitions of its frontier, and its hosts.

All lists are bounded, with a total where there may be more.
"""

from typing import Final

import msgspec

from crawlfleet.views.tasks import TaskState

MAX_PARTITIONS: Final = 256
MAX_HOLDERS: Final = 16
"""Maximum number of holders shown for a partition; those with the most hosts are shown."""
MAX_HOSTS: Final = 50
MAX_KEYS: Final = 100
MAX_VISITORS: Final = 10
"""Maximum number of visitors shown for a host."""


class ShardWork(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One of those that work for a crawl."""

    shard: int
    task_id: str
    state: TaskState
    node_id: str | None = None
    """Where it runs, or ran last."""
    execution_id: str | None = None
    """Its present attempt, or the last one."""
    pages: int | None = None
    """Its own part, as far as it has told."""
    items: int | None = None
    rate_per_s: float | None = None
    """While it runs."""
    hosts: int | None = None
    """So many it has leased; not set where the frontier is not known to this master."""


class Holder(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who has leased hosts of a partition."""

    execution_id: str
    hosts: int
    shard: int | None = None


class PartitionWork(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One partition of a frontier."""

    number: int
    waiting: int
    """URLs in its queues."""
    in_flight: int
    done: int
    hosts: int
    """Those that have something to visit, leased ones too."""
    holders: tuple[Holder, ...] = ()
    """Those with the most hosts first, at most 16."""
    holders_total: int = 0


class HostWork(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One host in the books of a crawl."""

    host: str
    partition: int
    waiting: int
    in_flight: int
    done: int
    failures: int = 0
    """In a row."""
    execution_id: str | None = None
    """Who has leased it."""
    shard: int | None = None


class Visitor(msgspec.Struct, frozen=True, kw_only=True):
    """A crawl, or a list of URLs, that visits a host."""

    task_id: str
    task_type: str


class KeyWork(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A host, registered domain or address as the fleet's ledger sees it."""

    key: str
    delay_s: float
    """From start to start: the longest that anybody wants who visits it."""
    concurrency: int
    """Requests at once: the fewest."""
    granted: int = 0
    """So many may be under way now."""
    granted_for_s: float = 0.0
    next_in_s: float = 0.0
    """Before then nobody may ask it, by its delay."""
    waiting: int = 0
    """Executions that wait for their turn."""
    paused_for_s: float = 0.0
    """For so long everybody leaves it alone: Retry-After, 429, or failures."""
    pause: str = ""
    visitors: tuple[Visitor, ...] = ()
    """Which crawls and lists visit it, at most 10; those of other projects are only counted."""
    visitors_total: int = 0


class CrawlWork(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the work of a crawl is shared."""

    shards: tuple[ShardWork, ...] = ()
    """In their order; the crawl itself where it was not split."""
    partitions: tuple[PartitionWork, ...] = ()
    """Of a frontier that this master has open, or reaches; at most 256."""
    partitions_total: int = 0
    hosts: tuple[HostWork, ...] = ()
    """Those with the most waiting URLs, at most 50."""
    frontier: str = ""
    """Why nothing is told of partitions and hosts."""
    keys: tuple[KeyWork, ...] = ()
    """Those that are left alone first, then those that several visit; at most 100."""
    keys_total: int = 0
    ledger: str = ""
    """Why nothing is told of the ledger."""
