"""The schedules that a master knows: a part of its copy of the store."""

from collections.abc import Callable, Iterable

from crawlfleet.control.state.refresh import is_newer
from crawlfleet.features.schedules.model import Schedule
from crawlfleet.features.schedules.rules import firing, schedules
from crawlfleet.features.schedules.zones import zone_named


class ScheduleIndex:
    """Schedules by id, in the newest version that is known."""

    def __init__(self, *, wake: Callable[[], None]) -> None:
        self._wake = wake
        """Called when something may be due earlier than was thought."""
        self._known: dict[str, Schedule] = {}
        """Also those that were removed: what was read before that must not bring them back."""

        self._starts: dict[str, tuple[int, float | None]] = {}
        """By schedule: its version, and when it starts something in that."""

    def put(self, schedules: Iterable[Schedule]) -> None:
        for schedule in schedules:
            if is_newer(schedule, self._known.get(schedule.id)):
                self._known[schedule.id] = schedule
                self._wake()

    def get(self, id: str) -> Schedule | None:
        """The schedule, unless it was removed."""
        found = self._known.get(id)
        return None if found is None or found.removed_at is not None else found

    def all(self) -> list[Schedule]:
        """Those that were not removed, in order of id."""
        known = sorted(self._known.items())
        return [each for _, each in known if each.removed_at is None]

    def starts_next(self, schedule: Schedule) -> float | None:
        """When a schedule starts something next, as far as its rule says, paused or not."""
        version, at = self._starts.get(schedule.id, (0, None))
        if version != schedule.version:
            at = _starts_next(schedule)
            self._starts[schedule.id] = schedule.version, at
        return at

    def active(self) -> list[Schedule]:
        """Those that start something when they are due."""
        return [each for each in self._known.values() if each.is_active]


def _starts_next(schedule: Schedule) -> float | None:
    zone = zone_named(schedule.rule.time_zone)
    if zone is None:
        return None
    due = schedules.recurrence_of(schedule, zone).next(schedule.cursor)
    return None if due is None else firing.starts_at(schedule, due)
