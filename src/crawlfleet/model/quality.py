"""Quality of a crawl's items: expectations, measurements and verdicts.

*Expectations* belong to a task, or to a step of a workflow. When the task ends, its items are
measured: the result is a *profile*. The profile is compared with the expectations and with the
profiles of earlier tasks of the same *series*; the outcome is the *verdict*. A *measured run*
stores all of this for one task of the series.
"""

from enum import StrEnum
from typing import Annotated, Final

import msgspec
from msgspec import Meta

MAX_FIELDS: Final = 50
"""Maximum number of measured fields; fields with expectations come first."""
MAX_RUNS: Final = 50
"""Maximum number of earlier runs to compare with."""
LONGEST_PATTERN: Final = 500

Share = Annotated[float, Meta(ge=0, le=1)]
Count = Annotated[float, Meta(ge=0, le=1e15)]
Tolerance = Annotated[float, Meta(ge=0, le=100)]


class OnDrift(StrEnum):
    """Consequence for a task that does not meet its expectations."""

    MARK = "mark"
    """Notify people."""
    HOLD = "hold"
    """Notify people, and let later steps wait until somebody accepts or rejects the task."""
    FAIL = "fail"
    """Notify people, and let the task fail."""


class ValueKind(StrEnum):
    """The kind of a value."""

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
    """Allowed range of a number."""

    min: Count | None = None
    """Minimum."""
    max: Count | None = None
    """Maximum."""


class ShareBand(Part, frozen=True, kw_only=True, omit_defaults=True):
    """Allowed range of a share, from 0 to 1."""

    min: Share = 0.0
    max: Share = 1.0


class FieldExpectation(Part, frozen=True, kw_only=True, omit_defaults=True):
    """Expectations of a field, by its values in all items together."""

    present: Share | None = None
    """Minimum share of the items that have the field with a value other than `null`."""
    empty: Share | None = None
    """Maximum share of the items without a value: field missing, `null`, blank text, or empty
    list."""
    distinct: ShareBand | None = None
    """Allowed number of different values, as a share of all values. An estimated number breaks the
    expectation only if it is certainly outside."""
    type: ValueKind | None = None
    """Required kind of the values."""
    pattern: Annotated[str, Meta(min_length=1, max_length=LONGEST_PATTERN)] | None = None
    """Regular expression (RE2) that must match somewhere in the text of a value."""
    min: float | None = None
    """Minimum of a number; texts that are numbers count."""
    max: float | None = None
    """Maximum of a number."""
    share: Share = 1.0
    """Minimum share of the values that meet `type`, `pattern`, `min` and `max`."""


class FieldDrift(Part, frozen=True, kw_only=True, omit_defaults=True):
    """Allowed differences of a field from earlier runs."""

    empty: Share | None = None
    """Allowed rise of the share of items without a value above the median: 0.1 allows 12 % where 2
    % were usual."""
    distinct: Tolerance | None = None
    """Allowed difference of the number of different values from the median, as a share of it."""
    changed: ShareBand | None = None
    """Allowed share of different values that are in only one of this run and the previous one."""


class Drift(Part, frozen=True, kw_only=True, omit_defaults=True):
    """Allowed differences of a run from earlier runs of its series."""

    runs: Annotated[int, Meta(ge=1, le=MAX_RUNS)] = 7
    """Number of earlier runs to compare with, by their median. Independently of it, the run is also
    compared with the 8th to the 14th good run before it, once there are fourteen."""
    least: Annotated[int, Meta(ge=1, le=MAX_RUNS)] = 3
    """Minimum number of earlier runs; with fewer, nothing is compared."""
    items: Tolerance | None = None
    """Allowed difference of the number of items from the median, as a share of it: 0.3 is ±30 %."""
    pages: Tolerance | None = None
    """Allowed difference of the number of pages from the median, as a share of it."""
    errors: Share | None = None
    """Allowed rise of the share of errors above the median."""
    fields: dict[str, FieldDrift] = {}


class Expectations(Part, frozen=True, kw_only=True, omit_defaults=True):
    """Expectations of a task's items, and the consequence when they are not met."""

    items: CountRange | None = None
    """Expected number of items."""
    pages: CountRange | None = None
    """Expected number of fetched pages."""
    errors: Share | None = None
    """Maximum share of requests that fail."""
    fields: dict[str, FieldExpectation] = {}
    """Expectations by field name; `offer.price` is the field of an object."""
    drift: Drift | None = None
    """Allowed differences from earlier runs of the same series."""
    kind: Annotated[str, Meta(min_length=1, max_length=100)] | None = None
    """Kind of the items to measure, where there are several kinds."""
    series: str | None = None
    """Name of the series within the project: tasks of one series are compared. When not set, the
    name of the schedule or of the workflow's step."""
    on_drift: OnDrift = OnDrift.MARK
    """Consequence when an expectation is not met."""


class FieldProfile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Measurements of one field over all items."""

    present: int = 0
    """Items that have the field with a value other than `null`."""
    filled: int = 0
    """Items that have a non-empty value in the field."""
    kinds: dict[str, int] = {}
    """Number of values of each kind."""
    numbers: int = 0
    """Number of values that are numbers, or texts that are."""
    low: float | None = None
    high: float | None = None
    mean: float | None = None
    fitting: int | None = None
    """Values that meet the expectations of single values; not set when there are none."""
    distinct: int = 0
    """Number of different values; estimated when there are many."""
    distinct_error: float = 0.0
    """Possible error of `distinct`, as a share of it; 0 where it was counted."""
    sketch: str = ""
    """A sample of the different values, the same for the same values wherever it is taken."""


class Profile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Measurements of a task's output; `None` where something is not known."""

    items: int | None = None
    pages: int | None = None
    errors: float | None = None
    """Share of requests that failed."""
    fields: dict[str, FieldProfile] | None = None
    trouble: str = ""
    """Reason why the items could not be measured."""


class Verdict(StrEnum):
    """Verdict on a measured run."""

    OK = "ok"
    DRIFTED = "drifted"
    """The run differs from earlier runs by more than allowed."""
    FAILED = "failed"
    """The run does not meet an expectation that every run must meet."""
    UNMEASURED = "unmeasured"
    """The items could not be read, so the quality is unknown."""


class CheckOutcome(StrEnum):
    MET = "met"
    BROKEN = "broken"
    UNKNOWN = "unknown"
    """Nothing could be measured, or there was nothing to compare with."""


class Check(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One expectation with the measured value."""

    name: str
    """Path within the expectations, such as `fields.price.empty`."""
    outcome: CheckOutcome
    words: str
    measured: float | None = None
    min: float | None = None
    """Lowest allowed value."""
    max: float | None = None
    """Highest allowed value."""


class Judgement(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The verdict on a profile, with all checks."""

    verdict: Verdict
    checks: tuple[Check, ...] = ()

    @property
    def is_good(self) -> bool:
        return self.verdict is Verdict.OK

    @property
    def words(self) -> str:
        """Return the broken expectations in one line."""
        wrong = [each.words for each in self.checks if each.outcome is CheckOutcome.BROKEN]
        if not wrong and self.verdict is Verdict.UNMEASURED:
            wrong = [each.words for each in self.checks if each.outcome is CheckOutcome.UNKNOWN][:1]
        told = "; ".join(wrong[:MAX_TOLD])
        return told if len(wrong) <= MAX_TOLD else f"{told}; and {len(wrong) - MAX_TOLD} more"


MAX_TOLD: Final = 5


class Decision(StrEnum):
    """Decision of people about a run that was not as expected."""

    NONE = "none"
    """No decision is needed."""
    HELD = "held"
    """The run waits for a decision."""
    ACCEPTED = "accepted"
    """The run is normal from now on, and later runs are compared with it."""
    REJECTED = "rejected"


class MeasuredRun(msgspec.Struct, frozen=True, kw_only=True):
    """The stored measurement of a task with expectations that has ended."""

    id: str
    series: str
    """Key of the series, see `series_key`."""
    project_id: str
    task_id: str
    at: float
    verdict: Verdict
    decision: Decision = Decision.NONE
    on_drift: OnDrift = OnDrift.MARK
    checks: tuple[Check, ...] = ()
    profile: Profile = Profile()
    run_id: str = ""
    """Workflow run that the task belongs to; `step` is its step."""
    step: str = ""
    index: int = 0
    decided_by: str = ""
    decided_at: float | None = None
    reason: str = ""
    """Reason that was given for the decision."""
    version: int = 1

    @property
    def judgement(self) -> Judgement:
        return Judgement(verdict=self.verdict, checks=self.checks)


def series_key(project_id: str, series: str) -> str:
    """The one name of a series; those of a project are next to each other."""
    return f"{project_id}/{series}"


def series_name(key: str) -> str:
    """Return the name of the series within its project."""
    return key.partition("/")[2]
