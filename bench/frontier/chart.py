"""`python -m bench.frontier.chart FILE …`: put the figures of runs into the page.

One file is that of a run, a second one that of a run with `--many`.
"""

import argparse
from pathlib import Path

import msgspec

from bench.drawing import place
from bench.frontier.run import Report, made
from bench.sheets import as_markdown


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="bench.frontier.chart", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, help="what `bench.frontier --json` wrote")
    options = parser.parse_args(arguments)
    parts = []
    for file in options.files:
        report = msgspec.json.decode(file.read_bytes(), type=Report)
        about = report.machine
        parts.append(
            f"Measured {about.date} on {about.cores} cores ({about.processor}), Linux"
            f" {about.kernel}, Python {about.python}, crawlfleet {about.source}. The run took"
            f" {report.seconds / 60:.0f} minutes. {about.load}"
            + (" **A quick run**: fewer URLs and rounds." if report.quick else "")
        )
        parts += map(as_markdown, made(report))
    place("frontier", "\n\n".join(parts).rstrip())


if __name__ == "__main__":
    main()
