"""`python -m bench.sandbox.chart sandbox.json`: put the figures into the page."""

import sys
from pathlib import Path

import msgspec

from bench.drawing import place
from bench.sandbox.run import Figures, sheets
from bench.sheets import as_markdown


def main() -> None:
    figures = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Figures)
    about = figures.machine
    head = (
        f"Measured {about.date} on {about.cores} cores ({about.processor}), Linux {about.kernel},"
        f" Python {about.python}, crawlfleet {about.source}, at {figures.level}"
        f" ({' '.join(figures.layers)}). {about.load}"
    )
    place("sandbox", "\n\n".join([head, *map(as_markdown, sheets(figures))]).rstrip())


if __name__ == "__main__":
    main()
