"""`python -m bench.crawl.chart FILE`: draws a run's JSON, and puts its tables into the docs.

Writes `docs/images/crawl.svg`, and the part of `docs/reference/benchmarks.md` between its markers;
the words around it are written by hand.
"""

import argparse
from pathlib import Path

import msgspec

from bench import drawing, sheets
from bench.crawl import tables
from bench.crawl.figures import Report


def picture(report: Report) -> str:
    """The chart as SVG."""
    crawlers, facts = report.crawlers.values(), report.machine
    return drawing.picture(
        [
            drawing.Panel(
                "pages crawled in a second of CPU: more is better",
                [(each.title, each.per_cpu_s) for each in crawlers],
                ",.0f",
            ),
            drawing.Panel(
                "most memory, MB: less is better",
                [(each.title, each.peak_mb) for each in crawlers],
                ".0f",
            ),
        ],
        label="crawlers compared",
        foot=f"{facts.cores} cores, Python {facts.python}, {facts.date}; medians of"
        f" {report.rounds}; see docs/reference/benchmarks.md",
    )


def text(report: Report) -> str:
    """What goes between the markers of the page."""
    facts = report.machine
    lines = [
        "![Crawlers compared](../images/crawl.svg)",
        "",
        f"Measured {facts.date} on {facts.cores} cores ({facts.processor}), Linux {facts.kernel},"
        f" Python {facts.python}, crawlfleet {facts.source}; "
        + ", ".join(f"{name} {version}" for name, version in report.versions.items())
        + f". The run took {report.seconds / 60:.0f} minutes. {facts.load} When it ended the load"
        f" average was {report.load_after:.1f}, the run's own load of up to 2 among it.",
        "",
    ]
    for sheet in tables.sheets(report):
        lines += [sheets.as_markdown(sheet), ""]
    lines += [f"- {name}: not measured: {why}" for name, why in report.missing.items()]
    lines += ["| crawler | settings |", "|---|---|"]
    lines += [f"| {each.title} | {each.settings} |" for each in report.crawlers.values()]
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="bench.crawl.chart", description=__doc__)
    parser.add_argument("file", type=Path, help="what `python -m bench.crawl --json` wrote")
    options = parser.parse_args(arguments)
    report = msgspec.json.decode(options.file.read_bytes(), type=Report)
    (drawing.IMAGES / "crawl.svg").write_text(picture(report))
    drawing.place("crawl", text(report))


if __name__ == "__main__":
    main()
