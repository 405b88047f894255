"""`nodes`: show nodes and control them."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final

import msgspec
import typer
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from crawlfleet.cli.commands.node_history import draw_history
from crawlfleet.cli.shell.batch_orders import Ids, order_each
from crawlfleet.cli.shell.command import CommandContext, add_fleet_command
from crawlfleet.cli.shell.output import cell, facts, moment, since, state, table, tree
from crawlfleet.model.node import Health
from crawlfleet.model.node_sample import Resolution
from crawlfleet.views.nodes import NodeView

VERBS: Final = {
    "maintenance": "Let nodes take nothing new until they are resumed.",
    "resume": "Let nodes take work again.",
    "unregister": "Make nodes leave now; their running work goes back to the queue.",
    "remove": "Forget nodes that are gone.",
    "rotate-token": "Have nodes change their tokens, without interruption.",
    "revoke": "End nodes and their tokens at once; their running work goes back to the queue.",
}


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    group = typer.Typer(no_args_is_help=True, help="Look at nodes, and tell them what to do.")
    app.add_typer(group, name="nodes")
    add_fleet_command(
        group,
        "list",
        list_nodes,
        try_this=("crawlfleet nodes list", "crawlfleet nodes list --json | jq '.[].name'"),
    )
    add_fleet_command(group, "show", show, try_this=["crawlfleet nodes show node-01j…"])
    add_fleet_command(
        group,
        "history",
        history,
        try_this=(
            "crawlfleet nodes history node-01j…",
            "crawlfleet nodes history node-01j… --resolution hour --hours 168",
        ),
    )
    add_fleet_command(
        group,
        "label",
        label,
        try_this=(
            "crawlfleet nodes label node-01j… rack=7 spare-",
            'crawlfleet nodes label node-01j… --description "under the window"',
        ),
    )
    add_fleet_command(
        group,
        "drain",
        drain,
        try_this=(
            "crawlfleet nodes drain node-01j…",
            "crawlfleet nodes drain node-01j… --deadline 600",
        ),
    )
    for verb, help in VERBS.items():
        try_this = [f"crawlfleet nodes {verb} node-01j…"]
        add_fleet_command(group, verb, _order(verb), try_this=try_this, help=help)


async def list_nodes(
    desk: CommandContext,
    status: Annotated[str | None, typer.Option(help="Only nodes in this state.")] = None,
    cluster: Annotated[str | None, typer.Option(help="Only nodes of this cluster.")] = None,
) -> None:
    """List nodes, in order of their registration."""
    asked = {"status": status, "cluster_id": cluster}
    nodes = await desk.fleet.nodes(**{name: value for name, value in asked.items() if value})
    desk.output.show(nodes, lambda: draw_nodes(nodes))


async def show(
    desk: CommandContext, id: Annotated[str, typer.Argument(metavar="ID", show_default=False)]
) -> None:
    """Show one node: what it is, offers, measures and does."""
    node = await desk.fleet.node(id)
    desk.output.show(node, lambda: draw_node(node))


async def history(
    desk: CommandContext,
    id: Annotated[str, typer.Argument(metavar="NODE", show_default=False)],
    resolution: Annotated[
        Resolution, typer.Option(help="Each heartbeat, or means of a minute or an hour.")
    ] = Resolution.MINUTE,
    hours: Annotated[
        float, typer.Option(min=0.01, max=100_000, help="How far back to look.")
    ] = 24.0,
) -> None:
    """Show how a node did over time."""
    since = datetime.now(UTC) - timedelta(hours=hours)
    found = await desk.fleet.node_history(id, resolution=resolution, since=since, limit=5000)
    desk.output.show(found, lambda: draw_history(found))


async def label(
    desk: CommandContext,
    id: Annotated[str, typer.Argument(metavar="NODE", show_default=False)],
    labels: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="LABEL...",
            show_default=False,
            help="`name=value` sets one, `name-` removes it.",
        ),
    ] = None,
    description: Annotated[str | None, typer.Option(help="What the node is.")] = None,
) -> None:
    """Set and remove labels of a node; they win over its own, and outlast its restarts."""
    wanted = parse_labels(labels or ())
    if not wanted and description is None:
        raise typer.BadParameter("say what to change: name=value, name- or --description")
    node = await desk.fleet.change_node(id, labels=wanted, description=description)
    desk.output.show(node, lambda: draw_node(node))


async def drain(
    desk: CommandContext,
    ids: Ids,
    deadline: Annotated[
        float | None,
        typer.Option(
            min=0, help="Seconds after which what still runs is stopped and goes back to the queue."
        ),
    ] = None,
) -> None:
    """Let nodes finish what runs, take nothing new, and then go offline."""
    await order_each(desk, ids, lambda id: desk.fleet.drain(id, deadline_s=deadline), draw_nodes)


def parse_labels(texts: Sequence[str]) -> dict[str, str | None]:
    """Labels to set, and `None` for those to remove."""
    wanted: dict[str, str | None] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        removes = not equals and name.endswith("-")
        if not (equals or removes) or not name.removesuffix("-" if removes else ""):
            raise typer.BadParameter(f"{text!r} is no label: write name=value, or name- to remove")
        wanted[name.removesuffix("-") if removes else name] = None if removes else value
    return wanted


def _order(verb: str) -> Callable[..., Awaitable[None]]:
    async def order(desk: CommandContext, ids: Ids) -> None:
        await order_each(desk, ids, lambda id: desk.fleet.order(id, verb), draw_nodes)

    return order


def draw_nodes(nodes: Sequence[NodeView]) -> Table:
    """Nodes, one a line."""
    return table(
        ("id", "name", "status", "running", "cpu", "memory", "heard", "region"),
        (
            [
                cell(node.id),
                cell(node.name),
                _condition(node),
                cell(f"{len(node.active_tasks)}/{node.resources.slots:g}"),
                _share(node, "cpu_usage"),
                _share(node, "memory_usage"),
                since(node.last_heartbeat),
                cell(node.region),
            ]
            for node in nodes
        ),
        flexible=("name",),
    )


def draw_node(node: NodeView) -> RenderableType:
    """Draw all facts about a node."""
    return facts(
        [
            ("id", cell(node.id)),
            ("name", cell(node.name)),
            ("status", state(node.status)),
            ("health", state(node.health)),
            ("because", cell(node.health_reason, lines=True) if node.health_reason else None),
            ("drained by", moment(node.drain_until) if node.drain_until else None),
            ("description", cell(node.description, lines=True) if node.description else None),
            ("type", cell(node.node_type)),
            ("cluster", cell(node.cluster_id)),
            ("region", cell(node.region)),
            ("address", cell(node.ip_address) if node.ip_address else None),
            ("task types", cell(", ".join(node.task_types))),
            ("capabilities", tree(node.capabilities) if node.capabilities else None),
            ("labels", tree(node.labels) if node.labels else None),
            ("capacity", cell(_amounts(node))),
            ("cpu in use", _share(node, "cpu_usage")),
            ("memory in use", _share(node, "memory_usage")),
            ("GPU in use", _share(node, "gpu_usage") if node.usage.get("gpu_usage") else None),
            ("disk in use", _share(node, "disk_usage")),
            ("load", cell(f"{node.load:.2f}")),
            ("heard", moment(node.last_heartbeat)),
            ("registered", moment(node.created_at)),
            ("running", cell("\n".join(node.active_tasks), lines=True)),
        ]
    )


def _condition(node: NodeView) -> Text:
    """The state, and the health where that is news."""
    if node.health in {Health.UNKNOWN, Health.HEALTHY}:
        return state(node.status)
    return Text.assemble(state(node.status), ", ", state(node.health))


def _share(node: NodeView, name: str) -> RenderableType:
    share = node.usage.get(name)
    return cell(None if share is None else f"{share:.0%}")


def _amounts(node: NodeView) -> str:
    amounts = msgspec.structs.asdict(node.resources)
    return ", ".join(f"{name} {amount:g}" for name, amount in amounts.items() if amount)
