"""Where ready tasks stand: lanes of one band, requirement and category, each in order of rank.

A backlog is all that asks for the same; a band is all that is equally urgent. Adding and removing
cost the same however many tasks wait, and reading the first of a lane looks at no more than that.
"""

import heapq
from bisect import bisect_left, insort
from collections.abc import Callable
from typing import Final

from crawlfleet.model.task import Requirement

GARBAGE: Final = 64
"""So many removed tasks may stay in a lane beyond the number of those that wait."""

Entry = tuple[float, str, int]
"""Rank, task id, and the number of the addition, which tells a task from its earlier self."""


class _Turns:
    """How much a category of a band has been served, and how many of its tasks wait."""

    __slots__ = ("served", "waiting")

    def __init__(self) -> None:
        self.served = 0
        self.waiting = 0


class Band:
    """The categories of a band, and how many tasks wait in all of them."""

    __slots__ = ("categories", "waiting")

    def __init__(self) -> None:
        self.categories: dict[str, _Turns] = {}
        self.waiting = 0

    def enter(self, category: str) -> None:
        """One more task; a category that comes (back) later starts level with the others."""
        own = self.categories.setdefault(category, _Turns())
        if not own.waiting:
            others = (each.served for each in self.categories.values() if each.waiting)
            own.served = max(own.served, min(others, default=0))
        own.waiting += 1
        self.waiting += 1

    def leave(self, category: str) -> None:
        """One task less: its category was served."""
        own = self.categories[category]
        own.served += 1
        own.waiting -= 1
        self.waiting -= 1


class Lane:
    """Tasks of one band, requirement and category, by rank.

    `front` is sorted: what has been looked at. The rest is a heap. Removed tasks stay until they
    are met, or until they outnumber the others.
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
        """The first tasks, in order; looks at no more than it must."""
        if len(self.front) + len(self.rest) > self.live:
            self.front = [entry for entry in self.front if is_live(entry)]
        while len(self.front) < number and self.rest:
            entry = heapq.heappop(self.rest)
            if is_live(entry):
                self.front.append(entry)
        return self.front[:number]

    def sweep(self, is_live: Callable[[Entry], bool]) -> None:
        """Throw removed tasks away when they are more than those that wait."""
        if len(self.front) + len(self.rest) > 2 * self.live + GARBAGE:
            self.front = [entry for entry in self.front if is_live(entry)]
            self.rest = [entry for entry in self.rest if is_live(entry)]
            heapq.heapify(self.rest)


class Backlog:
    """All tasks that ask for the same."""

    __slots__ = ("bands", "key", "live", "order", "requirement")

    def __init__(self, requirement: Requirement, key: int) -> None:
        self.requirement = requirement
        self.key = key
        self.bands: dict[int, dict[str, Lane]] = {}
        self.order: list[int] = []
        """The bands that have tasks, sorted."""
        self.live = 0

    def lane(self, band: int, category: str) -> Lane:
        """The lane for such tasks, made when it is missing."""
        lanes = self.bands.get(band)
        if lanes is None:
            lanes = self.bands[band] = {}
            insort(self.order, band)
        lane = lanes.get(category)
        if lane is None:
            lane = lanes[category] = Lane()
        return lane

    def forget_lane(self, band: int, category: str) -> None:
        lanes = self.bands[band]
        del lanes[category]
        if not lanes:
            del self.bands[band]
            del self.order[bisect_left(self.order, band)]
