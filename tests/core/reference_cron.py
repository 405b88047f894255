"""What cron means, said as simply as can be: look at each minute, and see whether it fits.

Independent of the product: it shares neither code nor library with it, and knows no shortcut.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

MINUTE = timedelta(minutes=1)
MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
DAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]


def number(word: str) -> int:
    word = word.upper()
    if word in MONTHS:
        return MONTHS.index(word) + 1
    return DAYS.index(word) if word in DAYS else int(word)


def numbers(field: str, low: int, high: int) -> set[int]:
    found: set[int] = set()
    for term in field.split(","):
        values, _, step = term.partition("/")
        if values == "*":
            first, last = low, high
        elif "-" in values:
            first, last = map(number, values.split("-"))
        else:
            first = number(values)
            last = high if step else first
        found |= set(range(first, last + 1, int(step or 1)))
    return found


class Expression:
    def __init__(self, text: str) -> None:
        minute, hour, day, month, weekday = text.split()
        self.minutes, self.hours = numbers(minute, 0, 59), numbers(hour, 0, 23)
        self.days, self.months = numbers(day, 1, 31), numbers(month, 1, 12)
        self.weekdays = {each % 7 for each in numbers(weekday, 0, 7)}
        self.both = day.startswith("*") or weekday.startswith("*")
        self.elapsed = minute.startswith("*") or hour.startswith("*")

    def fits(self, wall: datetime) -> bool:
        if wall.minute not in self.minutes or wall.hour not in self.hours:
            return False
        if wall.month not in self.months:
            return False
        by_month, by_week = wall.day in self.days, wall.isoweekday() % 7 in self.weekdays
        return (by_month and by_week) if self.both else (by_month or by_week)


def minutes_of(
    zone: ZoneInfo, since: datetime, until: datetime
) -> Iterator[tuple[float, datetime]]:
    """Each minute after `since` and not after `until`, and what clocks show then."""
    at = since.astimezone(UTC)
    while (at := at + MINUTE) <= until:
        yield at.timestamp(), at.astimezone(zone)


def due(
    text: str, minutes: Iterator[tuple[float, datetime]] | list[tuple[float, datetime]]
) -> list[float]:
    """The instants at which an expression fires, by the documented rules for changing clocks."""
    expression = Expression(text)
    found: list[float] = []
    before: datetime | None = None
    for instant, shown in minutes:
        wall = shown.replace(tzinfo=None, fold=0)
        if expression.elapsed:
            if expression.fits(wall):
                found.append(instant)
            continue
        # Times of the day: those that clocks skipped come now; those shown again have been.
        skipped = False
        if before is not None and wall - before > MINUTE:
            missing = before + MINUTE
            while missing < wall:
                skipped = skipped or expression.fits(missing)
                missing += MINUTE
        if skipped or (expression.fits(wall) and not shown.fold):
            found.append(instant)
        before = wall
    return found
