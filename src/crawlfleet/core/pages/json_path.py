"""Paths into JSON: `$.products[*].title`, `offers[0].price`, `$['odd key'][-1]`.

Keys, positions (from the end with a minus) and `[*]` for all values of a list or an object.
Nothing else: a path costs at most one look at each value, and cannot compute.
"""

import re
from collections.abc import Sequence
from typing import Any, Final

from crawlfleet.model.crawl.extraction import Step

MOST: Final = 100_000
"""Limit of the values that a path returns."""

_STEP: Final = re.compile(
    r"""\.?\[(?:\s*(?P<at>-?\d{1,9})\s*|\s*(?P<all>\*)\s*|'(?P<single>[^']*)'|"(?P<double>[^"]*)")\]
    |\.?(?P<star>\*)
    |\.?(?P<key>[^.\[\]*'"\s]+)""",
    re.VERBOSE,
)


def parse(text: str) -> tuple[Step, ...] | str:
    """Return the steps of a path, or the problem as text."""
    rest = text.strip().removeprefix("$")
    steps: list[Step] = []
    at = 0
    while at < len(rest):
        found = _STEP.match(rest, at)
        if found is None or (steps and rest[at] not in ".["):
            return f"cannot be read from {rest[at : at + 20]!r} on"
        steps.append(_step(found))
        at = found.end()
    return tuple(steps)


def select(value: Any, path: Sequence[Step]) -> list[Any]:
    """Return all values at the path; empty where it does not lead anywhere."""
    found = [value]
    for step in path:
        further: list[Any] = []
        for each in found:
            further.extend(_inside(each, step))
            if len(further) >= MOST:
                del further[MOST:]
                break
        found = further
    return found


def _step(found: re.Match[str]) -> Step:
    kind = found.lastgroup or ""
    if kind in {"all", "star"}:
        return None
    return int(found[kind]) if kind == "at" else found[kind]


def _inside(value: Any, step: Step) -> Sequence[Any]:
    if isinstance(value, dict):
        if step is None:
            return list(value.values())
        return (value[step],) if step in value else ()
    if isinstance(value, list):
        if step is None:
            return value
        if isinstance(step, int) and -len(value) <= step < len(value):
            return (value[step],)
    return ()
