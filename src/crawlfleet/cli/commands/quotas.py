"""`quotas`: the limits, the usage and the shares of projects."""

import csv
import io
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final

import msgspec
import typer
from rich.console import Group, RenderableType
from rich.table import Table

from crawlfleet.cli.shell.arguments import parse_instant
from crawlfleet.cli.shell.command import CommandContext, add_fleet_command
from crawlfleet.cli.shell.output import cell, facts, span, table
from crawlfleet.model.quota import Over, Quota
from crawlfleet.views.quotas import QuotaView, UsageAmounts, UsageItem, UsageReport, UsageStep

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


NONE = "none"
Project = Annotated[str, typer.Argument(metavar="PROJECT", show_default=False)]


def _limit(what: str) -> Any:
    return typer.Option(metavar="NUMBER|none", help=f"{what}; `none` takes the limit away.")


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    group = typer.Typer(no_args_is_help=True, help="Look at quotas and shares, and change them.")
    app.add_typer(group, name="quotas")
    add_fleet_command(group, "list", list_quotas, try_this=["crawlfleet quotas list"])
    add_fleet_command(group, "show", show, try_this=["crawlfleet quotas show shop"])
    add_fleet_command(
        group,
        "set",
        set_quotas,
        try_this=[
            "crawlfleet quotas set shop --running 40 --cpu-cores 16 --weight 2",
            "crawlfleet quotas set shop --waiting 10000 --over reject",
            "crawlfleet quotas set shop --running none --node pool=shop",
            "crawlfleet quotas set shop --pages-per-day 200000 --storage-mb 50000",
        ],
    )
    add_fleet_command(
        group,
        "usage",
        usage,
        try_this=[
            "crawlfleet quotas usage shop --since 7d",
            "crawlfleet quotas usage --step hour --since 24h --csv > usage.csv",
        ],
    )


async def list_quotas(desk: CommandContext) -> None:
    """List what each project uses and may have."""
    found = [each async for each in desk.fleet.quotas()]
    desk.output.show(found, lambda: draw_list(found))


async def show(desk: CommandContext, project: Project) -> None:
    """Show the quotas of a project, what it uses of them, and its share of the fleet."""
    quotas = await desk.fleet.project_quotas(project)
    desk.output.show(quotas, lambda: draw_quotas(quotas))


async def set_quotas(
    desk: CommandContext,
    project: Project,
    waiting: Annotated[str | None, _limit("Tasks that may wait")] = None,
    running: Annotated[str | None, _limit("Tasks that may run at once")] = None,
    cpu_cores: Annotated[str | None, _limit("CPU cores reserved for them together")] = None,
    memory_mb: Annotated[str | None, _limit("Memory reserved for them together, in MB")] = None,
    pages_per_day: Annotated[
        str | None, _limit("Pages that its tasks may fetch from midnight to midnight, UTC")
    ] = None,
    storage_mb: Annotated[str | None, _limit("Output and bundles kept for it, in MB")] = None,
    over: Annotated[
        Over | None,
        typer.Option(help="What is more than that waits (queue), or is refused (reject)."),
    ] = None,
    weight: Annotated[
        float | None, typer.Option(help="Its share beside others; 2 is twice as much as 1.")
    ] = None,
    node: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LABEL=VALUE|none",
            help="Keep the nodes with all of these labels for the project; `none` keeps none.",
        ),
    ] = None,
    if_version: Annotated[
        int | None, typer.Option("--if-version", help="Only if it is still in this version.")
    ] = None,
) -> None:
    """Change what a project may have; what is not named stays as it is."""
    limits = {
        "waiting": waiting,
        "running": running,
        "cpu_cores": cpu_cores,
        "memory_mb": memory_mb,
        "pages_per_day": pages_per_day,
        "storage_mb": storage_mb,
    }
    fields: dict[str, Any] = {
        name: _number(name, text) for name, text in limits.items() if text is not None
    }
    if over is not None:
        fields["over"] = str(over)
    if weight is not None:
        fields["weight"] = weight
    if node:
        fields["nodes"] = _labels(node)
    if not fields:
        raise typer.BadParameter("name something to change, such as --running 40")
    quotas = await desk.fleet.set_quotas(project, if_version=if_version, **fields)
    desk.output.show(quotas, lambda: draw_quotas(quotas))


async def usage(
    desk: CommandContext,
    project: Annotated[
        str | None, typer.Argument(metavar="[PROJECT]", show_default=False, help="All by default.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="From then on, or from so long ago: 2026-11-01, 7d; 30 days."
        ),
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="Before then; now when not given.")
    ] = None,
    step: Annotated[UsageStep, typer.Option(help="By the day (UTC), or by the hour.")] = (
        UsageStep.DAY
    ),
    csv: Annotated[
        bool, typer.Option("--csv", help="Comma-separated values, for spreadsheets.")
    ] = False,
) -> None:
    """Show what projects have used over time: tasks, CPU, pages, storage."""
    report = await desk.fleet.usage(
        project,
        since=None if since is None else parse_instant(since, "--since"),
        until=None if until is None else parse_instant(until, "--until"),
        step=str(step),
    )
    if csv and not desk.output.json:
        typer.echo(usage_csv(report), nl=False)
    else:
        desk.output.show(report, lambda: draw_usage(report))


def _number(name: str, text: str) -> float | None:
    if text == NONE:
        return None
    try:
        number = float(text)
    except ValueError:
        flag = name.replace("_", "-")
        raise typer.BadParameter(f"--{flag} {text!r} is neither a number nor `none`") from None
    return int(number) if number.is_integer() else number


def _labels(texts: Sequence[str]) -> dict[str, str]:
    if [*texts] == [NONE]:
        return {}
    labels = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise typer.BadParameter(f"--node {text!r} is no label: write name=value, or none")
        labels[name] = value
    return labels


def draw_list(found: Sequence[QuotaView]) -> Table:
    """Projects, one a line: what each uses, of how much."""
    names = [*Quota]
    return table(
        ("project", *names, "over", "share", "due", "weight"),
        (
            [
                cell(each.project_id),
                *(cell(_used(each, name)) for name in names),
                cell(each.over),
                cell(f"{each.share:.1%}"),
                cell(f"{each.due:.1%}"),
                cell(f"{each.weight:g}"),
            ]
            for each in found
        ),
    )


def draw_quotas(quotas: QuotaView) -> RenderableType:
    """All that is known about what a project has and may have."""
    kept = ", ".join(f"{name}={value}" for name, value in sorted(quotas.nodes.items()))
    return Group(
        facts(
            [
                ("project", cell(quotas.project_id)),
                ("over quota", cell(quotas.over)),
                ("weight", cell(f"{quotas.weight:g}")),
                ("holds", cell(f"{quotas.share:.1%} of the fleet")),
                ("its due", cell(f"{quotas.due:.1%}, beside others that have work now")),
                ("nodes kept for it", cell(kept) if kept else None),
                ("version", cell(quotas.version)),
            ]
        ),
        table(
            ("quota", "used", "limit", "left"),
            (
                [
                    cell(line.name),
                    cell(f"{line.use:g}"),
                    cell(None if line.limit is None else f"{line.limit:g}"),
                    cell(None if line.left is None else f"{line.left:g}"),
                ]
                for line in quotas.quotas
            ),
        ),
    )


def _used(quotas: QuotaView, name: str) -> str:
    line = next((each for each in quotas.quotas if each.name == name), None)
    if line is None:
        return ""
    return f"{line.use:g}" if line.limit is None else f"{line.use:g}/{line.limit:g}"
