"""What a run found, as it stands in the JSON."""

import statistics
from collections.abc import Callable, Sequence

import msgspec

from bench.crawl.floor import Floor
from bench.crawl.profile import Share
from bench.crawl.turn import Turn
from bench.machine import Machine


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """All about one crawler: medians of its turns."""

    title: str
    settings: str
    pages: int
    per_s: float
    per_cpu_s: float
    per_cpu_range: tuple[float, float]
    """The worst and the best turn."""
    start_cpu_s: float
    """Of a crawl of one page: what it costs to begin and to end."""
    peak_mb: float
    server_busy: float


class Report(msgspec.Struct, frozen=True, kw_only=True):
    machine: Machine
    versions: dict[str, str]
    quick: bool
    rounds: int
    seconds: float
    load_after: float
    crawlers: dict[str, Measured]
    floor: Floor | None = None
    profile: list[Share] = []
    missing: dict[str, str] = {}
    """What was not measured, and why."""


def median(turns: Sequence[Turn], figure: Callable[[Turn], float]) -> float:
    return statistics.median(map(figure, turns))
