"""What a run found, as it stands in the JSON."""

import statistics
from collections.abc import Callable, Sequence

import msgspec

from bench.machine import Machine
from bench.spread.turn import Turn


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """Medians of the turns of one contender with so many processes."""

    name: str
    title: str
    processes: int
    pages: int
    per_s: float
    ideal_per_s: float
    """What the hosts allow, where answers take their time; else 0."""
    per_cpu_s: float
    per_cpu_range: tuple[float, float]
    """The worst and the best turn."""
    cpu_ms: dict[str, float]
    """Of a page, by kind of process."""


class Killed(msgspec.Struct, frozen=True, kw_only=True):
    """What one `kill -9` cost, each time."""

    name: str
    title: str
    pages: int
    items: int
    lost: list[int]
    again: list[int]
    items_lost: list[int]
    items_again: list[int]


class Alone(msgspec.Struct, frozen=True, kw_only=True):
    """So many crawls at once, each with a site and a fleet of its own."""

    processes: int
    pages: int
    """Of each site."""
    per_cpu_s: float


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    title: str
    settings: str
    counted: str


class Report(msgspec.Struct, frozen=True, kw_only=True):
    machine: Machine
    versions: dict[str, str]
    quick: bool
    rounds: int
    seconds: float
    load_after: float
    contenders: list[Settings]
    latency: list[Spread] = []
    host: list[Spread] = []
    cpu: list[Spread] = []
    alone: list[Alone] = []
    anywhere: list[Spread] = []
    """As `cpu`, where links lead anywhere."""
    killed: list[Killed] = []
    missing: dict[str, str] = {}
    """What was not measured, and why."""


def spread_of(
    name: str, title: str, processes: int, turns: Sequence[Turn], *, ideal_per_s: float = 0.0
) -> Spread:
    rates = [turn.per_cpu_s for turn in turns]
    return Spread(
        name=name,
        title=title,
        processes=processes,
        pages=turns[0].pages,
        per_s=_median(turns, lambda turn: turn.per_s),
        ideal_per_s=ideal_per_s,
        per_cpu_s=_median(turns, lambda turn: turn.per_cpu_s),
        per_cpu_range=(min(rates), max(rates)),
        cpu_ms={
            kind: statistics.median(turn.cpu_s[kind] / turn.pages * 1e3 for turn in turns)
            for kind in turns[0].cpu_s
        },
    )


def _median(turns: Sequence[Turn], figure: Callable[[Turn], float]) -> float:
    return statistics.median(map(figure, turns))
