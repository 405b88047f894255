"""`python -m bench.spread.chart FILE`: draws a run's JSON, and puts its tables into the docs.

Writes `docs/images/spread.svg`, and the part of `docs/reference/benchmarks.md` between its markers;
the words around it are written by hand.
"""

import argparse
from pathlib import Path

import msgspec

from bench import drawing, sheets
from bench.spread import tables
from bench.spread.figures import Report


def picture(report: Report) -> str:
    """The chart as SVG."""
    facts, panels = report.machine, []
    if report.cpu:
        bars = [(f"{each.title}, {each.processes}", each.per_cpu_s) for each in report.cpu]
        title = "pages crawled in a second of CPU, by so many processes: more is better"
        panels.append(drawing.Panel(title, bars, ",.0f"))
    if report.latency:
        bars = [(f"{each.title}, {each.processes}", each.per_s) for each in report.latency]
        title = "pages a second of slow hosts, as many for each worker"
        panels.append(drawing.Panel(title, bars, ",.0f"))
    return drawing.picture(
        panels,
        label="one crawl by several processes",
        foot=f"{facts.cores} cores, Python {facts.python}, {facts.date}; medians of"
        f" {report.rounds}; see docs/reference/benchmarks.md",
    )


def text(report: Report) -> str:
    """What goes between the markers of the page."""
    facts = report.machine
    lines = [
        "![One crawl by several processes](../images/spread.svg)",
        "",
        f"Measured {facts.date} on {facts.cores} cores ({facts.processor}), Linux {facts.kernel},"
        f" Python {facts.python}, crawlfleet {facts.source}"
        + "".join(f", {name} {version}" for name, version in report.versions.items())
        + f". The run took {report.seconds / 60:.0f} minutes. {facts.load} When it ended the load"
        f" average was {report.load_after:.1f}, the run's own load of up to 2 among it."
        + (" **A quick run**: fewer pages, one round." if report.quick else ""),
        "",
    ]
    for sheet in tables.sheets(report):
        lines += [sheets.as_markdown(sheet), ""]
    lines += [f"- {name}: not measured: {why}" for name, why in report.missing.items()]
    if report.missing:
        lines.append("")
    lines += ["| crawler | settings | CPU counted |", "|---|---|---|"]
    lines += [f"| {each.title} | {each.settings} | {each.counted} |" for each in report.contenders]
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="bench.spread.chart", description=__doc__)
    parser.add_argument("file", type=Path, help="what `python -m bench.spread --json` wrote")
    options = parser.parse_args(arguments)
    report = msgspec.json.decode(options.file.read_bytes(), type=Report)
    (drawing.IMAGES / "spread.svg").write_text(picture(report))
    drawing.place("spread", text(report))


if __name__ == "__main__":
    main()
