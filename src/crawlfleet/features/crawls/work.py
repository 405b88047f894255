"""Shows the work of a crawl: its shards, its partitions and their holders, and ledger entries."""

from typing import Final

from crawlfleet.control.state.fleet_state import FleetState
from crawlfleet.core.crawls.figures import part_of
from crawlfleet.core.crawls.shared_crawl import crawl_of
from crawlfleet.errors import Busy, FrontierLost, LedgerUnavailable, StoreUnavailable
from crawlfleet.features.crawls import rules
from crawlfleet.features.crawls.frontiers import Frontiers
from crawlfleet.features.crawls.ledger import LedgerService
from crawlfleet.features.crawls.service import Crawls
from crawlfleet.features.crawls.work_views import (
    MAX_HOSTS,
    MAX_KEYS,
    MAX_PARTITIONS,
    CrawlWork,
    HostWork,
    KeyWork,
    ShardWork,
    Visitor,
)
from crawlfleet.model.crawl.frontier import PartitionFigures
from crawlfleet.model.task import TERMINAL, Shard, Task
from crawlfleet.ports.store import Store

CLOSED: Final = "closed"
"""The frontier is not open now, or it is on the node."""
ELSEWHERE: Final = "elsewhere"
"""Another master has it."""
AWAY: Final = "away"


class CrawlWorkers:
    """Collects the work of a crawl for the API."""

    def __init__(
        self,
        *,
        store: Store,
        state: FleetState,
        crawls: Crawls,
        frontiers: Frontiers,
        ledger: LedgerService,
    ) -> None:
        self._store = store
        self._state = state
        self._crawls = crawls
        self._frontiers = frontiers
        self._ledger = ledger

    async def of(self, task: Task, *, project_id: str | None) -> CrawlWork:
        """Return the work of a crawl. With `project_id`, visitors that belong to other projects are
        only counted."""
        parts = await self._parts(task)
        shards = {each.execution_id: each.shard for each in parts if each.execution_id}
        if not task.is_parent:
            shards = {}
        partitions, hosts, why = await self._books(task, shards)
        held = rules.held_by(partitions)
        executions = {each.execution_id for each in parts if each.execution_id}
        keys, why_no_keys = await self._keys(executions, project_id)
        return CrawlWork(
            shards=tuple(self._shard(task, each, held if partitions else None) for each in parts),
            partitions=tuple(
                rules.partition_work(each, shards) for each in partitions[:MAX_PARTITIONS]
            ),
            partitions_total=len(partitions),
            hosts=tuple(hosts),
            frontier=why,
            keys=tuple(rules.ranked(keys)[:MAX_KEYS]),
            keys_total=len(keys),
            ledger=why_no_keys,
        )

    async def _parts(self, task: Task) -> list[Shard]:
        """Return the shards of a crawl; a crawl that was not split is its own only shard."""
        if task.is_parent:
            return await self._store.shards(task.id)
        return [
            Shard(
                id=task.id,
                shard=task.shard or 0,
                status=task.status,
                execution_id=task.execution_id,
                assigned_node=task.assigned_node,
            )
        ]

    def _shard(self, crawl: Task, part: Shard, held: dict[str, int] | None) -> ShardWork:
        figures = self._crawls.told_by(crawl, part)
        told = None if figures is None else part_of(figures)
        pages, items = part.metrics.get("pages_crawled"), part.metrics.get("items")
        is_over = part.status in TERMINAL
        return ShardWork(
            shard=part.shard,
            task_id=part.id,
            state=str(part.status),
            node_id=part.assigned_node,
            execution_id=part.execution_id,
            pages=told.pages if told else None if pages is None else int(pages),
            items=told.items if told else None if items is None else int(items),
            rate_per_s=None if figures is None or is_over else figures.rate_per_s,
            hosts=None if held is None else held.get(part.execution_id or "", 0),
        )

    async def _books(
        self, task: Task, shards: dict[str, int]
    ) -> tuple[list[PartitionFigures], list[HostWork], str]:
        """Return the partitions and the busiest hosts of the frontier; or empty lists and the
        reason."""
        frontier = self._frontiers.opened(crawl_of(task))
        if frontier is None:
            return [], [], CLOSED if self._frontiers.leads else ELSEWHERE
        try:
            partitions = [*await frontier.shares()]
            busiest = await frontier.busiest(MAX_HOSTS)
        except (StoreUnavailable, FrontierLost):
            return [], [], CLOSED  # it was closed just now
        hosts = [
            rules.host_work(each, frontier.partition_of(each.host), shards) for each in busiest
        ]
        return partitions, hosts, ""

    async def _keys(
        self, executions: set[str], project_id: str | None
    ) -> tuple[list[KeyWork], str]:
        """Return the ledger entries of the hosts that these executions visit; or an empty list and
        the reason."""
        known = {
            id: (
                Visitor(task_id=crawl_of(lease.task), task_type=lease.task.task_type),
                project_id in (None, lease.task.project_id),
            )
            for id, lease in self._state.leases.items()
        }
        try:
            page = await self._ledger.browse()
        except Busy:
            return [], ELSEWHERE
        except LedgerUnavailable:
            return [], AWAY
        found = [
            rules.key_work(key, entry, page.now, known)
            for key, entry in page.entries.items()
            if not executions.isdisjoint(rules.visitors(entry, page.now))
        ]
        return found, ""
