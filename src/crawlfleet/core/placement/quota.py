"""Quotas of a project: how many more tasks it may have, and the reasons when it may have none.

Amounts are whole millionths (as in `core.placement.resources`), so that taking and returning the
amounts of a thousand executions leaves exactly zero.
"""

from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from crawlfleet.core.resources import UNITS, demanded
from crawlfleet.core.usage import FETCHING
from crawlfleet.model.quota import Allowance, Over, Quota
from crawlfleet.model.resources import RESOURCE_NAMES, Resources

CPU: Final = RESOURCE_NAMES.index("cpu_cores")
MEMORY: Final = RESOURCE_NAMES.index("memory_mb")
UNBOUNDED: Final = 10**9
"""Number of tasks that stands for "no limit"."""

_BY_RESOURCE: Final = {CPU: Quota.CPU_CORES, MEMORY: Quota.MEMORY_MB}
_WORDS: Final = {
    Quota.WAITING: "waiting tasks",
    Quota.RUNNING: "running tasks",
    Quota.CPU_CORES: "CPU cores",
    Quota.MEMORY_MB: "MB of memory",
    Quota.PAGES_PER_DAY: "pages of the day",
    Quota.STORAGE_MB: "MB of storage",
}


class Use(msgspec.Struct, frozen=True, kw_only=True):
    """Usage of a project: waiting tasks, the resources of its live leases, pages of today, and
    storage."""

    waiting: int = 0
    running: int = 0
    cpu_cores: float = 0.0
    memory_mb: float = 0.0
    pages_per_day: int = 0
    storage_mb: float = 0.0

    def of(self, quota: Quota) -> float:
        use: float = getattr(self, quota.value)
        return use


class QuotaRefusal(msgspec.Struct, frozen=True, kw_only=True):
    """Quota that refuses a task of a project: the present use, the need, and the limit."""

    quota: Quota
    use: float
    needs: float
    limit: float

    @property
    def is_lasting(self) -> bool:
        """True if a single task needs more than the limit, so that waiting cannot help."""
        return self.needs > self.limit

    def __str__(self) -> str:
        used = f"{self.use:.15g} of {self.limit:.15g} {_WORDS[self.quota]} are used"
        return f"{used}, and it needs {self.needs:g}" if self.needs else used


def room_for(allowance: Allowance, use: Use, demand: Resources, task_type: str = "") -> int:
    """Return how many more tasks of a type with such a demand may be given to nodes."""
    if next(spent(allowance, use, task_type), None) is not None:
        return 0
    room = UNBOUNDED
    if allowance.running is not None:
        room = max(int(allowance.running) - use.running, 0)
    if allowance.cpu_cores is None and allowance.memory_mb is None:
        return room
    for index, amount in demanded(demand):
        quota = _BY_RESOURCE.get(index)
        limit = None if quota is None else allowance.limit(quota)
        if quota is not None and limit is not None:
            left = round(limit * UNITS) - round(use.of(quota) * UNITS)
            room = min(room, max(int(left // amount), 0))
    return room


def spent(allowance: Allowance, use: Use, task_type: str) -> Iterator[QuotaRefusal]:
    """Yield the quotas that are used up whatever runs: until midnight, or until something is
    deleted.

    The pages and storage of a task are not known beforehand, so a task may start as long as
    anything is left.
    """
    if allowance.storage_mb is not None and use.storage_mb >= allowance.storage_mb:
        yield _spent(Quota.STORAGE_MB, use, allowance.storage_mb)
    limit = allowance.pages_per_day
    if limit is not None and task_type in FETCHING and use.pages_per_day >= limit:
        yield _spent(Quota.PAGES_PER_DAY, use, limit)


def _spent(quota: Quota, use: Use, limit: float) -> QuotaRefusal:
    return QuotaRefusal(quota=quota, use=use.of(quota), needs=0.0, limit=limit)


def holds(
    allowance: Allowance, use: Use, demand: Resources, *, tasks: int = 1, task_type: str = ""
) -> Iterator[QuotaRefusal]:
    """Yield the quotas that keep this number of tasks with such a demand from being assigned
    now."""
    yield from spent(allowance, use, task_type)
    needs = _needs(demand, tasks)
    for quota, needed in needs.items():
        limit = allowance.limit(quota)
        if limit is not None and round((use.of(quota) + needed - limit) * UNITS) > 0:
            yield QuotaRefusal(quota=quota, use=use.of(quota), needs=needed, limit=limit)


def refusal(
    allowance: Allowance,
    use: Use,
    booked: Callable[[], Use],
    demand: Resources,
    *,
    tasks: int,
    task_type: str = "",
) -> QuotaRefusal | None:
    """Return the quota that refuses this number of new tasks with such a demand each; `None` if
    none does.

    A quota of waiting tasks always refuses, and so does one of CPU or memory that a single task
    exceeds: that task would wait for ever. If the project's tasks are not to wait for quotas,
    `booked` must also leave room for them: it returns the demand of running and waiting tasks
    together.
    """
    limit = allowance.waiting
    if limit is not None and use.waiting + tasks > limit:
        return QuotaRefusal(quota=Quota.WAITING, use=use.waiting, needs=tasks, limit=limit)
    for hold in holds(allowance, Use(), demand):
        if hold.quota in _BY_RESOURCE.values():
            return msgspec.structs.replace(hold, use=use.of(hold.quota))
    if allowance.over is Over.QUEUE:
        return None
    return next(holds(allowance, booked(), demand, tasks=tasks, task_type=task_type), None)


def _needs(demand: Resources, tasks: int) -> dict[Quota, float]:
    return {
        Quota.RUNNING: float(tasks),
        Quota.CPU_CORES: demand.cpu_cores * tasks,
        Quota.MEMORY_MB: demand.memory_mb * tasks,
    }
