"""`alerts`: the rules of alerts, their states and their silences."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.console import RenderableType
from rich.table import Table

from crawlfleet.cli.commands.projects import given
from crawlfleet.cli.shell.arguments import parse_span
from crawlfleet.cli.shell.batch_orders import order_each
from crawlfleet.cli.shell.command import CommandContext, add_fleet_command
from crawlfleet.cli.shell.output import cell, facts, moment, since, span, state, table
from crawlfleet.errors import Conflict, NotFound
from crawlfleet.features.alerts.model import Severity, Source
from crawlfleet.features.alerts.views import AlertView
from crawlfleet.model.ids import ALERT

Name = Annotated[str, typer.Argument(metavar="NAME|ID", show_default=False)]
Names = Annotated[list[str], typer.Argument(metavar="NAME|ID...", show_default=False)]
Above = Annotated[float | None, typer.Option(help="It holds when the value is higher.")]
Below = Annotated[float | None, typer.Option(help="It holds when the value is lower.")]
Back = Annotated[
    float | None, typer.Option("--clear-at", help="And no longer when it is back at this.")
]
For = Annotated[
    str | None, typer.Option("--for", metavar="TIME", help="It has to hold for so long.")
]
Clear = Annotated[
    str | None, typer.Option("--clear", metavar="TIME", help="And not to hold for so long.")
]
Window = Annotated[
    str | None, typer.Option(metavar="TIME", help="How far back events and error_share look.")
]
Kind = Annotated[
    str | None, typer.Option("--event", help="How the kinds of events begin that are counted.")
]
Least = Annotated[int | None, typer.Option(help="Shares of fewer tasks say nothing.")]
How = Annotated[Severity | None, typer.Option("--severity", help="How bad that is.")]
Grouped = Annotated[
    str | None,
    typer.Option("--group", metavar="TIME", help="Wait so long for more before telling."),
]
Repeat = Annotated[
    str | None, typer.Option(metavar="TIME", help="Tell again after so long while it fires.")
]
Description = Annotated[str | None, typer.Option(help="What it means.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    group = typer.Typer(
        no_args_is_help=True, help="Say when people are told, and see how things stand."
    )
    app.add_typer(group, name="alerts")
    add_fleet_command(
        group,
        "list",
        list_alerts,
        try_this=("crawlfleet alerts list", "crawlfleet alerts list --firing --json"),
    )
    add_fleet_command(group, "show", show, try_this=["crawlfleet alerts show node-lost"])
    add_fleet_command(
        group,
        "create",
        create,
        try_this=(
            "crawlfleet alerts create few-nodes nodes_online --below 3 --for 2m",
            "crawlfleet alerts create blocked events --event task.failed --above 10 --window 15m",
        ),
    )
    add_fleet_command(
        group,
        "change",
        change,
        try_this=("crawlfleet alerts change queue-age --above 1800 --clear-at 900",),
    )
    add_fleet_command(group, "on", on, try_this=["crawlfleet alerts on queue-age"])
    add_fleet_command(group, "off", off, try_this=["crawlfleet alerts off queue-age"])
    add_fleet_command(
        group,
        "silence",
        silence,
        try_this=(
            "crawlfleet alerts silence node-lost --for 2h --reason 'the rack is being moved'",
            "crawlfleet alerts silence node-lost --for 1d --subject node-01j…",
        ),
    )
    add_fleet_command(
        group, "unsilence", unsilence, try_this=["crawlfleet alerts unsilence node-lost"]
    )
    add_fleet_command(group, "remove", remove, try_this=["crawlfleet alerts remove few-nodes"])


async def list_alerts(
    desk: CommandContext,
    firing: Annotated[bool, typer.Option("--firing", help="Only those that fire.")] = False,
    project: Annotated[str | None, typer.Option(help="Only those of this project.")] = None,
) -> None:
    """List the rules, and how things stand with each."""
    wanted = "firing" if firing else None
    found = await desk.fleet.alerts(status=wanted, project_id=project)
    desk.output.show(found, lambda: draw_alerts(found))


async def show(desk: CommandContext, name: Name) -> None:
    """Show a rule, and how things stand with it."""
    alert = await desk.fleet.alert(await found_by(desk, name))
    desk.output.show(alert, lambda: draw_alert(alert))


async def create(
    desk: CommandContext,
    name: Annotated[str, typer.Argument(metavar="NAME", show_default=False)],
    source: Annotated[Source, typer.Argument(show_default=False, help="What is watched.")],
    above: Above = None,
    below: Below = None,
    clear_at: Back = None,
    holding: For = None,
    clear: Clear = None,
    window: Window = None,
    event: Kind = None,
    least: Least = None,
    severity: How = None,
    group: Grouped = None,
    repeat: Repeat = None,
    project: Annotated[str | None, typer.Option(help="Only what belongs to this project.")] = None,
    description: Description = None,
) -> None:
    """Say when people should be told. Who is told, is said by webhooks for `alert.`"""
    fields = _fields(
        above, below, clear_at, holding, clear, window, event, least, severity, group, repeat
    )
    fields |= given(project_id=project, description=description)
    made = await desk.fleet.create_alert(name, str(source), **fields)
    desk.output.show(made, lambda: draw_alert(made))


async def change(
    desk: CommandContext,
    name: Name,
    above: Above = None,
    below: Below = None,
    clear_at: Back = None,
    holding: For = None,
    clear: Clear = None,
    window: Window = None,
    event: Kind = None,
    least: Least = None,
    severity: How = None,
    group: Grouped = None,
    repeat: Repeat = None,
    description: Description = None,
) -> None:
    """Change a rule, also one that is built in; what is not named stays."""
    fields = _fields(
        above, below, clear_at, holding, clear, window, event, least, severity, group, repeat
    )
    fields |= given(description=description)
    changed = await desk.fleet.change_alert(await found_by(desk, name), **fields)
    desk.output.show(changed, lambda: draw_alert(changed))


async def on(desk: CommandContext, names: Names) -> None:
    """Switch rules on."""

    async def order(name: str) -> AlertView:
        return await desk.fleet.change_alert(await found_by(desk, name), is_on=True)

    await order_each(desk, names, order, draw_alerts)


async def off(desk: CommandContext, names: Names) -> None:
    """Switch rules off."""

    async def order(name: str) -> AlertView:
        return await desk.fleet.change_alert(await found_by(desk, name), is_on=False)

    await order_each(desk, names, order, draw_alerts)


async def silence(
    desk: CommandContext,
    name: Name,
    how_long: Annotated[
        str,
        typer.Option("--for", metavar="TIME", show_default=False, help="For so long: 2h, 1d."),
    ],
    subject: Annotated[
        str, typer.Option(help="Only of this thing, such as a node; of all when not given.")
    ] = "",
    reason: Annotated[str, typer.Option(help="Why, for others who look.")] = "",
) -> None:
    """Tell nobody of a rule for a while; if it still fires then, people are told."""
    id = await found_by(desk, name)
    for_s = parse_span(how_long, "--for")
    changed = await desk.fleet.silence_alert(id, for_s, subject=subject, reason=reason)
    desk.output.show(changed, lambda: draw_alert(changed))


async def unsilence(
    desk: CommandContext,
    name: Name,
    subject: Annotated[
        str | None, typer.Option(help="Only the silence of this thing; all when not given.")
    ] = None,
) -> None:
    """Lift the silences of a rule."""
    changed = await desk.fleet.unsilence_alert(await found_by(desk, name), subject=subject)
    desk.output.show(changed, lambda: draw_alert(changed))


async def remove(desk: CommandContext, names: Names) -> None:
    """Take rules away; those that are built in can be switched off."""

    async def order(name: str) -> AlertView | None:
        return await desk.fleet.remove_alert(await found_by(desk, name))

    await order_each(desk, names, order, draw_alerts)


async def found_by(desk: CommandContext, name: str) -> str:
    """The id of the rule that is meant by a name, or by its id."""
    if name.startswith(f"{ALERT}-"):
        return name
    found = await desk.fleet.alerts(name=name)
    if not found:
        raise NotFound("alert", name)
    if len(found) > 1:
        which = ", ".join(f"{each.id} (project {each.project_id or 'all'})" for each in found)
        raise Conflict(f"{name!r} is the name of several rules: {which}; use the id")
    return found[0].id


def _fields(
    above: float | None,
    below: float | None,
    clear_at: float | None,
    holding: str | None,
    clear: str | None,
    window: str | None,
    event: str | None,
    least: int | None,
    severity: Severity | None,
    group: str | None,
    repeat: str | None,
) -> dict[str, Any]:
    def seconds(text: str | None, flag: str) -> float | None:
        return None if text is None else parse_span(text, flag)

    return given(
        above=above,
        below=below,
        clear_at=clear_at,
        for_s=seconds(holding, "--for"),
        clear_s=seconds(clear, "--clear"),
        window_s=seconds(window, "--window"),
        event=event,
        least=least,
        severity=None if severity is None else str(severity),
        group_s=seconds(group, "--group"),
        repeat_s=seconds(repeat, "--repeat"),
    )


def draw_alerts(alerts: Sequence[AlertView]) -> Table:
    """Rules, one a line."""
    return table(
        ("name", "status", "severity", "since", "silenced", "project", "what"),
        (
            [
                cell(each.name),
                state(each.status) if each.is_on else cell("off", "dim"),
                state(each.severity),
                since(each.fired_at),
                cell("yes" if each.silences else None),
                cell(each.project_id),
                cell(each.summary or each.description or _limit(each)),
            ]
            for each in alerts
        ),
        flexible=("name",),
    )


def draw_alert(alert: AlertView) -> RenderableType:
    """A rule, and how things stand with it."""
    silences = "\n".join(
        f"{each.subject or 'all'} until {moment(each.until)} by {each.by} {each.reason}".strip()
        for each in alert.silences
    )
    return facts(
        [
            ("id", cell(alert.id)),
            ("name", cell(alert.name)),
            ("status", state(alert.status) if alert.is_on else cell("off", "dim")),
            ("what", cell(alert.summary) if alert.summary else None),
            ("since", moment(alert.fired_at) if alert.fired_at else None),
            ("told", moment(alert.told_at) if alert.told_at else None),
            ("about", cell(", ".join(alert.subjects)) if alert.subjects else None),
            ("silences", cell(silences, lines=True) if silences else None),
            ("severity", state(alert.severity)),
            ("project", cell(alert.project_id or "all")),
            ("rule", cell(_limit(alert))),
            ("description", cell(alert.description, lines=True) if alert.description else None),
            ("has to hold for", cell(span(alert.for_s))),
            ("is over after", cell(span(alert.clear_s))),
            ("is told after", cell(span(alert.group_s))),
            ("and again after", cell(span(alert.repeat_s))),
            ("by", cell(alert.cause)),
        ]
    )


def _limit(alert: AlertView) -> str:
    what = f"{alert.source} {alert.event}".strip()
    side = f"above {alert.above:g}" if alert.above is not None else f"below {alert.below or 0:g}"
    back = f", until {alert.clear_at:g}" if alert.clear_at is not None else ""
    within = f" within {span(alert.window_s)}" if alert.source in {"events", "error_share"} else ""
    return f"{what} {side}{within}{back}"
