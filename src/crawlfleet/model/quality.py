"""What people expect of the items of a crawl, what was measured, and what that came to.

*Expectations* belong to a task, or to a step of a workflow. When the task ends, its items are
measured: their *profile*. The profile is held against the expectations, and against those of
earlier tasks of the same *series*; the outcome is its *verdict*, and what is kept of all that is a
*measured run* of the series.
"""

from enum import StrEnum
from typing import Annotated, Final

import msgspec
from msgspec import Meta

MOST_FIELDS: Final = 50
"""That are measured; those that expectations name come first."""
MOST_RUNS: Final = 50
"""Earlier runs that one can be compared with."""
LONGEST_PATTERN: Final = 500

Share = Annotated[float, Meta(ge=0, le=1)]
Count = Annotated[float, Meta(ge=0, le=1e15)]
Tolerance = Annotated[float, Meta(ge=0, le=100)]


class OnDrift(StrEnum):
    """What follows when a task does not meet its expectations."""

    MARK = "mark"
    """People are told."""
    HOLD = "hold"
    """And the steps after it wait until somebody has accepted or rejected it."""
    FAIL = "fail"
    """And the task has failed."""


class ValueKind(StrEnum):
    """What a value of an item is."""

    TEXT = "text"
    NUMBER = "number"
    INTEGER = "integer"
    FLAG = "flag"
    LIST = "list"
    OBJECT = "object"


class Part(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """A group of expectations that belong together."""


class CountRange(Part, frozen=True, kw_only=True, omit_defaults=True):
    """How many there should be."""

    min: Count | None = None
    """At least so many."""
    max: Count | None = None
    """At most so many."""


class ShareBand(Part, frozen=True, kw_only=True, omit_defaults=True):
    """Between which shares something should be, from 0 to 1."""

    min: Share = 0.0
    max: Share = 1.0


class FieldExpectation(Part, frozen=True, kw_only=True, omit_defaults=True):
    """What is expected of a field, by its values in all items together."""

    present: Share | None = None
    """At least this share of the items has the field, and not as `null`."""
    empty: Share | None = None
    """At most this share of the items has no value in it: none at all, `null`, blank text, an
    empty list."""
    distinct: ShareBand | None = None
    """Of the values that are there, so many are different from each other. What is estimated is
    taken for broken when it certainly is."""
    type: ValueKind | None = None
    """What the values are."""
    pattern: Annotated[str, Meta(min_length=1, max_length=LONGEST_PATTERN)] | None = None
    """A regular expression (RE2) that matches somewhere in the text of a value."""
    min: float | None = None
    """The lowest number that a value may be; texts that are numbers count."""
    max: float | None = None
    """The highest number that a value may be."""
    share: Share = 1.0
    """`type`, `pattern`, `min` and `max` hold for at least this share of the values."""


class FieldDrift(Part, frozen=True, kw_only=True, omit_defaults=True):
    """How a field may differ from earlier runs."""

    empty: Share | None = None
    """The share of items without a value may be this much higher than the median: 0.1 allows 12 %
    where 2 % were usual."""
    distinct: Tolerance | None = None
    """The number of different values may differ from the median by this share of it."""
    changed: ShareBand | None = None
    """Of the different values of this run and the last one, so many are in one of them only."""


class Drift(Part, frozen=True, kw_only=True, omit_defaults=True):
    """How a run may differ from earlier ones of its series."""

    runs: Annotated[int, Meta(ge=1, le=MOST_RUNS)] = 7
    """With how many of them it is compared, by their median. Whatever this is, it is compared with
    the 8th to the 14th good run before it, too, once there are fourteen."""
    least: Annotated[int, Meta(ge=1, le=MOST_RUNS)] = 3
    """Until there are so many, nothing is compared."""
    items: Tolerance | None = None
    """The number of items may differ from the median by this share of it: 0.3 is ±30 %."""
    pages: Tolerance | None = None
    """Likewise the number of pages."""
    errors: Share | None = None
    """The share of errors may be this much higher than the median."""
    fields: dict[str, FieldDrift] = {}


class Expectations(Part, frozen=True, kw_only=True, omit_defaults=True):
    """What the items of a task should be like, and what follows when they are not."""

    items: CountRange | None = None
    """How many items there are."""
    pages: CountRange | None = None
    """How many pages were fetched."""
    errors: Share | None = None
    """At most this share of what was asked for failed."""
    fields: dict[str, FieldExpectation] = {}
    """By name; `offer.price` is the field of an object."""
    drift: Drift | None = None
    """How it may differ from earlier runs of the same series."""
    kind: Annotated[str, Meta(min_length=1, max_length=100)] | None = None
    """Only items of this kind, where there are several."""
    series: str | None = None
    """With which others it is compared: those of the same name in its project. The name of the
    schedule or the workflow's step when not set."""
    on_drift: OnDrift = OnDrift.MARK
    """What follows when something is not as expected."""


class FieldProfile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was measured of a field, over all items."""

    present: int = 0
    """Items that have the field, and not as `null`."""
    filled: int = 0
    """Items that have a value in it."""
    kinds: dict[str, int] = {}
    """How many of the values are what."""
    numbers: int = 0
    """Values that are numbers, or texts that are."""
    low: float | None = None
    high: float | None = None
    mean: float | None = None
    fitting: int | None = None
    """Values that are as expected; not set when nothing is expected of them one by one."""
    distinct: int = 0
    """Different values; estimated when there are many."""
    distinct_error: float = 0.0
    """How far that may be off, as a share of it; nothing where they were counted."""
    sketch: str = ""
    """A sample of the different values, the same wherever they come from."""


class Profile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was measured of a task's output. What is not known is `None`."""

    items: int | None = None
    pages: int | None = None
    errors: float | None = None
    """The share of what was asked for that failed."""
    fields: dict[str, FieldProfile] | None = None
    trouble: str = ""
    """Why the items could not be measured."""


class Verdict(StrEnum):
    """What a measured run has come to."""

    OK = "ok"
    DRIFTED = "drifted"
    """It differs from earlier runs by more than it may."""
    FAILED = "failed"
    """It is not what is expected of every run."""
    UNMEASURED = "unmeasured"
    """The items could not be read, so that nobody knows."""


class CheckOutcome(StrEnum):
    MET = "met"
    BROKEN = "broken"
    UNKNOWN = "unknown"
    """There was nothing to measure, or nothing to compare with."""


class Check(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One expectation, and what was measured."""

    name: str
    """Its path within the expectations, such as `fields.price.empty`."""
    outcome: CheckOutcome
    words: str
    measured: float | None = None
    min: float | None = None
    """The lowest value that is as expected."""
    max: float | None = None
    """The highest."""


class Judgement(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a profile comes to."""

    verdict: Verdict
    checks: tuple[Check, ...] = ()

    @property
    def is_good(self) -> bool:
        return self.verdict is Verdict.OK

    @property
    def words(self) -> str:
        """What is not as expected, in one line."""
        wrong = [each.words for each in self.checks if each.outcome is CheckOutcome.BROKEN]
        if not wrong and self.verdict is Verdict.UNMEASURED:
            wrong = [each.words for each in self.checks if each.outcome is CheckOutcome.UNKNOWN][:1]
        told = "; ".join(wrong[:MOST_TOLD])
        return told if len(wrong) <= MOST_TOLD else f"{told}; and {len(wrong) - MOST_TOLD} more"


MOST_TOLD: Final = 5


class Decision(StrEnum):
    """What people said about a run that was not as expected."""

    NONE = "none"
    """Nobody has to say anything."""
    HELD = "held"
    """It waits for somebody."""
    ACCEPTED = "accepted"
    """It is what is usual from now on."""
    REJECTED = "rejected"


class MeasuredRun(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of a task with expectations that has ended."""

    id: str
    series: str
    """See `series_key`."""
    project_id: str
    task_id: str
    at: float
    verdict: Verdict
    decision: Decision = Decision.NONE
    on_drift: OnDrift = OnDrift.MARK
    checks: tuple[Check, ...] = ()
    profile: Profile = Profile()
    run_id: str = ""
    """The workflow's run that it belongs to, with its step."""
    step: str = ""
    index: int = 0
    decided_by: str = ""
    decided_at: float | None = None
    reason: str = ""
    """What they said when they accepted or rejected it."""
    version: int = 1

    @property
    def judgement(self) -> Judgement:
        return Judgement(verdict=self.verdict, checks=self.checks)


def series_key(project_id: str, series: str) -> str:
    """The one name of a series; those of a project are next to each other."""
    return f"{project_id}/{series}"


def series_name(key: str) -> str:
    """What the series is called in its project."""
    return key.partition("/")[2]
