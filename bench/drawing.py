"""Bar charts as SVG with nothing in them that must be fetched, and parts of pages."""

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Final, NamedTuple

from bench.peers import ROOT

IMAGES: Final = ROOT / "docs" / "images"
PAGE: Final = ROOT / "docs" / "reference" / "benchmarks.md"
OURS_BEGINS: Final = "crawlfleet"

WIDTH: Final = 760
LABELS: Final = 230
VALUES: Final = 70
BAR: Final = 20
GAP: Final = 8
HEAD: Final = 34
OURS: Final = "#2563eb"
THEIRS: Final = "#9ca3af"


class Panel(NamedTuple):
    """Some bars under one title; ours are those whose label begins with our name."""

    title: str
    bars: Sequence[tuple[str, float]]
    format: str


def picture(panels: Sequence[Panel], *, label: str, foot: str) -> str:
    parts, top = [], 0
    for panel in panels:
        parts.append(_panel(panel, top))
        top += HEAD + len(panel.bars) * (BAR + GAP) + GAP
    parts.append(f'<text x="8" y="{top + 12}" class="small">{escape(foot)}</text>')
    height = top + 24
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}"'
        f' width="{WIDTH}" height="{height}" role="img" aria-label="{escape(label)}">\n'
        "<style>text{font:13px sans-serif;fill:#111827}.head{font-weight:600}"
        ".small{font-size:11px;fill:#4b5563}</style>\n"
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def place(name: str, part: str, page: Path = PAGE) -> None:
    """Put the part of that name between its markers in the page."""
    begin, end = f"<!-- {name}: written by bench.{name}.chart -->", f"<!-- {name}: end -->"
    before, found, rest = page.read_text().partition(begin)
    _, ended, after = rest.partition(end)
    if not found or not ended:
        raise SystemExit(f"{page} has no markers {begin} … {end}; put them where it belongs")
    page.write_text(f"{before}{begin}\n\n{part}\n\n{end}{after}")


def _panel(panel: Panel, top: int) -> str:
    most = max(figure for _, figure in panel.bars)
    room = WIDTH - LABELS - VALUES
    lines = [f'<text x="8" y="{top + 22}" class="head">{escape(panel.title)}</text>']
    for number, (label, figure) in enumerate(panel.bars):
        y = top + HEAD + number * (BAR + GAP)
        length = max(room * figure / most, 1)
        colour = OURS if label.startswith(OURS_BEGINS) else THEIRS
        lines += [
            f'<text x="{LABELS - 8}" y="{y + 15}" text-anchor="end">{escape(label)}</text>',
            f'<rect x="{LABELS}" y="{y}" width="{length:.0f}" height="{BAR}" fill="{colour}"/>',
            f'<text x="{LABELS + length + 6:.0f}" y="{y + 15}">{figure:{panel.format}}</text>',
        ]
    return "\n".join(lines)
