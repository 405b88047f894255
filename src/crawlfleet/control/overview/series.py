"""The last hour of the fleet for charts, kept in memory by each master for itself.

The counters hold the happenings of each second already. This module adds the counts of tasks, read
every few seconds while something changes: an idle master sends its store no queries, and one whose
store takes long to count reads less often.
"""

import asyncio
from collections import Counter, deque
from datetime import UTC, datetime
from typing import Final, NamedTuple

from crawlfleet.control.state.counters import Happening
from crawlfleet.control.state.fleet_state import FleetState
from crawlfleet.errors import StoreUnavailable
from crawlfleet.model.statistics import Series, SeriesPoint
from crawlfleet.ports.store import Store
from crawlfleet.ports.system import System

STEP_S: Final = 5.0
KEPT_S: Final = 3600.0
MIN_IDLE: Final = 50.0
"""The pause after counting, as a multiple of the time that counting took."""


class TimelineSample(NamedTuple):
    """Counts at an instant; they hold until the next sample."""

    at: float
    tasks: dict[str, dict[str, int]]
    """Number of tasks by project and state."""
    oldest: float | None
    """Creation time of the task that has been ready for the longest time; `None` without one."""


class Timeline:
    """Samples the counts of tasks, and builds series of points from them."""

    def __init__(self, *, store: Store, state: FleetState, system: System) -> None:
        self._store = store
        self._state = state
        self._system = system
        self._looks: deque[TimelineSample] = deque(maxlen=int(KEPT_S / STEP_S) + 1)
        self._seen: tuple[float, int] | None = None

    async def run(self) -> None:
        """Take a sample every few seconds; runs until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            begun = loop.time()
            try:
                await self.look()
            except StoreUnavailable:
                self._seen = None
            await asyncio.sleep(max(STEP_S, (loop.time() - begun) * MIN_IDLE))

    async def look(self) -> None:
        """Record the counts of tasks, if they may have changed since the last sample."""
        state = self._state
        now = (state.counters.commit_changes.sum, state.position.newest)
        if now == self._seen:
            return
        self._seen = now
        counted = await self._store.count_tasks_by_project()
        tasks = {
            project: {str(status): count for status, count in states.items()}
            for project, states in counted.items()
        }
        self._looks.append(TimelineSample(self._system.now(), tasks, state.queue.longest_ready()))

    def points(self, seconds: float, *, project_id: str | None = None) -> Series:
        """Return the series of the last `seconds`, an hour at most; of all, or of a project."""
        now, tally = self._system.now(), self._state.counters
        end = (now // STEP_S) * STEP_S
        begin = max(end - min(seconds, KEPT_S), (tally.since // STEP_S) * STEP_S)
        steps = max(int((end - begin) / STEP_S), 0)
        happened: list[Counter[Happening]] = [Counter() for _ in range(steps)]
        failed: list[Counter[str]] = [Counter() for _ in range(steps)]
        for second, some, errors in tally.seconds(begin):
            step = int((second - begin) / STEP_S)
            if step >= steps:
                continue
            for (project, happening), count in some.items():
                if project_id in (None, project):
                    happened[step][happening] += count
            for (project, kind), count in errors.items():
                if project_id in (None, project):
                    failed[step][str(kind)] += count
        looks = iter([*self._looks])
        look, following = None, next(looks, None)
        points = []
        for step in range(steps):
            at = begin + (step + 1) * STEP_S
            while following is not None and following.at <= at:
                look, following = following, next(looks, None)
            oldest = look.oldest if look is not None and project_id is None else None
            points.append(
                SeriesPoint(
                    at=datetime.fromtimestamp(at, UTC),
                    tasks=_counts(look, project_id),
                    finished=happened[step][Happening.COMPLETED],
                    failed=happened[step][Happening.FAILED] + happened[step][Happening.TIMEOUT],
                    errors=dict(failed[step]),
                    pages=happened[step][Happening.PAGE],
                    queue_age_s=None if oldest is None else round(max(at - oldest, 0.0), 3),
                )
            )
        return Series(step_s=STEP_S, points=points)


def _counts(look: TimelineSample | None, project_id: str | None) -> dict[str, int]:
    if look is None:
        return {}
    if project_id is not None:
        return look.tasks.get(project_id, {})
    total: Counter[str] = Counter()
    for states in look.tasks.values():
        total.update(states)
    return dict(total)
