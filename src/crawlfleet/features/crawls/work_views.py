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
    """One task that works for a crawl."""

    shard: int
    task_id: str
    state: TaskState
    node_id: str | None = None
    """The node that runs the shard, or ran it last."""
    execution_id: str | None = None
    """Id of the present or the last attempt."""
    pages: int | None = None
    """Pages of this shard alone, as last reported."""
    items: int | None = None
    rate_per_s: float | None = None
    """Pages per second while it runs."""
    hosts: int | None = None
    """Hosts that the shard has leased; not set where this master does not know the frontier."""


class Holder(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An execution that has leased hosts of a partition."""

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
    """Hosts with URLs to visit, including leased hosts."""
    holders: tuple[Holder, ...] = ()
    """The executions with the most leased hosts, at most 16."""
    holders_total: int = 0


class HostWork(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One host in the books of a crawl."""

    host: str
    partition: int
    waiting: int
    in_flight: int
    done: int
    failures: int = 0
    """Failures in a row."""
    execution_id: str | None = None
    """The execution that has leased the host."""
    shard: int | None = None


class Visitor(msgspec.Struct, frozen=True, kw_only=True):
    """A crawl, or a list of URLs, that visits a host."""

    task_id: str
    task_type: str


class KeyWork(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A host, registered domain or address as the fleet's ledger sees it."""

    key: str
    delay_s: float
    """Seconds from the start of one request to the start of the next: the longest delay that any of
    its visitors asks for."""
    concurrency: int
    """Requests at once: the lowest limit that any of its visitors asks for."""
    granted: int = 0
    """Requests that may be running now."""
    granted_for_s: float = 0.0
    next_in_s: float = 0.0
    """Seconds until its delay allows the next request."""
    waiting: int = 0
    """Executions that wait for their turn."""
    paused_for_s: float = 0.0
    """Seconds for which no crawl visits it, because of Retry-After, 429 or failures."""
    pause: str = ""
    visitors: tuple[Visitor, ...] = ()
    """Crawls and lists that visit it, at most 10; those of other projects are only counted."""
    visitors_total: int = 0


class CrawlWork(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The distribution of a crawl's work among its workers."""

    shards: tuple[ShardWork, ...] = ()
    """The shards in order; the crawl itself where it was not split."""
    partitions: tuple[PartitionWork, ...] = ()
    """Partitions of a frontier that this master has open or can reach; at most 256."""
    partitions_total: int = 0
    hosts: tuple[HostWork, ...] = ()
    """The hosts with the most waiting URLs, at most 50."""
    frontier: str = ""
    """Reason why partitions and hosts are not shown."""
    keys: tuple[KeyWork, ...] = ()
    """Paused hosts first, then those with several visitors; at most 100."""
    keys_total: int = 0
    ledger: str = ""
    """Reason why the politeness ledger is not shown."""
