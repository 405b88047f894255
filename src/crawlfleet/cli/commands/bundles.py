"""`deploy` and `bundles`: hand over code, look at its versions, go back, remove."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.table import Table

from crawlfleet.cli.commands import bundle_archive
from crawlfleet.cli.shell.command import CommandContext, add_fleet_command
from crawlfleet.cli.shell.output import cell, facts, moment, since, table
from crawlfleet.features.bundles.views import BundleView
from crawlfleet.model.project import DEFAULT_PROJECT

Name = Annotated[str, typer.Argument(metavar="NAME", show_default=False)]
Project = Annotated[str, typer.Option(help="The project that it belongs to.")]
Number = Annotated[
    int | None, typer.Argument(metavar="[VERSION]", show_default=False, min=1, help="Its number.")
]


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    add_fleet_command(
        app,
        "deploy",
        deploy,
        try_this=(
            "crawlfleet deploy ./my_scrapy_project",
            "crawlfleet deploy dist/shop-1.2-py3-none-any.whl --name shop --project prices",
            "crawlfleet deploy . --exclude 'data/*' --note 'follows the next page, too'",
        ),
    )
    group = typer.Typer(
        no_args_is_help=True, help="Look at code that was deployed, and its versions."
    )
    app.add_typer(group, name="bundles")
    add_fleet_command(group, "list", list_bundles, try_this=["crawlfleet bundles list --json"])
    add_fleet_command(group, "show", show, try_this=["crawlfleet bundles show quotes"])
    add_fleet_command(
        group,
        "rollback",
        rollback,
        try_this=["crawlfleet bundles rollback quotes", "crawlfleet bundles rollback quotes 3"],
    )
    add_fleet_command(
        group,
        "remove",
        remove,
        try_this=["crawlfleet bundles remove quotes 2", "crawlfleet bundles remove quotes --all"],
    )


async def deploy(
    desk: CommandContext,
    path: Annotated[
        Path,
        typer.Argument(
            metavar="PATH", show_default=False, help="A folder, a zip archive or a wheel."
        ),
    ],
    name: Annotated[
        str | None, typer.Option(help="What it is called; as the folder or file when not given.")
    ] = None,
    project: Project = DEFAULT_PROJECT,
    note: Annotated[str, typer.Option(help="What is new, for people.")] = "",
    exclude: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="Leave these files out of a folder. May be repeated."),
    ] = None,
) -> None:
    """Hand over code to the fleet: it becomes the present version of a bundle.

    A bundle is run with `crawlfleet submit scrapy_spider --bundle NAME --spider SPIDER`, or by the
    task types `python` and `command`. Caches, virtual environments, version control, `.env` and
    keys are left out of a folder.
    """
    archive = bundle_archive.archive_of(path, exclude or ())
    wanted = name or bundle_archive.name_of(path)
    bundle = await desk.fleet.deploy(wanted, archive, project, note=note)
    desk.output.show(bundle, lambda: draw_bundle(bundle))


async def list_bundles(desk: CommandContext, project: Project = DEFAULT_PROJECT) -> None:
    """List the bundles of a project, in order of name."""
    found = [bundle async for bundle in desk.fleet.bundles(project)]
    desk.output.show(found, lambda: draw_bundles(found))


async def show(desk: CommandContext, name: Name, project: Project = DEFAULT_PROJECT) -> None:
    """Show a bundle and its versions."""
    bundle = await desk.fleet.bundle(name, project)
    desk.output.show(bundle, lambda: draw_bundle(bundle))


async def rollback(
    desk: CommandContext, name: Name, version: Number = None, project: Project = DEFAULT_PROJECT
) -> None:
    """Make another version the present one: the one before it when none is named.

    Tasks keep the version that was the present one when they were submitted.
    """
    bundle = await desk.fleet.roll_back_bundle(name, version, project)
    desk.output.show(bundle, lambda: draw_bundle(bundle))


async def remove(
    desk: CommandContext,
    name: Name,
    version: Number = None,
    project: Project = DEFAULT_PROJECT,
    everything: Annotated[bool, typer.Option("--all", help="The whole bundle.")] = False,
) -> None:
    """Remove a version that nobody needs, or the whole bundle."""
    if (version is None) is not everything:
        raise typer.BadParameter("name a version, or --all of them", param_hint="VERSION")
    bundle = await desk.fleet.remove_bundle(name, version, project)
    if bundle is not None:
        desk.output.show(bundle, lambda: draw_bundle(bundle))


def draw_bundles(found: Sequence[BundleView]) -> Table:
    """Bundles, one a line."""
    return table(
        ("name", "current", "versions", "kind", "changed"),
        (
            [
                cell(each.name),
                cell(each.current),
                cell(len(each.versions)),
                cell(each.versions[0].kind if each.versions else ""),
                since(each.updated_at),
            ]
            for each in found
        ),
        flexible=("name",),
    )


def draw_bundle(bundle: BundleView) -> RenderableType:
    """Draw all facts about a bundle."""
    head = facts(
        [
            ("name", cell(bundle.name)),
            ("project", cell(bundle.project_id)),
            ("current", cell(bundle.current or "none")),
        ]
    )
    versions = table(
        ("version", "digest", "kind", "files", "bytes", "at", "cause", "note"),
        (
            [
                cell(each.version),
                cell(each.digest[:12]),
                cell(each.kind),
                cell(each.files),
                cell(each.bytes),
                moment(each.created_at),
                cell(each.cause),
                cell(each.note),
            ]
            for each in bundle.versions
        ),
        flexible=("note", "cause"),
    )
    return Group(head, versions)
