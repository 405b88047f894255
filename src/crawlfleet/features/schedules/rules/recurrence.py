"""When something is due again: by a cron expression in a time zone, or at even intervals.

Time zones come in as values; where their rules are kept is not known here. Where the clocks of a
zone are put forward or back, the rules are those of cron:

- *Times of the day* (`30 2 * * *`: neither the minutes nor the hours begin with `*`) come once a
  day. One in the hour that is skipped comes at the first instant after it; one in the hour that
  comes twice comes in the first of the two.
- *Elapsed time* (`*/10 * * * *`, `0 * * * *`) goes on evenly: nothing is due in the hour that is
  skipped, which does not exist, and all of it again in the second of the two hours.

Intervals are even whatever clocks do.
"""

import math
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import islice, takewhile
from typing import Final

from cronsim import CronSim
from xxhash import xxh64_intdigest

from crawlfleet.errors import FieldProblem
from crawlfleet.features.schedules.model import Rule, firing_id
from crawlfleet.features.schedules.rules import cron
from crawlfleet.features.schedules.rules.cron import Cron

MINUTE: Final = timedelta(minutes=1)
DAY: Final = timedelta(days=1)
FURTHEST: Final = datetime(2900, 1, 1, tzinfo=UTC).timestamp()
"""Latest instant that is computed: no schedule needs more, and calendars end soon after."""


class Recurrence:
    """The due instants of one rule, in seconds since the epoch."""

    def __init__(self, rule: Rule, zone: tzinfo, *, made_at: float) -> None:
        """`zone` is the one that the rule names; `made_at` is where intervals without a start are
        counted from."""
        self._rule = rule
        self._zone = zone
        self._made_at = math.floor(made_at)
        self._cron: Cron | None = None
        if rule.cron is not None:
            read = cron.read(rule.cron)
            if isinstance(read, FieldProblem):
                raise ValueError(f"{read.value!r} {read.message}")
            self._cron = read

    def after(self, instant: float) -> Iterator[float]:
        """All due instants after this one, in order; endless for most rules."""
        start, end = self._rule.start_at, self._rule.end_at
        if start is not None and start > instant:
            # The very first one may be at the start itself.
            instant = start - 1e-3
        if instant >= FURTHEST:
            return iter(())
        found = self._evenly(instant) if self._cron is None else self._by_cron(self._cron, instant)
        last = FURTHEST if end is None else min(end, FURTHEST)
        return takewhile(lambda due: due < last, found)

    def next(self, instant: float) -> float | None:
        """The first due instant after this one."""
        return next(self.after(instant), None)

    def between(self, since: float, until: float, *, most: int) -> list[float]:
        """The due instants from `since` on and before `until`, `most` at most."""
        within = takewhile(lambda due: due < until, self.after(since - 1e-3))
        return [*islice(within, most)]

    def _evenly(self, instant: float) -> Iterator[float]:
        every = self._rule.every_s or 1.0
        start = self._rule.start_at
        begin, first = (self._made_at, 1) if start is None else (start, 0)
        number = max(math.floor((instant - begin) / every), first - 1)
        while True:
            # As a product, and not by adding up, which drifts.
            due = round(begin + number * every, 3)
            if due > instant and number >= first:
                yield due
            number += 1

    def _by_cron(self, cron: Cron, instant: float) -> Iterator[float]:
        begin = datetime.fromtimestamp(math.floor(instant), UTC)
        found = self._elapsed(cron, begin) if cron.follows_the_clock else self._daily(cron, begin)
        last = instant
        for each in found:
            due = each.timestamp()
            # What the hour that is skipped had to offer comes together, and counts once.
            if due > last:
                last = due
                yield due

    def _daily(self, cron: Cron, begin: datetime) -> Iterator[datetime]:
        local = begin.astimezone(self._zone).replace(tzinfo=None)
        for wall in CronSim(cron.text, local - MINUTE):
            yield self._existing(wall)

    def _existing(self, wall: datetime) -> datetime:
        """The first instant at which clocks show this time, or would have shown it."""
        instant = wall.replace(tzinfo=self._zone).astimezone(UTC)
        if instant.astimezone(self._zone).replace(tzinfo=None) == wall:
            return instant
        # Counted by the clocks from before, the time lies just as far beyond the change: the
        # change itself is between the two ways of counting.
        other = wall.replace(tzinfo=self._zone, fold=1).astimezone(UTC)
        return self._change(min(instant, other) - MINUTE, max(instant, other))

    def _elapsed(self, cron: Cron, begin: datetime) -> Iterator[datetime]:
        """Yield the due instants by elapsed time, for one period without a clock change after the
        other."""
        now, offset = begin, self._offset(begin)
        walls = CronSim(cron.text, (begin + offset).replace(tzinfo=None) - MINUTE)
        while True:
            wall = next(walls, None)
            if wall is None:
                return
            due = wall.replace(tzinfo=UTC) - offset
            changed = self._first_change(now, due)
            if changed is None:
                now = due
                yield due
            else:
                now, offset = changed, self._offset(changed)
                walls = CronSim(cron.text, (changed + offset).replace(tzinfo=None) - MINUTE)

    def _offset(self, instant: datetime) -> timedelta:
        return instant.astimezone(self._zone).utcoffset() or timedelta(0)

    def _first_change(self, since: datetime, until: datetime) -> datetime | None:
        """When clocks are first put forward or back after `since` and not after `until`."""
        offset = self._offset(since)
        while since < until:
            step = min(since + DAY, until)
            if self._offset(step) != offset:
                return self._change(since, step)
            since = step
        return None

    def _change(self, before: datetime, after: datetime) -> datetime:
        """The first instant of new clocks: at `before` they are the old ones, at `after` new."""
        old = self._offset(before)
        while after - before > timedelta(seconds=1):
            middle = before + (after - before) / 2
            middle = middle.replace(microsecond=0)
            if middle <= before:
                break
            if self._offset(middle) == old:
                before = middle
            else:
                after = middle
        return after


def put_off_by(rule: Rule, schedule_id: str, edition: int, due_at: float) -> float:
    """Return the jitter of a due instant in seconds. It is derived from the firing's id, so every
    master computes the same value."""
    if not rule.jitter_s:
        return 0.0
    drawn = xxh64_intdigest(firing_id(schedule_id, edition, due_at).encode())
    return rule.jitter_s * drawn / 2**64
