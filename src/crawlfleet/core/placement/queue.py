"""Queue of ready tasks: ordered by priority, then by age, with turns between categories.

The rank of a task is `created_at - priority x ageing_s`; the lowest comes first. Waiting for
`ageing_s` is worth one step of priority, and since all tasks wait alike the rank never changes.
Ranks in the same band (a tenth of `ageing_s`, at most a minute) count as equal: within a band,
tasks with equal requirements are placed together, and categories take turns by how much each was
served. Between bands, and among tasks of one band with equal requirement and category, the order is
strict.

A deadline counts as if the task had been created `ageing_s` before the deadline: of two tasks with
a deadline, the nearer deadline comes first, both come before tasks of the same age without one, and
none gains more than a step of priority.
"""

import heapq
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator
from itertools import groupby
from math import floor
from typing import Final, NamedTuple

from crawlfleet.model.task import Requirement

GARBAGE: Final = 64
"""Limit of removed tasks that stay in a lane beyond the number of its waiting tasks."""

Entry = tuple[float, str, int]
"""Rank, task id, and the number of the addition, which distinguishes a task from earlier additions
of it."""


class _Turns:
    """Tasks of a category in a band: how many were served, and how many wait."""

    __slots__ = ("served", "waiting")

    def __init__(self) -> None:
        self.served = 0
        self.waiting = 0


class Band:
    """Categories of a band, and the number of waiting tasks in all of them."""

    __slots__ = ("categories", "waiting")

    def __init__(self) -> None:
        self.categories: dict[str, _Turns] = {}
        self.waiting = 0

    def enter(self, category: str) -> None:
        """Add a task; a category that comes (back) later starts level with the others."""
        own = self.categories.setdefault(category, _Turns())
        if not own.waiting:
            others = (each.served for each in self.categories.values() if each.waiting)
            own.served = max(own.served, min(others, default=0))
        own.waiting += 1
        self.waiting += 1

    def leave(self, category: str) -> None:
        """Remove a task, and count its category as served."""
        own = self.categories[category]
        own.served += 1
        own.waiting -= 1
        self.waiting -= 1


class QueueLane:
    """Tasks of one band, requirement and category, by rank.

    `front` is the sorted part that was looked at, and the rest is a heap. Removed tasks stay until
    they reach the front, or until they outnumber the others.
    """

    __slots__ = ("front", "live", "rest")

    def __init__(self) -> None:
        self.front: list[Entry] = []
        self.rest: list[Entry] = []
        self.live = 0

    def add(self, entry: Entry) -> None:
        self.live += 1
        if self.front and entry < self.front[-1]:
            insort(self.front, entry)
        else:
            heapq.heappush(self.rest, entry)

    def first(self, number: int, is_live: Callable[[Entry], bool]) -> list[Entry]:
        """Return the first tasks in order, sorting no more than needed."""
        if len(self.front) + len(self.rest) > self.live:
            self.front = [entry for entry in self.front if is_live(entry)]
        while len(self.front) < number and self.rest:
            entry = heapq.heappop(self.rest)
            if is_live(entry):
                self.front.append(entry)
        return self.front[:number]

    def sweep(self, is_live: Callable[[Entry], bool]) -> None:
        """Delete removed tasks when they outnumber the waiting ones."""
        if len(self.front) + len(self.rest) > 2 * self.live + GARBAGE:
            self.front = [entry for entry in self.front if is_live(entry)]
            self.rest = [entry for entry in self.rest if is_live(entry)]
            heapq.heapify(self.rest)


class Backlog:
    """Tasks with one requirement."""

    __slots__ = ("bands", "key", "live", "order", "requirement")

    def __init__(self, requirement: Requirement, key: int) -> None:
        self.requirement = requirement
        self.key = key
        self.bands: dict[int, dict[str, QueueLane]] = {}
        self.order: list[int] = []
        """Sorted numbers of the bands that have tasks."""
        self.live = 0

    def lane(self, band: int, category: str) -> QueueLane:
        """Return the lane of a band and category; it is created when it is missing."""
        lanes = self.bands.get(band)
        if lanes is None:
            lanes = self.bands[band] = {}
            insort(self.order, band)
        lane = lanes.get(category)
        if lane is None:
            lane = lanes[category] = QueueLane()
        return lane

    def forget_lane(self, band: int, category: str) -> None:
        lanes = self.bands[band]
        del lanes[category]
        if not lanes:
            del self.bands[band]
            del self.order[bisect_left(self.order, band)]


USUAL_AGEING_S: Final = 600.0
WIDEST_BAND_S: Final = 60.0
WITHOUT_AGEING_S: Final = 1e9
FIRST_TURN: Final = 16
"""Number of tasks that each category may place in the first round of a band; later rounds double
it."""


class _Waiting(NamedTuple):
    """Task in the queue, with its position."""

    addition: int
    backlog: Backlog
    band: int
    category: str
    priority: int
    created_at: float
    deadline: float | None


class _Portion(NamedTuple):
    """Part of a lane that one round of a band offers."""

    lane: QueueLane
    start: int
    stop: int
    served: int
    """Number of tasks of the lane's category that were served before this stretch."""


class TaskGroup:
    """Group of tasks of one band with equal requirement; the caller takes as many of the first as
    it wants."""

    __slots__ = ("_is_live", "_portions", "key", "requirement", "size")

    def __init__(
        self,
        backlog: Backlog,
        portions: list[_Portion],
        is_live: Callable[[Entry], bool],
    ) -> None:
        self.requirement = backlog.requirement
        self.key = backlog.key
        """Key that, put into `closed` of `ReadyQueue.groups`, ends all groups of this
        requirement."""
        self.size = sum(portion.stop - portion.start for portion in portions)
        self._portions = portions
        self._is_live = is_live

    def take(self, number: int, *, beyond: int = 0) -> list[str]:
        """Return the ids of the first tasks after `beyond` others, in order; the queue keeps them
        until they are discarded."""
        until = beyond + number
        if len(self._portions) == 1:
            lane, start, stop, _ = self._portions[0]
            entries = lane.first(min(start + until, stop), self._is_live)
            return [entry[1] for entry in entries[start + beyond :]]
        turns = []
        for lane, start, stop, served in self._portions:
            entries = lane.first(min(start + until, stop), self._is_live)[start:]
            turns += [(served + place, entry) for place, entry in enumerate(entries)]
        turns.sort()
        return [entry[1] for _, entry in turns[beyond:until]]


class ReadyQueue:
    """Ready tasks of one project, in the order in which they should be placed."""

    def __init__(self, project_id: str = "") -> None:
        self.project_id = project_id
        self._ageing_s = USUAL_AGEING_S
        self._tasks: dict[str, _Waiting] = {}
        self._backlogs: dict[Requirement, Backlog] = {}
        self._bands: dict[int, Band] = {}
        self._additions = 0

    def __len__(self) -> int:
        return len(self._tasks)

    def __contains__(self, task_id: str) -> bool:
        return task_id in self._tasks

    def add(
        self,
        task_id: str,
        requirement: Requirement,
        *,
        priority: int,
        created_at: float,
        category: str = "",
        deadline: float | None = None,
    ) -> None:
        """Add a ready task; one that is in the queue already is placed anew (its priority may
        differ)."""
        self.discard(task_id)
        backlog = self._backlogs.get(requirement)
        self._additions += 1
        if backlog is None:
            backlog = Backlog(requirement, self._additions)
            self._backlogs[requirement] = backlog
        since = created_at if deadline is None else min(created_at, deadline - self._ageing_s)
        rank = since - priority * self._ageing_s
        band = floor(rank / min(self._ageing_s / 10, WIDEST_BAND_S))
        backlog.lane(band, category).add((rank, task_id, self._additions))
        backlog.live += 1
        if band not in self._bands:
            self._bands[band] = Band()
        self._bands[band].enter(category)
        self._tasks[task_id] = _Waiting(
            self._additions, backlog, band, category, priority, created_at, deadline
        )

    def discard(self, task_id: str) -> None:
        """Remove a task that was placed or cancelled; ignored when it is not in the queue."""
        task = self._tasks.pop(task_id, None)
        if task is None:
            return
        backlog, band, category = task.backlog, task.band, task.category
        lane = backlog.bands[band][category]
        lane.live -= 1
        if lane.live:
            lane.sweep(self._is_live)
        else:
            backlog.forget_lane(band, category)
        backlog.live -= 1
        if not backlog.live:
            del self._backlogs[backlog.requirement]
        self._bands[band].leave(category)
        if not self._bands[band].waiting:
            del self._bands[band]

    def requirements(self) -> dict[Requirement, int]:
        """Return the requirements of ready tasks, with the number of tasks of each."""
        return {requirement: backlog.live for requirement, backlog in self._backlogs.items()}

    def waiting_for(self, requirement: Requirement) -> int:
        """Return the number of ready tasks with this requirement."""
        backlog = self._backlogs.get(requirement)
        return backlog.live if backlog else 0

    def oldest(self, requirement: Requirement) -> float | None:
        """Return the creation time of the first task with this requirement."""
        first = self.first(requirement)
        return None if first is None else self._tasks[first].created_at

    def first(self, requirement: Requirement) -> str | None:
        """Return the first task with this requirement."""
        backlog = self._backlogs.get(requirement)
        if backlog is None:
            return None
        lanes = backlog.bands[backlog.order[0]].values()
        return min(lane.first(1, self._is_live)[0] for lane in lanes)[1]

    def made_at(self, task_id: str) -> float:
        """Return the creation time of a task in the queue."""
        return self._tasks[task_id].created_at

    def groups(self, closed: set[int], *, ageing_s: float = USUAL_AGEING_S) -> Iterator[TaskGroup]:
        """Yield the groups of tasks to place, in order; nothing is removed from the queue.

        The caller adds a group's `key` to `closed` to get no more groups of its requirement. The
        cost is small per requirement, and otherwise only for groups that are yielded. The queue
        must not be changed between two steps. With `ageing_s` of zero or less there is no ageing.
        """
        ageing_s = ageing_s if ageing_s > 0 else WITHOUT_AGEING_S
        if ageing_s != self._ageing_s:
            self._rank_anew(ageing_s)
        heads = [(backlog.order[0], backlog.key, backlog) for backlog in self._backlogs.values()]
        heapq.heapify(heads)
        while heads:
            band = heads[0][0]
            backlogs = []
            while heads and heads[0][0] == band:
                backlogs.append(heapq.heappop(heads)[2])
            yield from self._band_groups(band, backlogs, closed)
            for backlog in backlogs:
                place = bisect_left(backlog.order, band) + 1
                if backlog.key not in closed and place < len(backlog.order):
                    heapq.heappush(heads, (backlog.order[place], backlog.key, backlog))

    def _band_groups(
        self, band: int, backlogs: list[Backlog], closed: set[int]
    ) -> Iterator[TaskGroup]:
        categories = self._bands[band].categories.values()
        if sum(each.waiting > 0 for each in categories) > 1:
            yield from self._rounds(band, backlogs, closed)
            return
        whole = []
        for backlog in backlogs:
            (lane,) = backlog.bands[band].values()
            head = lane.first(1, self._is_live)[0]
            whole.append((head, backlog, [_Portion(lane, 0, lane.live, 0)]))
        whole.sort(key=lambda group: group[0])
        for _, backlog, portions in whole:
            if backlog.key not in closed:
                yield TaskGroup(backlog, portions, self._is_live)

    def _rounds(self, band: int, backlogs: list[Backlog], closed: set[int]) -> Iterator[TaskGroup]:
        """Offer each category its share of a round, then a round twice as large, to the end."""
        by_category: dict[str, list[tuple[Backlog, QueueLane]]] = {}
        for backlog in backlogs:
            for category, lane in backlog.bands[band].items():
                by_category.setdefault(category, []).append((backlog, lane))
        turns = self._bands[band].categories
        served = {category: turns[category].served for category in by_category}
        offered: dict[QueueLane, int] = {}
        turn = max(FIRST_TURN, *map(len, by_category.values()))
        level = min(served.values()) + turn
        while by_category:
            portions = []
            for category in list(by_category):
                lanes = by_category[category] = [
                    (backlog, lane)
                    for backlog, lane in by_category[category]
                    if backlog.key not in closed and offered.get(lane, 0) < lane.live
                ]
                if not lanes:
                    del by_category[category]
                    continue
                share = -(-max(level - served[category], 0) // len(lanes))
                before = served[category]
                for backlog, lane in lanes:
                    start = offered.get(lane, 0)
                    stop = offered[lane] = min(start + share, lane.live)
                    served[category] += stop - start
                    if stop > start:
                        portions.append((backlog, _Portion(lane, start, stop, before)))
            yield from self._by_requirement(portions, closed)
            level += turn
            turn *= 2

    def _by_requirement(
        self, portions: list[tuple[Backlog, _Portion]], closed: set[int]
    ) -> Iterator[TaskGroup]:
        """Yield the groups of a round; the category that was served least goes first."""
        portions.sort(key=lambda pair: pair[0].key)
        groups = []
        for _, pairs in groupby(portions, key=lambda pair: pair[0].key):
            own = list(pairs)
            first = min(
                (portion.served, portion.lane.first(portion.start + 1, self._is_live)[-1])
                for _, portion in own
            )
            groups.append((first, own[0][0], [portion for _, portion in own]))
        groups.sort(key=lambda group: group[0])
        for _, backlog, stretches in groups:
            if backlog.key not in closed:
                yield TaskGroup(backlog, stretches, self._is_live)

    def _is_live(self, entry: Entry) -> bool:
        task = self._tasks.get(entry[1])
        return task is not None and task.addition == entry[2]

    def _rank_anew(self, ageing_s: float) -> None:
        """Order all tasks by another ageing."""
        tasks, self._tasks = self._tasks, {}
        self._backlogs.clear()
        self._bands.clear()
        self._ageing_s = ageing_s
        for task_id, task in tasks.items():
            self.add(
                task_id,
                task.backlog.requirement,
                priority=task.priority,
                created_at=task.created_at,
                category=task.category,
                deadline=task.deadline,
            )
