"""The schedules that a master holds in memory."""

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence

from crawlfleet.features.schedules.model import Firing, Outcome, Schedule
from crawlfleet.features.schedules.rules import firing, schedules
from crawlfleet.features.schedules.table import SCHEDULES, kept_schedules
from crawlfleet.features.schedules.zones import zone_named
from crawlfleet.model.change import Change
from crawlfleet.ports.store import Store


class ScheduleIndex:
    """Implements `crawlfleet.control.openings.Index`: schedules by id, in the newest version."""

    subject = "schedule"

    def __init__(self, *, store: Store) -> None:
        self._store = store
        self.changed = asyncio.Event()
        """Set when something may be due earlier than the runner last computed."""
        self.firings: Counter[Outcome] = Counter()
        """Number of firings by outcome; several due instants of one firing count once."""
        self.clear()

    def clear(self) -> None:
        self._known: dict[str, Schedule] = {}
        """Schedules by id, including removed ones, so that an older read cannot bring them back."""
        self._starts: dict[str, tuple[int, float | None]] = {}
        """Cached start time of each schedule, with the version of the schedule that it belongs
        to."""

    async def read(self, ids: Sequence[str] | None = None) -> Sequence[Schedule]:
        if ids is None:
            return await self._store.find(kept_schedules())
        return await self._store.get_many(SCHEDULES, ids)

    def ids_of(self, change: Change) -> Iterator[str]:
        return (schedule.id for schedule in change.of(Schedule))

    def take(self, change: Change) -> None:
        for schedule in change.of(Schedule):
            known = self._known.get(schedule.id)
            if known is None or schedule.version > known.version:
                self._known[schedule.id] = schedule
                self.changed.set()
        self.firings.update(firing.outcome for firing in change.of(Firing))

    def get(self, id: str) -> Schedule | None:
        """The schedule, unless it was removed."""
        found = self._known.get(id)
        return None if found is None or found.removed_at is not None else found

    def all(self) -> list[Schedule]:
        """Return the schedules that were not removed, in order of id."""
        known = sorted(self._known.items())
        return [each for _, each in known if each.removed_at is None]

    def starts_next(self, schedule: Schedule) -> float | None:
        """Return the time at which a schedule starts something next by its rule, paused or not;
        `None` if never."""
        version, at = self._starts.get(schedule.id, (0, None))
        if version != schedule.version:
            at = _starts_next(schedule)
            self._starts[schedule.id] = schedule.version, at
        return at

    def active(self) -> list[Schedule]:
        """Return the schedules that are neither paused nor removed."""
        return [each for each in self._known.values() if each.is_active]


def _starts_next(schedule: Schedule) -> float | None:
    zone = zone_named(schedule.rule.time_zone)
    if zone is None:
        return None
    due = schedules.recurrence_of(schedule, zone).next(schedule.cursor)
    return None if due is None else firing.starts_at(schedule, due)
