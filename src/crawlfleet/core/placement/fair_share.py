"""Fair share between projects while a plan is made: the project that holds least comes next.

Each turn offers a project just as many tasks as take it beyond the next project, and on a large
fleet a few more, since placing tasks together costs little more than placing one. A project that is
alone is offered all its tasks.
"""

import heapq
from collections.abc import Callable, Sequence
from typing import Final

from crawlfleet.core.placement.project_queues import ProjectQueues
from crawlfleet.core.placement.queue import ReadyQueue, TaskGroup
from crawlfleet.core.placement.quota import UNBOUNDED, room_for
from crawlfleet.core.placement.tenancy import Tenancy, Tenant, dominant_share
from crawlfleet.core.resources import demanded
from crawlfleet.model.quota import NO_LIMITS
from crawlfleet.model.resources import NOTHING, Resources
from crawlfleet.model.task import Requirement

GRAIN: Final = 0.005
"""Share of the fleet that a project may be given in one turn beyond the level of the next
project."""


class ProjectShare:
    """Project's part in a plan: the tasks that it is offered next, and the resources that it was
    given."""

    def __init__(self, line: ReadyQueue, tenant: Tenant, *, ageing_s: float) -> None:
        self.project_id = tenant.id
        self.tenant = tenant
        self._closed: set[int] = set()
        self._groups = line.groups(self._closed, ageing_s=ageing_s)
        self._group: TaskGroup | None = None
        self._taken = 0
        self._room = 0

    def requirement(self) -> Requirement | None:
        """Return the requirement of the project's next tasks; `None` when quotas allow none of
        them."""
        allowance, use = self.tenant.allowance, self.tenant.use()
        if allowance is not NO_LIMITS and not room_for(allowance, use, NOTHING):
            return None
        while True:
            if self._group is None:
                self._group, self._taken = next(self._groups, None), 0
            if self._group is None:
                return None
            self._room = self._group.size - self._taken
            if allowance is not NO_LIMITS:
                wanted = self._group.requirement
                self._room = min(
                    self._room, room_for(allowance, use, wanted.demand, wanted.task_type)
                )
            if self._room:
                return self._group.requirement
            self.close()

    def offer(self, most: int) -> int:
        """Return how many tasks of the present requirement may be placed, at most `most`."""
        return min(self._room, most)

    def take(self, number: int) -> list[str]:
        """Return the next `number` of the offered tasks."""
        assert self._group is not None, "take comes after requirement"
        taken = self._group.take(number, beyond=self._taken)
        self._taken += number
        self.tenant.book(self._group.requirement.demand, number)
        self.tenant.served += number / self.tenant.allowance.weight
        if self._taken >= self._group.size:
            self._group = None
        return taken

    def close(self) -> None:
        """Offer no more tasks with the present requirement."""
        if self._group is not None:
            self._closed.add(self._group.key)
            self._group = None


class FairShare:
    """Projects with ready tasks, in the order in which they are served."""

    def __init__(
        self,
        lines: ProjectQueues,
        tenancy: Tenancy,
        *,
        ageing_s: float,
        totals: Callable[[], Sequence[float]],
    ) -> None:
        """`totals` are what the fleet has of each resource, in millionths."""
        self._heap: list[tuple[float, float, str, ProjectShare]] = []
        self._totals = totals() if len(lines.projects()) > 1 else ()
        for project_id, line in lines:
            tenant = tenancy.tenant(project_id).copy()
            tenant.served = max(tenant.served, tenancy.clock)
            self.put_back(ProjectShare(line, tenant, ageing_s=ageing_s))

    def next(self) -> ProjectShare | None:
        """Return the project that comes next; it is left out until it is put back."""
        return heapq.heappop(self._heap)[3] if self._heap else None

    def put_back(self, turn: ProjectShare) -> None:
        """Let a project have further turns."""
        tenant = turn.tenant
        heapq.heappush(self._heap, (self._share(tenant), tenant.served, tenant.id, turn))

    def portion(self, turn: ProjectShare, demand: Resources) -> int:
        """Return how many tasks with such a demand a project may be given before another's turn."""
        if not self._heap:
            return UNBOUNDED
        one = [0.0] * len(self._totals)
        for index, units in demanded(demand):
            one[index] = units
        step = dominant_share(one, self._totals) / turn.tenant.allowance.weight
        behind = self._heap[0][0] - self._share(turn.tenant)
        return max(int((behind + GRAIN) / step), 1) if step > 0 else 1

    def _share(self, tenant: Tenant) -> float:
        if not self._totals:
            return 0.0
        return dominant_share(tenant.units, self._totals) / tenant.allowance.weight
