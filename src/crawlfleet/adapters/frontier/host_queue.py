"""The hosts of a crawl: their schedule, and the parts of their queues that are in RAM.

A host costs a small object, however long its queue is. Only a leased host has a head: the next few
URLs of its queue, read from the tables in portions. Everything here belongs to one thread.
"""

import math
from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple

NEVER: Final = math.inf


class QueuedUrl(NamedTuple):
    """A waiting URL in a head or a lease. Sorts by its key."""

    key: int
    place: int
    id: int
    url: str
    depth: int
    hops: int
    attempts: int = 0
    """Visits that ended in a retry; such a URL is in the table `delayed`, not in `queue`."""
    validator: str | None = None
    """Validator of the visit in the round before."""


class Head:
    """The next URLs of one host. Those behind its marks are in the tables only."""

    __slots__ = ("_heap", "behind", "due_mark", "mark")

    def __init__(self) -> None:
        self._heap: list[QueuedUrl] = []
        self.mark = -1
        """All rows of the table `queue` up to this key were read."""
        self.behind = True
        """True while there may be rows behind `mark`."""
        self.due_mark = (-NEVER, -1)
        """All rows of the table `delayed` up to this (due, place) were read."""

    def __len__(self) -> int:
        return len(self._heap)

    def reaches(self, key: int) -> bool:
        """Return whether a waiting URL with this key belongs into the head."""
        return key <= self.mark or not self.behind

    def push(self, entry: QueuedUrl) -> None:
        heappush(self._heap, entry)

    def extend(self, entries: Iterable[QueuedUrl]) -> None:
        self._heap += entries
        heapify(self._heap)

    def pop(self) -> QueuedUrl:
        return heappop(self._heap)


class HostQueue:
    """One host in the books."""

    __slots__ = (
        "delayed",
        "done",
        "failures",
        "head",
        "leased",
        "name",
        "next_at",
        "next_due",
        "number",
        "queued",
        "token",
        "when",
        "worker",
    )

    def __init__(self, number: int, name: str, next_at: float = 0.0, failures: int = 0) -> None:
        self.number = number
        self.name = name
        self.next_at = next_at
        self.failures = failures
        self.queued = self.delayed = self.done = 0
        """Numbers of rows in the tables `queue`, `delayed` and `visits`; leased URLs are still in
        the first two.
        """
        self.next_due = NEVER
        """Earliest due time of delayed URLs that are in no head."""
        self.leased: dict[int, QueuedUrl] | None = None
        self.head: Head | None = None
        self.worker: str | None = None
        self.token = 0
        self.when: float | None = None
        """Time at which the host is in the schedule; `None` if it is not there."""

    @property
    def taken_in(self) -> int:
        return self.queued + self.delayed + self.done

    @property
    def waiting(self) -> int:
        return self.queued + self.delayed - len(self.leased or ())

    def ready_at(self) -> float:
        """Return the time from which the host can be leased; `NEVER` if nothing waits."""
        if self.queued:
            return self.next_at
        return max(self.next_at, self.next_due) if self.delayed else NEVER

    def lend(self, worker: str, token: int) -> None:
        self.worker, self.token, self.when = worker, token, None
        self.leased, self.head = {}, Head()

    def take_back(self) -> None:
        self.worker = self.leased = self.head = None


class HostSchedule:
    """The schedule of hosts that are not leased and have something to visit.

    An entry is void once its host has another time; it is dropped when it comes up. Hosts of equal
    times take turns.
    """

    def __init__(self) -> None:
        self._ready: list[tuple[float, int, HostQueue]] = []
        self._later: list[tuple[float, int, HostQueue]] = []
        self._turn = 0
        self._now = 0.0
        self.standing = 0
        """Number of hosts in the schedule."""

    def remove(self, host: HostQueue) -> None:
        """Remove a host that is leased out of turn."""
        self.standing -= host.when is not None
        host.when = None

    def place(self, host: HostQueue) -> None:
        """Put the host where it belongs now; not if it is leased."""
        when = host.ready_at()
        if host.worker is not None or when == host.when:
            return
        if when == NEVER:
            self.remove(host)
            return
        self.standing += host.when is None
        host.when = when
        self._turn += 1
        heappush(self._ready if when <= self._now else self._later, (when, self._turn, host))

    def due(self, now: float) -> Iterator[HostQueue]:
        """Hosts that may be leased now, the earliest first; the caller leases each or stops."""
        self._now = now
        later, ready = self._later, self._ready
        while later and later[0][0] <= now:
            heappush(ready, heappop(later))
        while ready and ready[0][0] <= now:
            when, _, host = heappop(ready)
            if host.when == when:
                self.remove(host)
                yield host

    def next_time(self) -> float:
        """Return the time of the next host that is not due yet; `NEVER` if there is none."""
        later = self._later
        while later and later[0][2].when != later[0][0]:
            heappop(later)
        return later[0][0] if later else NEVER
