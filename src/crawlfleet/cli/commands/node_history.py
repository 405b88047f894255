"""Draws the history of a node: one line of small bars for each figure."""

from collections.abc import Callable, Sequence
from typing import Final

from rich.console import Group, RenderableType

from crawlfleet.cli.shell.output import cell, moment, table
from crawlfleet.views.nodes import NodeHistoryView, NodeSampleView

BARS: Final = "▁▂▃▄▅▆▇█"
WIDTH: Final = 60
Figure = Callable[[NodeSampleView], float | None]


def _share(value: float) -> str:
    return f"{value:.0%}"


def _rate(value: float) -> str:
    for unit in ("B/s", "kB/s", "MB/s"):
        if value < 1000:
            return f"{value:.0f} {unit}"
        value /= 1000
    return f"{value:.1f} GB/s"


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _seconds(value: float) -> str:
    return f"{value:.2f} s"


FIGURES: Final[tuple[tuple[str, Figure, Callable[[float], str], float | None], ...]] = (
    ("cpu", lambda sample: sample.cpu_usage, _share, 1.0),
    ("memory", lambda sample: sample.memory_usage, _share, 1.0),
    ("gpu", lambda sample: sample.gpu_usage, _share, 1.0),
    ("network", lambda sample: sample.network_io, _rate, None),
    ("disk", lambda sample: sample.disk_io, _rate, None),
    ("disk full", lambda sample: sample.disk_usage, _share, 1.0),
    ("load", lambda sample: sample.load, _number, None),
    ("running", lambda sample: sample.active_tasks, _number, None),
    ("ended", lambda sample: float(sample.ended), _number, None),
    ("errors", lambda sample: float(sample.errors), _number, None),
    ("latency", lambda sample: sample.latency_s, _seconds, None),
    ("waited", lambda sample: sample.wait_s, _seconds, None),
)
"""Name, value, how it is written, and what a full bar means where that is fixed."""


def draw_history(history: NodeHistoryView) -> RenderableType:
    """A table with a row for each figure that the node has."""
    samples = history.items
    if not samples:
        return cell("nothing was heard of the node in that time")
    rows = []
    for name, figure, write, full in FIGURES:
        values = [figure(sample) for sample in samples]
        known = [value for value in values if value is not None]
        if not known:
            continue
        mean = sum(known) / len(known)
        cells = (name, sparkline(values, full), write(known[-1]), write(mean), write(max(known)))
        rows.append([cell(each) for each in cells])
    span = moment(samples[0].at) + cell("  to  ") + moment(samples[-1].at)
    columns = ("figure", f"by {history.resolution}", "last", "mean", "most")
    return Group(span, table(columns, rows))


def sparkline(values: Sequence[float | None], full: float | None = None) -> str:
    """Bars for values, oldest first; of many, each bar is the mean of neighbours."""
    parts = min(WIDTH, len(values))
    edges = [len(values) * number // parts for number in range(parts + 1)]
    means = [_mean(values[edges[n] : edges[n + 1]]) for n in range(parts)]
    top = full or max((mean for mean in means if mean is not None), default=0.0)
    return "".join(" " if mean is None else _bar(mean, top) for mean in means)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _bar(value: float, top: float) -> str:
    share = value / top if top else 0.0
    return BARS[min(int(share * len(BARS)), len(BARS) - 1)]
