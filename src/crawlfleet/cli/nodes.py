"""`nodes`: look at nodes and tell them what to do."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Final

import msgspec
import typer
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from crawlfleet.cli.command import Desk, add_fleet_command
from crawlfleet.cli.ordering import Ids, order_each
from crawlfleet.cli.output import cell, facts, moment, since, state, table, tree
from crawlfleet.model.node import Health
from crawlfleet.model.views import NodeView

VERBS: Final = {
    "drain": "Let nodes finish what runs, take nothing new, and then go offline.",
    "maintenance": "Let nodes take nothing new until they are resumed.",
    "resume": "Let nodes take work again.",
    "unregister": "Make nodes leave now; their running work goes back to the queue.",
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
    for verb, help in VERBS.items():
        try_this = [f"crawlfleet nodes {verb} node-01j…"]
        add_fleet_command(group, verb, _order(verb), try_this=try_this, help=help)


async def list_nodes(desk: Desk) -> None:
    """List all nodes, in order of their registration."""
    nodes = await desk.fleet.nodes()
    desk.output.show(nodes, lambda: draw_nodes(nodes))


async def show(
    desk: Desk, id: Annotated[str, typer.Argument(metavar="ID", show_default=False)]
) -> None:
    """Show one node: what it is, offers, measures and does."""
    node = await desk.fleet.node(id)
    desk.output.show(node, lambda: draw_node(node))


def _order(verb: str) -> Callable[..., Awaitable[None]]:
    async def order(desk: Desk, ids: Ids) -> None:
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
    """All that is known about a node."""
    return facts(
        [
            ("id", cell(node.id)),
            ("name", cell(node.name)),
            ("status", state(node.status)),
            ("health", state(node.health)),
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
