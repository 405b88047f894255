"""`clusters`: look at groups of nodes, change their settings, and see how they are."""

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Group, RenderableType
from rich.table import Table

from crawlfleet.cli.commands.projects import Description, Id, Name, Version, given
from crawlfleet.cli.shell.arguments import parse_pairs
from crawlfleet.cli.shell.batch_orders import Ids, order_each
from crawlfleet.cli.shell.command import CommandContext, add_fleet_command
from crawlfleet.cli.shell.output import cell, facts, heading, moment, span, state, table
from crawlfleet.model.admin_requests import ClusterHealth
from crawlfleet.model.project import DEFAULT_PROJECT, ClusterSettings
from crawlfleet.model.resources import Resources
from crawlfleet.views.projects import ClusterView, ConfigurationView

Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="SETTING=VALUE",
        help="A setting of its nodes, such as max_slots=2; null takes it back. May be repeated.",
    ),
]


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    group = typer.Typer(
        no_args_is_help=True, help="Look at clusters, change their settings, see how they are."
    )
    app.add_typer(group, name="clusters")
    add_fleet_command(group, "list", list_clusters, try_this=["crawlfleet clusters list"])
    add_fleet_command(group, "show", show, try_this=["crawlfleet clusters show berlin"])
    add_fleet_command(
        group,
        "create",
        create,
        try_this=(
            "crawlfleet clusters create berlin --set max_slots=2",
            "crawlfleet clusters create shop-nodes --project shop",
        ),
    )
    add_fleet_command(
        group,
        "change",
        change,
        try_this=(
            "crawlfleet clusters change berlin --set session_timeout_s=30 --set max_slots=null",
            "crawlfleet clusters change berlin --name Berlin --if-version 3",
        ),
    )
    add_fleet_command(
        group, "maintenance", maintain, try_this=["crawlfleet clusters maintenance berlin"]
    )
    add_fleet_command(group, "close", close, try_this=["crawlfleet clusters close berlin"])
    add_fleet_command(group, "reopen", reopen, try_this=["crawlfleet clusters reopen berlin"])
    add_fleet_command(group, "versions", versions, try_this=["crawlfleet clusters versions berlin"])
    add_fleet_command(
        group, "rollback", roll_back, try_this=["crawlfleet clusters rollback berlin 3"]
    )
    add_fleet_command(group, "health", health, try_this=["crawlfleet clusters health berlin"])


async def list_clusters(desk: CommandContext) -> None:
    """List all clusters, in order of id."""
    found = [cluster async for cluster in desk.fleet.clusters()]
    desk.output.show(found, lambda: draw_clusters(found))


async def show(desk: CommandContext, id: Id) -> None:
    """Show a cluster and its settings."""
    _show(desk, await desk.fleet.cluster(id))


async def create(
    desk: CommandContext,
    id: Id,
    name: Name = None,
    description: Description = None,
    project: Annotated[
        str | None,
        typer.Option(help="Whose it is: only its tasks run there. Without it, all projects' do."),
    ] = None,
    settings: Settings = None,
) -> None:
    """Make a cluster."""
    fields = given(name=name, description=description, project_id=project)
    _show(desk, await desk.fleet.create_cluster(id, **fields, **_configuration(settings)))


async def change(
    desk: CommandContext,
    id: Id,
    name: Name = None,
    description: Description = None,
    settings: Settings = None,
    if_version: Version = None,
) -> None:
    """Change a cluster, or the settings of its nodes."""
    fields = {**given(name=name, description=description), **_configuration(settings)}
    _show(desk, await desk.fleet.change_cluster(id, if_version=if_version, **fields))


async def maintain(desk: CommandContext, ids: Ids) -> None:
    """Give the nodes of clusters no new work, while tasks may be submitted and wait."""

    async def order(id: str) -> ClusterView:
        return await desk.fleet.change_cluster(id, status="maintenance")

    await order_each(desk, ids, order, draw_clusters)


async def close(desk: CommandContext, ids: Ids) -> None:
    """Take no new tasks for clusters, and place nothing there; what runs goes on."""
    await order_each(desk, ids, desk.fleet.close_cluster, draw_clusters)


async def reopen(desk: CommandContext, ids: Ids) -> None:
    """Use clusters again, after `close` or `maintenance`."""
    await order_each(desk, ids, desk.fleet.reopen_cluster, draw_clusters)


async def versions(desk: CommandContext, id: Id) -> None:
    """List the versions of a cluster's settings, newest first."""
    found = [each async for each in desk.fleet.cluster_versions(id)]
    desk.output.show(found, lambda: draw_versions(found))


async def roll_back(
    desk: CommandContext,
    id: Id,
    version: Annotated[int, typer.Argument(help="The version to go back to; 0 for no settings.")],
    if_version: Version = None,
) -> None:
    """Go back to the settings of an earlier version."""
    _show(desk, await desk.fleet.roll_back_cluster(id, version, if_version=if_version))


async def health(desk: CommandContext, id: Id) -> None:
    """Show how a cluster is, what is wrong first."""
    found = await desk.fleet.cluster_health(id)
    desk.output.show(found, lambda: draw_health(found))


def _configuration(pairs: list[str] | None) -> dict[str, Any]:
    return {"configuration": parse_pairs(pairs, "--set")} if pairs else {}


def _show(desk: CommandContext, cluster: ClusterView) -> None:
    desk.output.show(cluster, lambda: draw_cluster(cluster))


def draw_clusters(clusters: Sequence[ClusterView]) -> Table:
    """Clusters, one a line."""
    return table(
        ("id", "name", "status", "project", "version", "settings"),
        (
            [
                cell(each.id),
                cell(each.name),
                state(each.status),
                cell(_owner(each)),
                cell(each.configuration_version),
                cell(_settings(each.configuration)),
            ]
            for each in clusters
        ),
        flexible=("name",),
    )


def _owner(cluster: ClusterView) -> str:
    shared = ", shared by all" if cluster.project_id == DEFAULT_PROJECT else ""
    return f"{cluster.project_id}{shared}"


def draw_cluster(cluster: ClusterView) -> RenderableType:
    """Draw all facts about a cluster."""
    return facts(
        [
            ("id", cell(cluster.id)),
            ("name", cell(cluster.name)),
            ("status", state(cluster.status)),
            ("project", cell(_owner(cluster))),
            ("description", cell(cluster.description, lines=True)),
            ("settings", cell(_settings(cluster.configuration))),
            ("their version", cell(cluster.configuration_version)),
            ("made", moment(cluster.created_at)),
            ("version", cell(cluster.version)),
        ]
    )


def draw_versions(found: Sequence[ConfigurationView]) -> Table:
    """Versions of settings, one a line."""
    rows = (
        [
            cell(each.version),
            moment(each.created_at),
            cell(_settings(each.settings)),
            cell(each.cause),
        ]
        for each in found
    )
    return table(("version", "at", "settings", "cause"), rows, flexible=("settings",))


def draw_health(found: ClusterHealth) -> RenderableType:
    """Draw the problems of a cluster, then its numbers."""
    oldest = None if found.oldest_ready_s is None else span(found.oldest_ready_s)
    numbers = facts(
        [
            ("cluster", cell(found.cluster_id)),
            ("status", state(found.status)),
            ("health", state(found.health)),
            ("nodes", cell(_counts(found.nodes))),
            ("their health", cell(_counts(found.node_health))),
            ("capacity", cell(_amounts(found.capacity))),
            ("used", cell(_amounts(found.used))),
            ("free", cell(_amounts(found.free))),
            ("tasks", cell(_counts(found.tasks))),
            ("ready", cell(found.ready)),
            ("oldest waits", cell(oldest)),
        ]
    )
    if not found.troubles:
        return numbers
    rows = (
        [state(each.severity), cell(each.message), cell(each.remedy)] for each in found.troubles
    )
    troubles = table(("", "what is wrong", "what to do"), rows, flexible=("what is wrong",))
    return Group(troubles, heading("Numbers"), numbers)


def _settings(settings: ClusterSettings) -> str:
    given = msgspec.to_builtins(settings)
    return ", ".join(f"{name}={value}" for name, value in given.items())


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))


def _amounts(amounts: Resources) -> str:
    given = msgspec.structs.asdict(amounts)
    return ", ".join(f"{name} {amount:g}" for name, amount in given.items() if amount)
