"""Resources that each project holds of the fleet, and the order in which projects get more.

Leases are booked here in the same step in which they come and go in the master's copy, and nowhere
else: the book is an index of the live leases, and a project without leases has exactly zero booked.

The project with the smallest dominant share (its share of the resource that it has most of),
divided by its weight, comes next. A project may use everything that no other project wants.
Projects that hold equally little take turns by how often each was served for its weight. A project
that returns after a pause starts level with the others.
"""

from collections.abc import Iterable, Mapping, Sequence

from crawlfleet.core.placement.quota import CPU, MEMORY, Use
from crawlfleet.core.resources import UNITS, demanded
from crawlfleet.model.project import Project
from crawlfleet.model.quota import NO_LIMITS, Allowance
from crawlfleet.model.resources import RESOURCE_NAMES, Resources
from crawlfleet.model.usage import DAY_S, UsageHour


class Tenant:
    """Usage and turn of one project, for placement."""

    __slots__ = ("allowance", "day", "id", "pages", "running", "served", "storage_bytes", "units")

    def __init__(self, id: str) -> None:
        self.id = id
        self.allowance: Allowance = NO_LIMITS
        self.running = 0
        self.units = [0.0] * len(RESOURCE_NAMES)
        """Amounts reserved by the project's live leases: whole millionths of each resource."""
        self.served = 0.0
        """Tasks given to the project so far, divided by its weight; on a clock that all projects
        share."""
        self.day = 0
        """Day that `pages` belongs to, in days since 1970 by UTC."""
        self.pages = 0
        self.storage_bytes = 0

    def use(self, *, waiting: int = 0) -> Use:
        """Return the present usage of the project."""
        return Use(
            waiting=waiting,
            running=self.running,
            cpu_cores=self.units[CPU] / UNITS,
            memory_mb=self.units[MEMORY] / UNITS,
            pages_per_day=self.pages,
            storage_mb=self.storage_bytes / 1e6,
        )

    def spend(self, row: UsageHour) -> None:
        """Add the usage of a commit."""
        day = int(row.at // DAY_S)
        if day > self.day:
            self.begin_day(day)
        if day == self.day:
            self.pages += row.pages
        if row.storage_bytes is not None:
            self.storage_bytes = row.storage_bytes

    def settle(self, today: UsageHour, *, exact: bool) -> None:
        """Set the totals used today; without `exact` the project may have used more since."""
        self.begin_day(int(today.at // DAY_S))
        if int(today.at // DAY_S) == self.day:
            self.pages = today.pages if exact else max(self.pages, today.pages)
        if today.storage_bytes is not None:
            self.storage_bytes = today.storage_bytes

    def begin_day(self, day: int) -> bool:
        """Begin a day, if it is later than the present one; return whether pages of an earlier day
        are no longer counted."""
        had = self.pages > 0 and day > self.day
        if day > self.day:
            self.day, self.pages = day, 0
        return had

    def book(self, amount: Resources, times: int) -> None:
        """Add `times` executions with this amount reserved for each; a negative `times` removes
        them."""
        self.running += times
        for index, units in demanded(amount):
            self.units[index] += times * units

    def copy(self) -> "Tenant":
        """Return a copy, to try out the effect of giving the project more."""
        other = Tenant(self.id)
        other.allowance, other.running, other.units = self.allowance, self.running, [*self.units]
        other.served = self.served
        other.day, other.pages, other.storage_bytes = self.day, self.pages, self.storage_bytes
        return other


class Tenancy:
    """Usage and turns of all projects."""

    def __init__(self) -> None:
        self._tenants: dict[str, Tenant] = {}
        self.clock = 0.0
        """Value of `served` of the project that was served last."""
        self.spendings = 0
        """Number of times that usage of a project has grown."""

    def put(self, project: Project) -> bool:
        """Record a project's quotas and share; return whether other nodes are reserved for it
        now."""
        tenant = self.tenant(project.id)
        before, tenant.allowance = tenant.allowance, project.allowance
        return before.nodes != project.allowance.nodes

    def tenant(self, project_id: str) -> Tenant:
        """Return the record of a project; a new one when it has none."""
        tenant = self._tenants.get(project_id)
        if tenant is None:
            tenant = self._tenants[project_id] = Tenant(project_id)
        return tenant

    def take(self, project_id: str, amount: Resources, times: int = 1) -> None:
        """Book `times` executions of the project, with this amount reserved for each."""
        tenant = self.tenant(project_id)
        tenant.book(amount, times)
        begun = max(tenant.served, self.clock)
        tenant.served = begun + times / tenant.allowance.weight
        self.clock = begun + (times - 1) / tenant.allowance.weight

    def give_back(self, project_id: str, amount: Resources, times: int = 1) -> None:
        """Release `times` executions of the project; `amount` must be the one that was booked."""
        self.tenant(project_id).book(amount, -times)

    def spend(self, rows: Iterable[UsageHour]) -> None:
        """Add the usage of projects in a commit."""
        for row in rows:
            self.spendings += 1
            self.tenant(row.project_id).spend(row)

    def begin_day(self, day: int) -> bool:
        """Reset the usage of earlier days; return whether there was any."""
        begun = [tenant.begin_day(day) for tenant in self._tenants.values()]
        return any(begun)

    def busy(self) -> list[str]:
        """Return the projects that have running executions."""
        return [tenant.id for tenant in self._tenants.values() if tenant.running]

    def reservations(self) -> Mapping[str, tuple[tuple[str, str], ...]]:
        """Return the labels of the nodes that are reserved for one project, by project."""
        return {
            tenant.id: tuple(sorted(tenant.allowance.nodes.items()))
            for tenant in self._tenants.values()
            if tenant.allowance.nodes
        }


def dominant_share(units: Sequence[float], totals: Sequence[float]) -> float:
    """Return the largest share of a resource among the amounts; resources that the fleet does not
    have are left out."""
    return max(
        (used / total for used, total in zip(units, totals, strict=True) if total > 0),
        default=0.0,
    )
