"""Verdict on a profile: each expectation with its figure, its bounds and words.

Expectations of every run are judged by the run alone. Drift is measured against the median of
earlier runs that were good or accepted; while there are too few of these, there is no verdict on
drift. It is measured against runs of longer ago as well: figures that shrink a little with each run
differ little from those of the last few runs, which have shrunk as much. An expectation that could
not be measured is neither met nor broken.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from statistics import median
from typing import Final

import msgspec

from crawlfleet.core.quality import sketch
from crawlfleet.model.quality import (
    Check,
    CheckOutcome,
    CountRange,
    Decision,
    Drift,
    Expectations,
    FieldDrift,
    FieldExpectation,
    FieldProfile,
    Judgement,
    MeasuredRun,
    Profile,
    ShareBand,
    Verdict,
)

EARLIER_FROM: Final = 8
EARLIER_TO: Final = 14
"""Number of good runs, counted back from the newest, at which the runs of longer ago end."""
_SLACK: Final = 1e-9
"""Tolerance of shares for rounding errors: 0.95 of 20 must not fail by the last bit."""


class Baseline(msgspec.Struct, frozen=True, kw_only=True):
    """Earlier runs that a new one is compared with, newest first."""

    profiles: tuple[Profile, ...] = ()
    earlier: tuple[Profile, ...] = ()
    """Profiles of longer ago, from `EARLIER_FROM` to `EARLIER_TO` runs back; empty unless all of
    them exist."""
    is_settled: bool = False
    """True if a person has accepted the baseline, so that even one profile is enough."""


def baseline(earlier: Sequence[MeasuredRun], most: int) -> Baseline:
    """Return the baseline: the runs of a series, newest first, that later runs are compared with.

    Runs that were not as expected are left out, unless they were accepted. An accepted run is the
    norm from then on, and earlier runs count no more.
    """
    profiles: list[Profile] = []
    is_settled = False
    for run in earlier:
        if is_settled or len(profiles) >= max(most, EARLIER_TO):
            break
        accepted = run.decision is Decision.ACCEPTED and run.verdict is not Verdict.UNMEASURED
        if accepted or run.verdict is Verdict.OK:
            profiles.append(run.profile)
        is_settled = accepted
    has_earlier = len(profiles) >= EARLIER_TO
    return Baseline(
        profiles=tuple(profiles[:most]),
        earlier=tuple(profiles[EARLIER_FROM - 1 : EARLIER_TO]) if has_earlier else (),
        is_settled=is_settled and len(profiles) <= most,
    )


def judge(expected: Expectations, profile: Profile, base: Baseline) -> Judgement:
    """Return the verdict on a profile, with all its checks."""
    of_every_run = tuple(_of_every_run(expected, profile))
    drift = expected.drift
    of_drift: tuple[Check, ...] = ()
    if drift is not None:
        of_drift = (*_of_drift(drift, profile, base), *_of_slow_drift(drift, profile, base))
    if _is_broken(of_every_run):
        verdict = Verdict.FAILED
    elif _is_broken(of_drift):
        verdict = Verdict.DRIFTED
    elif profile.trouble and any(
        each.outcome is CheckOutcome.UNKNOWN for each in (*of_every_run, *of_drift)
    ):
        verdict = Verdict.UNMEASURED
    else:
        verdict = Verdict.OK
    return Judgement(verdict=verdict, checks=of_every_run + of_drift)


def unjudged(why: str) -> Judgement:
    """Return the judgement of a profile that could not be measured."""
    check = Check(name="items", outcome=CheckOutcome.UNKNOWN, words=why)
    return Judgement(verdict=Verdict.UNMEASURED, checks=(check,))


def _is_broken(checks: Sequence[Check]) -> bool:
    return any(each.outcome is CheckOutcome.BROKEN for each in checks)


def _of_every_run(expected: Expectations, profile: Profile) -> Iterator[Check]:
    if expected.items is not None:
        yield _count("items", expected.items, profile.items, profile)
    if expected.pages is not None:
        yield _count("pages", expected.pages, profile.pages, profile)
    if expected.errors is not None:
        measured = profile.errors
        words = "" if measured is None else f"{_percent(measured)} of what was asked for failed"
        yield _within(
            "errors", measured, words, profile, high=expected.errors, shown=_percent, unit="of it"
        )
    for name, field in expected.fields.items():
        yield from _of_field(name, field, profile)


def _count(name: str, expected: CountRange, measured: float | None, profile: Profile) -> Check:
    words = "" if measured is None else f"there are {measured:,.0f} {name}"
    return _within(name, measured, words, profile, low=expected.min, high=expected.max)


def _of_field(name: str, expected: FieldExpectation, profile: Profile) -> Iterator[Check]:
    path = f"fields.{name}"
    found = None if profile.fields is None else profile.fields.get(name, FieldProfile())
    items = profile.items

    def share(count: Callable[[FieldProfile], int], of: int | None) -> float | None:
        """Return the share of `of` that `count` counts; `None` if `of` is zero or the field is not
        known."""
        return None if found is None or not of else count(found) / of

    filled = 0 if found is None else found.filled
    if expected.present is not None:
        measured = share(lambda each: each.present, items)
        if found is not None and items == 0:
            measured = 0.0  # a crawl that finds nothing is the first that should be noticed
        words = f"{_percent(measured)} of the items have {name}"
        yield _within(
            f"{path}.present", measured, words, profile, low=expected.present, shown=_percent
        )
    if expected.empty is not None:
        measured = _empty(found, items)
        words = f"{name} is empty in {_percent(measured)} of the items"
        yield _within(
            f"{path}.empty", measured, words, profile, high=expected.empty, shown=_percent
        )
    if expected.distinct is not None:
        measured = share(lambda each: min(each.distinct, each.filled), filled)
        doubt = 0.0 if found is None or measured is None else measured * found.distinct_error
        words = f"{_percent(measured)} of the values of {name} are different from each other"
        yield _banded(
            f"{path}.distinct",
            measured,
            _estimated(words, doubt),
            profile,
            expected.distinct,
            doubt,
        )
    asked = [
        word for word in ("type", "pattern", "min", "max") if getattr(expected, word) is not None
    ]
    if asked:
        measured = share(lambda each: each.fitting or 0, filled)
        words = f"{_percent(measured)} of the values of {name} are as expected ({_asked(expected)})"
        yield _within(
            f"{path}.{asked[0]}", measured, words, profile, low=expected.share, shown=_percent
        )


def _asked(expected: FieldExpectation) -> str:
    """Return the expectations of each value of a field, as text."""
    told = []
    if expected.type is not None:
        told.append(str(expected.type))
    if expected.pattern is not None:
        told.append(f"matching {expected.pattern!r}")
    if expected.min is not None:
        told.append(f"from {expected.min:g}")
    if expected.max is not None:
        told.append(f"up to {expected.max:g}")
    return ", ".join(told)


def _empty(found: FieldProfile | None, items: int | None) -> float | None:
    if found is None or items is None:
        return None
    return 1 - found.filled / items if items else 1.0


def _of_drift(drift: Drift, profile: Profile, base: Baseline) -> Iterator[Check]:
    least = 1 if base.is_settled else drift.least
    enough = len(base.profiles) >= least
    known = f"{len(base.profiles)} of the {least} earlier runs that it takes to compare"
    yield from _beside(drift, profile, base.profiles, least, known)
    for name, field in drift.fields.items():
        yield from _changed(f"drift.fields.{name}", name, field, profile, base, enough, known)


def _of_slow_drift(drift: Drift, profile: Profile, base: Baseline) -> Iterator[Check]:
    """Yield the checks against runs of longer ago, for the figures that these have."""
    if not base.earlier:
        return
    when = f" {EARLIER_FROM} to {EARLIER_TO} runs ago"
    for check in _beside(
        drift, profile, base.earlier, len(base.earlier), "too few of them", when=when
    ):
        if check.outcome is not CheckOutcome.UNKNOWN:
            name = check.name.replace("drift.", "drift.earlier.", 1)
            yield msgspec.structs.replace(check, name=name)


def _beside(
    drift: Drift,
    profile: Profile,
    earlier: Sequence[Profile],
    least: int,
    known: str,
    *,
    when: str = "",
) -> Iterator[Check]:
    """Yield the checks of a run's figures against the medians of earlier runs; it takes at least
    `least` of them."""
    are = "were" if when else "are"

    def usual(figure: Callable[[Profile], float | None]) -> float | None:
        found = [value for each in earlier if (value := figure(each)) is not None]
        return median(found) if len(earlier) >= least and len(found) >= least else None

    def relative(
        name: str,
        what: str,
        figure: Callable[[Profile], float | None],
        tolerance: float | None,
        error: float = 0.0,
    ) -> Iterator[Check]:
        if tolerance is None:
            return
        measured, middle = figure(profile), usual(figure)
        if middle is None:
            yield _unknown(name, measured, f"{what}: there are {known}")
            return
        words = (
            ""
            if measured is None
            else f"{what}: {measured:,.0f} where {middle:,.0f} {are} usual{when}"
        )
        low, high = max(middle * (1 - tolerance), 0.0), middle * (1 + tolerance)
        doubt = error * max(measured or 0.0, middle)
        words = _estimated(words, doubt)
        yield _within(name, measured, words, profile, low=low, high=high, doubt=doubt)

    def grown(
        name: str, what: str, figure: Callable[[Profile], float | None], points: float | None
    ) -> Iterator[Check]:
        if points is None:
            return
        measured, middle = figure(profile), usual(figure)
        if middle is None:
            yield _unknown(name, measured, f"{what}: there are {known}")
            return
        words = f"{what}: {_percent(measured)} where {_percent(middle)} {are} usual{when}"
        high = min(middle + points, 1.0)
        yield _within(name, measured, words, profile, high=high, shown=_percent)

    yield from relative("drift.items", "items", lambda each: each.items, drift.items)
    yield from relative("drift.pages", "pages", lambda each: each.pages, drift.pages)
    yield from grown("drift.errors", "share of errors", lambda each: each.errors, drift.errors)
    for name, field in drift.fields.items():
        path = f"drift.fields.{name}"
        yield from grown(
            f"{path}.empty",
            f"empty {name}",
            partial(_empty_in, name),
            field.empty,
        )
        yield from relative(
            f"{path}.distinct",
            f"different values of {name}",
            partial(_distinct_in, name),
            field.distinct,
            # What is usual is an estimate, too.
            sum(_distinct_error(name, each) for each in (profile, *earlier[:1])),
        )


def _changed(
    path: str,
    name: str,
    field: FieldDrift,
    profile: Profile,
    base: Baseline,
    enough: bool,
    known: str,
) -> Iterator[Check]:
    """Yield the check of how many values differ from those of the run before."""
    if field.changed is None:
        return
    if not enough:
        yield _unknown(f"{path}.changed", None, f"changed {name}: there are {known}")
        return
    before, after = _in(base.profiles[0], name), _in(profile, name)
    found = None
    if before is not None and after is not None:
        found = sketch.changed(before.sketch, after.sketch)
    measured, doubt = (None, 0.0) if found is None else found
    words = f"{_percent(measured)} of the values of {name} are in one of the last two runs only"
    words = _estimated(words, doubt)
    yield _banded(f"{path}.changed", measured, words, profile, field.changed, doubt)


def _in(profile: Profile, name: str) -> FieldProfile | None:
    return None if profile.fields is None else profile.fields.get(name)


def _empty_in(name: str, profile: Profile) -> float | None:
    if profile.fields is None:
        return None
    return _empty(profile.fields.get(name, FieldProfile()), profile.items)


def _distinct_in(name: str, profile: Profile) -> float | None:
    if profile.fields is None:
        return None
    return float(profile.fields.get(name, FieldProfile()).distinct)


def _distinct_error(name: str, profile: Profile) -> float:
    field = _in(profile, name)
    return 0.0 if field is None else field.distinct_error


def _banded(
    name: str,
    measured: float | None,
    words: str,
    profile: Profile,
    band: ShareBand,
    doubt: float = 0.0,
) -> Check:
    low, high = band.min or None, band.max if band.max < 1 else None
    return _within(name, measured, words, profile, low=low, high=high, doubt=doubt, shown=_percent)


def _estimated(words: str, doubt: float) -> str:
    return f"about {words}" if doubt and words else words


def _number(value: float | None) -> str:
    return "?" if value is None else f"{value:,.0f}" if value >= 10 else f"{value:,.2g}"


def _percent(value: float | None) -> str:
    if value is None:
        return "?"
    return f"{100 * value:.1f}".removesuffix(".0") + " %"


def _within(
    name: str,
    measured: float | None,
    words: str,
    profile: Profile,
    *,
    low: float | None = None,
    high: float | None = None,
    doubt: float = 0.0,
    shown: Callable[[float | None], str] = _number,
    unit: str = "",
) -> Check:
    """Return the check of one figure, which may be off by `doubt`, against its bounds."""
    bounds = [f"at least {shown(low)}"] if low is not None else []
    bounds += [f"at most {shown(high)}"] if high is not None else []
    bound = " and ".join(bounds) or "anything"
    if measured is None:
        why = profile.trouble or "there is nothing to measure it by"
        return Check(
            name=name,
            outcome=CheckOutcome.UNKNOWN,
            words=f"{name} is not known ({why}); expected: {bound}",
            min=low,
            max=high,
        )
    slack = doubt + _SLACK
    is_met = (low is None or measured >= low - slack) and (high is None or measured <= high + slack)
    expected = f"expected: {bound} {unit}".rstrip()
    return Check(
        name=name,
        outcome=CheckOutcome.MET if is_met else CheckOutcome.BROKEN,
        words=f"{words}; {expected}",
        measured=measured,
        min=low,
        max=high,
    )


def _unknown(name: str, measured: float | None, words: str) -> Check:
    return Check(name=name, outcome=CheckOutcome.UNKNOWN, words=words, measured=measured)
