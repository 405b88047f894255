"""`python -m bench.tasks.chart FILE`: draws a run's JSON, and puts its tables into the docs.

Writes `docs/images/tasks.svg`, and the part of `docs/reference/benchmarks.md` between its markers;
the words around it are written by hand.
"""

import argparse
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from bench.tasks import tables
from bench.tasks.figures import Measured, Report
from bench.tasks.setup import ROOT

PICTURE: Final = ROOT / "docs" / "images" / "tasks.svg"
PAGE: Final = ROOT / "docs" / "reference" / "benchmarks.md"
BEGIN: Final = "<!-- tasks: written by bench.tasks.chart -->"
END: Final = "<!-- tasks: end -->"

WIDTH: Final = 760
LABELS: Final = 210
VALUES: Final = 70
BAR: Final = 20
GAP: Final = 8
HEAD: Final = 34
OURS: Final = "#2563eb"
THEIRS: Final = "#9ca3af"


class Panel(NamedTuple):
    title: str
    figure: Callable[[Measured], float]
    format: str


PANELS: Final = (
    Panel(
        "no-op tasks done a second by one worker process: more is better",
        lambda each: each.drain_per_s[1],
        ",.0f",
    ),
    Panel("by two worker processes", lambda each: each.drain_per_s[2], ",.0f"),
    Panel(
        "CPU-milliseconds of a task's whole life, all processes: less is better",
        lambda each: each.cpu_ms,
        ".2f",
    ),
)


def picture(report: Report) -> str:
    """The chart as SVG, with nothing in it that must be fetched."""
    systems = [each for each in report.systems.values() if each.drain_per_s]
    parts, top = [], 0
    for panel in PANELS:
        parts.append(_panel(panel, systems, top))
        top += HEAD + len(systems) * (BAR + GAP) + GAP
    facts = report.machine
    parts.append(
        f'<text x="8" y="{top + 12}" class="small">{facts.cores} cores, Python {facts.python},'
        f" {facts.date}; medians of {report.rounds}; see docs/reference/benchmarks.md</text>"
    )
    height = top + 24
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}"'
        f' width="{WIDTH}" height="{height}" role="img" aria-label="task queues compared">\n'
        "<style>text{font:13px sans-serif;fill:#111827}.head{font-weight:600}"
        ".small{font-size:11px;fill:#4b5563}</style>\n"
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def text(report: Report) -> str:
    """What goes between the markers of the page."""
    facts = report.machine
    lines = [
        "![Task queues compared](../images/tasks.svg)",
        "",
        f"Measured {facts.date} on {facts.cores} cores ({facts.processor}), Linux {facts.kernel},"
        f" Python {facts.python}, crawlfleet {facts.source}; "
        + ", ".join(f"{name} {version}" for name, version in report.versions.items())
        + f". The run took {report.seconds / 60:.0f} minutes. {_load(report)}",
        "",
    ]
    for sheet in tables.sheets(report):
        lines += [tables.as_markdown(sheet), ""]
    for name, why in report.missing.items():
        lines += [f"- {name}: not measured: {why.splitlines()[0]}"]
    lines += ["| system | tasks a drain | settings | known to be done when | bulk |"]
    lines += ["|---|---:|---|---|---|"]
    lines += [
        f"| {each.title} | {each.tasks:,} | {each.settings} | {each.done} | {each.bulk} |"
        for each in report.systems.values()
    ]
    return "\n".join(lines)


def _load(report: Report) -> str:
    load = report.machine.load_before
    if load < 0.7:
        return f"The machine was quiet when it began (load average {load:.1f})."
    return (
        f"**The machine was not quiet when it began (load average {load:.1f}, after"
        f" {report.machine.load_wait_s / 60:.0f} minutes of waiting)**: rates and latencies are"
        " those of a shared machine; CPU times suffer less."
    )


def _panel(panel: Panel, systems: Sequence[Measured], top: int) -> str:
    most = max(panel.figure(each) for each in systems)
    room = WIDTH - LABELS - VALUES
    lines = [f'<text x="8" y="{top + 22}" class="head">{escape(panel.title)}</text>']
    for number, each in enumerate(systems):
        y = top + HEAD + number * (BAR + GAP)
        length = max(room * panel.figure(each) / most, 1)
        colour = OURS if each.title.startswith("crawlfleet") else THEIRS
        lines += [
            f'<text x="{LABELS - 8}" y="{y + 15}" text-anchor="end">{escape(each.title)}</text>',
            f'<rect x="{LABELS}" y="{y}" width="{length:.0f}" height="{BAR}" fill="{colour}"/>',
            _value(LABELS + length + 6, y + 15, f"{panel.figure(each):{panel.format}}"),
        ]
    return "\n".join(lines)


def _value(x: float, y: int, value: str) -> str:
    return f'<text x="{x:.0f}" y="{y}">{value}</text>'


def placed(page: str, part: str) -> str:
    """The page with the part between its markers."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{PAGE} has no markers {BEGIN} … {END}; put them where the tables belong")
    return f"{before}{BEGIN}\n\n{part}\n\n{END}{after}"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="bench.tasks.chart", description=__doc__)
    parser.add_argument("file", type=Path, help="what `python -m bench.tasks --json` wrote")
    options = parser.parse_args(arguments)
    report = msgspec.json.decode(options.file.read_bytes(), type=Report)
    PICTURE.write_text(picture(report))
    PAGE.write_text(placed(PAGE.read_text(), text(report)))


if __name__ == "__main__":
    main()
