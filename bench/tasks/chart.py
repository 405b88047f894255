"""`python -m bench.tasks.chart FILE`: draws a run's JSON, and puts its tables into the docs.

Writes `docs/images/tasks.svg`, and the part of `docs/reference/benchmarks.md` between its markers;
the words around it are written by hand.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from bench import drawing, sheets
from bench.tasks import tables
from bench.tasks.figures import Measured, Report


class Compared(NamedTuple):
    title: str
    figure: Callable[[Measured], float]
    format: str


COMPARED: Final = (
    Compared(
        "no-op tasks done a second by one worker process: more is better",
        lambda each: each.drain_per_s[1],
        ",.0f",
    ),
    Compared("by two worker processes", lambda each: each.drain_per_s[2], ",.0f"),
    Compared(
        "CPU-milliseconds of a task's whole life, all processes: less is better",
        lambda each: each.cpu_ms,
        ".2f",
    ),
)


def picture(report: Report) -> str:
    """The chart as SVG."""
    systems = [each for each in report.systems.values() if each.drain_per_s]
    facts = report.machine
    return drawing.picture(
        [
            drawing.Panel(
                panel.title, [(each.title, panel.figure(each)) for each in systems], panel.format
            )
            for panel in COMPARED
        ],
        label="task queues compared",
        foot=f"{facts.cores} cores, Python {facts.python}, {facts.date}; medians of"
        f" {report.rounds}; see docs/reference/benchmarks.md",
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
        + f". The run took {report.seconds / 60:.0f} minutes. {facts.load}",
        "",
    ]
    for sheet in tables.sheets(report):
        lines += [sheets.as_markdown(sheet), ""]
    for name, why in report.missing.items():
        lines += [f"- {name}: not measured: {why.splitlines()[0]}"]
    lines += ["| system | tasks a drain | settings | known to be done when | bulk |"]
    lines += ["|---|---:|---|---|---|"]
    lines += [
        f"| {each.title} | {each.tasks:,} | {each.settings} | {each.done} | {each.bulk} |"
        for each in report.systems.values()
    ]
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="bench.tasks.chart", description=__doc__)
    parser.add_argument("file", type=Path, help="what `python -m bench.tasks --json` wrote")
    options = parser.parse_args(arguments)
    report = msgspec.json.decode(options.file.read_bytes(), type=Report)
    (drawing.IMAGES / "tasks.svg").write_text(picture(report))
    drawing.place("tasks", text(report))


if __name__ == "__main__":
    main()
