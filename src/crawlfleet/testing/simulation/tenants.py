"""Invariants of projects: no quota is exceeded, and the use of a quota equals the live leases."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from crawlfleet.core.placement.tenancy import Tenant
from crawlfleet.model.change import Change
from crawlfleet.model.project import Project
from crawlfleet.model.quota import NO_LIMITS, Allowance, Quota
from crawlfleet.model.resources import RESOURCE_NAMES
from crawlfleet.model.task import LIVE_EXECUTION, Execution, Task

UNIT = 1e-6


def named(allowances: Sequence[Allowance]) -> Iterator[tuple[str, Allowance]]:
    """Return the projects of a world with their quotas."""
    for number, allowance in enumerate(allowances):
        yield f"project-{number}", allowance


def founding(allowances: Mapping[str, Allowance]) -> list[Change]:
    """The changes that make them."""
    return [
        Change(rows=(Project(id=id, name=id, created_at=0.0, updated_at=0.0, allowance=each),))
        for id, each in allowances.items()
    ]


class TenantInvariants:
    """Adds up the live leases of each project, from nothing but the changes."""

    def __init__(self, tasks: Mapping[str, Task], allowances: Mapping[str, Allowance]) -> None:
        self._tasks = tasks
        self._allowances = allowances
        self._live: dict[str, dict[str, Execution]] = defaultdict(dict)

    def observe(self, execution: Execution) -> None:
        """Take an execution into account; raises `AssertionError` when there are too many."""
        project_id = self._tasks[execution.task_id].project_id
        live = self._live[project_id]
        if execution.status not in LIVE_EXECUTION:
            live.pop(execution.id, None)
            return
        live[execution.id] = execution
        allowance = self._allowances.get(project_id, NO_LIMITS)
        used = {
            Quota.RUNNING: float(len(live)),
            Quota.CPU_CORES: sum(each.reserved.cpu_cores for each in live.values()),
            Quota.MEMORY_MB: sum(each.reserved.memory_mb for each in live.values()),
        }
        for quota, use in used.items():
            limit = allowance.limit(quota)
            assert limit is None or use <= limit + UNIT, (
                f"{project_id} has {use:g} of {quota}, more than its quota of {limit:g}"
            )

    def check(self, tenant: Tenant) -> None:
        """Check that the master's account of a project equals its live leases."""
        live = self._live[tenant.id].values()
        assert tenant.running == len(live), (
            f"{tenant.id} has {len(live)} live leases, the master thinks {tenant.running}"
        )
        for name, units in zip(RESOURCE_NAMES, tenant.units, strict=True):
            held = sum(getattr(each.reserved, name) for each in live)
            assert abs(held - units * UNIT) < UNIT, (
                f"{tenant.id}: {name} held is {held:g}, the master thinks {units * UNIT:g}"
            )

    def projects(self) -> list[str]:
        """Return all projects that ever had a lease."""
        return [*self._live]
