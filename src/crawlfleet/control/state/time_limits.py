"""Time limits of running work: the next one, and those that are over."""

import heapq
from collections.abc import Callable, Mapping

from crawlfleet.core.tasks.lease import Lease


class TimeLimits:
    """Watches the limits of leases for as long as those are among `leases`."""

    def __init__(self, leases: Mapping[str, Lease], *, wake: Callable[[], None]) -> None:
        self._leases = leases
        self._wake = wake
        """Called when a limit may have become the next."""
        self._heap: list[tuple[float, str]] = []

    def watch(self, lease: Lease) -> None:
        """Watch the time limit of a lease, if it has one."""
        if lease.task.timeout_s is not None:
            begun = lease.execution.running_at or lease.execution.start_time
            heapq.heappush(self._heap, (begun + lease.task.timeout_s, lease.execution.id))
            self._wake()

    def watch_all(self, *, now: float) -> None:
        """Watch all leases again after a take-over: the last leader may not have handled those that
        are due. A time limit that is over counts once more from now: by another clock it may not be
        over, and the node enforces the limit all the same.
        """
        self._heap.clear()
        for lease in self._leases.values():
            if lease.task.timeout_s is not None:
                begun = lease.execution.running_at or lease.execution.start_time
                limit = begun + lease.task.timeout_s
                at = limit if limit > now else now + lease.task.timeout_s
                heapq.heappush(self._heap, (at, lease.execution.id))
        self._wake()

    def next(self) -> float | None:
        """Return when the next execution reaches its time limit, or `None`."""
        while self._heap and self._heap[0][1] not in self._leases:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def over(self, at: float) -> list[Lease]:
        """Return the leases whose time limit was reached by then; each is returned once.

        The time runs from the start of the work: a lease that was started later than it was
        assigned is watched anew.
        """
        over: list[Lease] = []
        while (limit := self.next()) is not None and limit <= at:
            lease = self._leases[heapq.heappop(self._heap)[1]]
            begun = lease.execution.running_at or lease.execution.start_time
            if begun + (lease.task.timeout_s or 0.0) > limit:
                self.watch(lease)
            else:
                over.append(lease)
        return over
