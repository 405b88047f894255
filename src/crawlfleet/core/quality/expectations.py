"""Checks of expectations, before any task is measured by them."""

import hashlib
import re
from collections.abc import Iterator
from typing import Final

import msgspec

from crawlfleet.core.text.patterns import REMEDY, pattern_problem
from crawlfleet.errors import FieldProblem
from crawlfleet.model.quality import (
    MAX_FIELDS,
    CountRange,
    Expectations,
    FieldExpectation,
    ShareBand,
)

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
LONGEST_SERIES: Final = 100
OWN: Final = ("schedule.", "workflow.")
"""Prefixes of the series of schedules and workflows."""
LONGEST_FIELD: Final = 200
_OWN_FORM: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z")


def problems_of(expected: Expectations, *, within: str = "expectations") -> Iterator[FieldProblem]:
    """Yield the problems of the expectations of a task."""
    yield from _series(expected, within)
    for name in ("items", "pages"):
        yield from _range(getattr(expected, name), f"{within}.{name}")
    drift = expected.drift
    named = {*expected.fields, *(drift.fields if drift else ())}
    if len(named) > MAX_FIELDS:
        yield FieldProblem(
            field=f"{within}.fields",
            value=len(named),
            message=f"names {len(named)} fields",
            remedy=f"name at most {MAX_FIELDS}",
        )
        return
    for name in sorted(named):
        if not 1 <= len(name) <= LONGEST_FIELD or "\0" in name:
            yield FieldProblem(
                field=f"{within}.fields",
                value=name[:LONGEST_FIELD],
                message="is not the name of a field",
                remedy=f"use 1 to {LONGEST_FIELD} characters",
            )
    for name, field in expected.fields.items():
        yield from _field(field, f"{within}.fields.{name[:64]}")
    if drift is None:
        return
    for name, change in drift.fields.items():
        yield from _band(change.changed, f"{within}.drift.fields.{name[:64]}.changed")
    if drift.least > drift.runs:
        yield FieldProblem(
            field=f"{within}.drift.least",
            value=drift.least,
            message=f"is more than the {drift.runs} runs that are looked at",
            remedy="use a lower number, or more `runs`",
        )


class _Sink(msgspec.Struct):
    url: str = ""


class _Crawl(msgspec.Struct):
    """Part of a crawl's parameters that names its sinks."""

    sinks: tuple[_Sink, ...] = ()


def unseen_problems(
    expected: Expectations, task_type: str, parameters: bytes
) -> Iterator[FieldProblem]:
    """Yield a problem if fields are to be measured of items that never reach the master."""
    of_fields = expected.fields or (expected.drift and expected.drift.fields)
    if task_type != "web_crawl" or not of_fields:
        return
    try:
        sinks = msgspec.json.decode(parameters, type=_Crawl).sinks
    except msgspec.DecodeError:
        return  # that is told elsewhere
    if sinks and all(sink.url != "fleet:items" for sink in sinks):
        yield FieldProblem(
            field="parameters.sinks",
            value=sinks[0].url[:200],
            message="takes the items where the master cannot measure their fields",
            remedy='add {"url": "fleet:items"} to it, or expect nothing of `fields`',
        )


def _series(expected: Expectations, within: str) -> Iterator[FieldProblem]:
    series = expected.series
    if series is None:
        if expected.drift is not None:
            yield FieldProblem(
                field=f"{within}.series",
                message="is missing: there are no earlier runs to compare with",
                remedy="name one, such as shop-prices, leave `drift` out, or let a schedule or a "
                "workflow submit the task",
            )
    elif series.startswith(OWN):
        if len(series) > LONGEST_SERIES or not _OWN_FORM.match(series):
            yield _bad_series(within, series)
    elif not NAME.match(series):
        yield _bad_series(within, series)


def _bad_series(within: str, series: str) -> FieldProblem:
    return FieldProblem(
        field=f"{within}.series",
        value=series[:64],
        message="is not a valid name",
        remedy="use letters, digits, dot, dash and underscore, at most 64, beginning with a letter "
        "or digit",
    )


def _range(wanted: CountRange | None, field: str) -> Iterator[FieldProblem]:
    if wanted is None:
        return
    if wanted.min is None and wanted.max is None:
        yield FieldProblem(field=field, message="is empty", remedy="set `min`, `max` or both")
    elif wanted.min is not None and wanted.max is not None and wanted.min > wanted.max:
        yield _crossed(field, wanted.min)


def _band(wanted: ShareBand | None, field: str) -> Iterator[FieldProblem]:
    if wanted is not None and wanted.min > wanted.max:
        yield _crossed(field, wanted.min)


def _crossed(field: str, low: float) -> FieldProblem:
    return FieldProblem(
        field=f"{field}.min",
        value=low,
        message="is higher than `max`: nothing can be as expected",
        remedy="use a lower number",
    )


def _field(wanted: FieldExpectation, field: str) -> Iterator[FieldProblem]:
    if wanted == FieldExpectation():
        yield FieldProblem(
            field=field,
            message="expects nothing",
            remedy="set `present`, `empty`, `type`, `pattern`, `min`, `max` or `distinct`",
        )
    if wanted.min is not None and wanted.max is not None and wanted.min > wanted.max:
        yield _crossed(field, wanted.min)
    yield from _band(wanted.distinct, f"{field}.distinct")
    if wanted.pattern is None:
        return
    if problem := pattern_problem(wanted.pattern):
        yield FieldProblem(
            field=f"{field}.pattern", value=wanted.pattern, message=problem, remedy=REMEDY
        )


def in_series(expected: Expectations | None, series: str) -> Expectations | None:
    """Return the expectations with this series, unless they name one themselves."""
    if expected is None or expected.series is not None:
        return expected
    return msgspec.structs.replace(expected, series=series)


def of_schedule(name: str) -> str:
    """Return the series of a schedule's tasks."""
    return f"schedule.{name}"


def of_step(workflow: str, step: str, index: int | None = None) -> str:
    """Return the series of a workflow's step, or of one of its instances."""
    name = f"workflow.{workflow}.{step}" + ("" if index is None else f".{index}")
    if len(name) <= LONGEST_SERIES:
        return name
    digest = hashlib.blake2b(name.encode(), digest_size=8).hexdigest()
    return f"{name[: LONGEST_SERIES - len(digest) - 1]}.{digest}"
