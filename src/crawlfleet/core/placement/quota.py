"""Whether a project may have more: its limits, what it uses, and words for what holds it back.

Amounts are whole millionths (as in `core.placement.resources`), so that what a thousand executions
took and gave back leaves exactly nothing.
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
"""As many tasks as anybody asks for at once."""

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
    """What a project has now: what waits, what its live leases hold, what it has spent today, and
    what is kept for it."""

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
    """A quota that keeps a task from its project: what is used, what more it needs, the limit."""

    quota: Quota
    use: float
    needs: float
    limit: float

    @property
    def is_lasting(self) -> bool:
        """Whether the task alone needs more than there may be."""
        return self.needs > self.limit

    def __str__(self) -> str:
        used = f"{self.use:.15g} of {self.limit:.15g} {_WORDS[self.quota]} are used"
        return f"{used}, and it needs {self.needs:g}" if self.needs else used


def room_for(allowance: Allowance, use: Use, demand: Resources, task_type: str = "") -> int:
    """How many more tasks of a type with such a demand may be given to nodes."""
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
    """The quotas that are used up whatever runs: until midnight, or until something is removed.

    What a task will fetch and leave behind nobody knows beforehand: one may begin as long as
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
    """The quotas that keep so many tasks with such a demand from being given to nodes now."""
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
    """What speaks against accepting so many new tasks with such a demand each.

    A quota of waiting tasks always does, and so does one of CPU or memory that a single task goes
    beyond: it would wait for ever. Where a project's tasks are not to wait for quotas, `booked`
    must leave room for them: what the running and the waiting ones ask for together.
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
