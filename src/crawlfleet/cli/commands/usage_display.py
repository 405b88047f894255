"""How what projects have used looks to people, and to spreadsheets."""

import csv
import io
from collections.abc import Callable
from typing import Final

import msgspec
from rich.console import Group, RenderableType

from crawlfleet.cli.shell.output import cell, span, table
from crawlfleet.views.usage_views import UsageAmounts, UsageItem, UsageReport, UsageStep

MB: Final = 1e6
COLUMNS: Final = (
    "at",
    "project_id",
    *(name for name in UsageItem.__struct_fields__ if name not in ("at", "project_id")),
)
_SHOWN: Final[tuple[tuple[str, Callable[[UsageAmounts], str]], ...]] = (
    ("submitted", lambda each: f"{each.submitted:,}"),
    ("completed", lambda each: f"{each.completed:,}"),
    ("failed", lambda each: f"{each.failed:,}"),
    ("CPU", lambda each: span(each.cpu_s)),
    ("ran", lambda each: span(each.run_s)),
    ("pages", lambda each: f"{each.pages:,}"),
    ("MB", lambda each: f"{each.bytes / MB:,.1f}"),
)


def draw_usage(report: UsageReport) -> RenderableType:
    """Steps, one a line for each project; then all of them together."""
    if not report.items:
        return cell("nothing was used in that time")
    form = "%Y-%m-%d" if report.step is UsageStep.DAY else "%Y-%m-%d %H:00"
    lines = table(
        (f"{report.step} (UTC)", "project", *(name for name, _ in _SHOWN), "most", "stored MB"),
        (
            [
                cell(each.at.strftime(form)),
                cell(each.project_id),
                *(cell(write(each)) for _, write in _SHOWN),
                cell(f"{each.peak_waiting:,} waiting, {each.peak_running:,} running"),
                cell(_stored(each)),
            ]
            for each in report.items
        ),
    )
    whole = ", ".join(f"{write(report.total)} {name}" for name, write in _SHOWN)
    return Group(lines, cell(f"in all: {whole}", "bold"))


def _stored(item: UsageItem) -> str | None:
    return None if item.storage_bytes is None else f"{item.storage_bytes / MB:,.1f}"


def usage_csv(report: UsageReport) -> str:
    """A line for each step and project, under the names of the API's fields."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for item in report.items:
        writer.writerow(msgspec.to_builtins(item))
    return text.getvalue()
