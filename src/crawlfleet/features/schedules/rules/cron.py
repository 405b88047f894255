"""Parses cron expressions, with precise problems for faulty ones, and tells times of the day from
elapsed time.

Five fields: minute, hour, day of the month, month, day of the week. Each is `*`, a value, a range
`a-b`, any of these with a step `/n`, or several of them parted by commas. Months and days of the
week may be named. `L` is the last day of a month, `5L` its last Friday, `5#2` its second. As in
any cron, a day has to fit only one of the two fields for days if neither of them begins with `*`.

`cronsim` finds the times that fit; it says no more than "bad minute" about one that is wrong, so
the reading here is ours.
"""

import re
from collections.abc import Iterator
from datetime import datetime
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec
from cronsim import CronSim, CronSimError

from crawlfleet.errors import FieldProblem

FIELD: Final = "cron"
MAX_CRON_CHARS: Final = 200
ALIASES: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MONTHS: Final = (
    "JAN",
    "FEB",
    "MAR",
    "APR",
    "MAY",
    "JUN",
    "JUL",
    "AUG",
    "SEP",
    "OCT",
    "NOV",
    "DEC",
)
_DAYS: Final = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_WORD: Final = re.compile(r"\S+")
_NUMBER: Final = re.compile(r"[0-9]{1,4}\Z")


class _Field(NamedTuple):
    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()
    first: int = 0
    """The number of the first name."""

    @property
    def remedy(self) -> str:
        named = f", or {self.names[0]} to {self.names[-1]}" if self.names else ""
        return f"use {self.low} to {self.high}{named}"

    def number(self, text: str) -> int | None:
        if text in self.names:
            return self.names.index(text) + self.first
        if _NUMBER.match(text) and self.low <= int(text) <= self.high:
            return int(text)
        return None


FIELDS: Final = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of month", 1, 31),
    _Field("month", 1, 12, _MONTHS, 1),
    _Field("day of week", 0, 7, _DAYS),
)
_ORDINALS: Final = ("1st", "2nd", "3rd", "4th", "5th")
_DAY_OF_MONTH: Final = 2
_DAY_OF_WEEK: Final = 4


class Cron(msgspec.Struct, frozen=True):
    """An expression that can be read."""

    text: str
    """The five fields of the expression, also if an alias such as `@daily` was written."""

    @property
    def follows_the_clock(self) -> bool:
        """Return true if the expression fires by elapsed time ("each hour") rather than at times of
        the day.

        That is so when its minutes or its hours begin with `*`. It matters twice a year.
        """
        minutes, hours = self.text.split()[:2]
        return minutes.startswith("*") or hours.startswith("*")


@lru_cache(maxsize=1024)
def read(text: str) -> Cron | FieldProblem:
    """Parse an expression; return the problem with the field, the position and the remedy if it is
    faulty."""
    if len(text) > MAX_CRON_CHARS:
        return _problem(
            text[:MAX_CRON_CHARS], "is too long", f"use at most {MAX_CRON_CHARS} characters"
        )
    words = [*_WORD.finditer(text)]
    if len(words) == 1 and words[0].group().startswith("@"):
        return _alias(words[0].group(), text)
    if len(words) != len(FIELDS):
        return _problem(
            text,
            f"has {len(words)} field{'' if len(words) == 1 else 's'}, not five",
            "write minute, hour, day of month, month and day of week, such as `30 2 * * *` for "
            f"half past two each night, or one of {', '.join(ALIASES)}",
        )
    for place, (field, word) in enumerate(zip(FIELDS, words, strict=True)):
        for complaint in _complaints(place, field, word.group().upper()):
            return _problem(
                text,
                f"its {_ORDINALS[place]} field, {field.name} ({word.group()!r} at character "
                f"{word.start() + complaint.at + 1}), {complaint.message}",
                complaint.remedy,
            )
    fields = " ".join(word.group().upper() for word in words)
    return Cron(fields) if _comes(fields) else _problem(text, *_NEVER)


_NEVER: Final = (
    "never comes: there is no such day",
    "use a day that the month has, such as `0 0 28 2 *`, or L for the last one",
)


def _comes(fields: str) -> bool:
    try:
        return next(CronSim(fields, datetime(2000, 1, 1)), None) is not None  # noqa: DTZ001
    except CronSimError:
        return False


def _alias(word: str, text: str) -> Cron | FieldProblem:
    known = ALIASES.get(word.lower())
    if known is not None:
        return Cron(known)
    return _problem(text, "is not a known name", f"use one of {', '.join(ALIASES)}, or five fields")


class _Complaint(NamedTuple):
    at: int
    """Position of the problem within the field, in characters."""
    message: str
    remedy: str


def _complaints(place: int, field: _Field, word: str) -> Iterator[_Complaint]:
    at = 0
    for term in word.split(","):
        if not term:
            yield _Complaint(at, "has an empty place in its list", "remove the comma too many")
        else:
            yield from _of_term(place, field, term, at)
        at += len(term) + 1


def _of_term(place: int, field: _Field, term: str, at: int) -> Iterator[_Complaint]:
    values, slash, step = term.partition("/")
    if slash and (not _NUMBER.match(step) or not 0 < int(step) <= field.high):
        yield _Complaint(
            at + len(values) + 1,
            f"has the step {step!r}",
            f"use a step of 1 to {field.high}, such as `*/2`",
        )
    if values == "*" or (place == _DAY_OF_MONTH and values == "L" and not slash):
        return
    if place == _DAY_OF_WEEK and not slash and _is_nth(field, values):
        return
    begin, dash, end = values.partition("-")
    low = field.number(begin)
    high = field.number(end) if dash else low
    if low is None:
        yield _Complaint(at, f"has {begin!r}, which it cannot have", field.remedy)
    elif high is None:
        yield _Complaint(at + len(begin) + 1, f"has {end!r}, which it cannot have", field.remedy)
    elif high < low:
        yield _Complaint(
            at,
            f"has the range {values!r}, which ends before it begins",
            f"write it in order, or as two: `{begin}-{field.high},{field.low}-{end}`",
        )


def _is_nth(field: _Field, values: str) -> bool:
    """`5L`, the last Friday of a month, or `5#2`, its second."""
    day, hash, nth = values.partition("#")
    if hash:
        return field.number(day) is not None and nth in {"1", "2", "3", "4", "5"}
    return values.endswith("L") and values[:-1].isdigit() and field.number(values[:-1]) is not None


def _problem(value: str, message: str, remedy: str) -> FieldProblem:
    return FieldProblem(field=FIELD, value=value, message=message, remedy=remedy)
