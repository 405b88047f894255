"""`projects`: look at projects, make, change and close them."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.console import RenderableType
from rich.table import Table

from crawlfleet.cli.shell.batch_orders import Ids, order_each
from crawlfleet.cli.shell.command import CommandContext, add_fleet_command
from crawlfleet.cli.shell.output import cell, facts, moment, since, state, table
from crawlfleet.views.projects import ProjectView

Id = Annotated[str, typer.Argument(metavar="ID", show_default=False)]
Name = Annotated[str | None, typer.Option(help="A name for people.")]
Description = Annotated[str | None, typer.Option(help="What it is for.")]
Version = Annotated[
    int | None, typer.Option("--if-version", help="Only if it is still in this version.")
]


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    group = typer.Typer(no_args_is_help=True, help="Look at projects, make and close them.")
    app.add_typer(group, name="projects")
    add_fleet_command(group, "list", list_projects, try_this=["crawlfleet projects list --json"])
    add_fleet_command(group, "show", show, try_this=["crawlfleet projects show shop"])
    add_fleet_command(
        group, "create", create, try_this=["crawlfleet projects create shop --name 'Price watch'"]
    )
    add_fleet_command(
        group,
        "change",
        change,
        try_this=["crawlfleet projects change shop --description 'every hour'"],
    )
    add_fleet_command(group, "close", close, try_this=["crawlfleet projects close shop"])
    add_fleet_command(group, "reopen", reopen, try_this=["crawlfleet projects reopen shop"])


async def list_projects(desk: CommandContext) -> None:
    """List all projects, in order of id."""
    found = [project async for project in desk.fleet.projects()]
    desk.output.show(found, lambda: draw_projects(found))


async def show(desk: CommandContext, id: Id) -> None:
    """Show a project and the counts of its tasks."""
    project = await desk.fleet.project(id)
    desk.output.show(project, lambda: draw_project(project))


async def create(
    desk: CommandContext, id: Id, name: Name = None, description: Description = None
) -> None:
    """Make a project."""
    project = await desk.fleet.create_project(id, **given(name=name, description=description))
    desk.output.show(project, lambda: draw_project(project))


async def change(
    desk: CommandContext,
    id: Id,
    name: Name = None,
    description: Description = None,
    if_version: Version = None,
) -> None:
    """Change a project's name or description."""
    fields = given(name=name, description=description)
    project = await desk.fleet.change_project(id, if_version=if_version, **fields)
    desk.output.show(project, lambda: draw_project(project))


async def close(desk: CommandContext, ids: Ids) -> None:
    """Take no new tasks for projects; those that they have go on."""
    await order_each(desk, ids, desk.fleet.close_project, draw_projects)


async def reopen(desk: CommandContext, ids: Ids) -> None:
    """Take tasks for projects again."""
    await order_each(desk, ids, desk.fleet.reopen_project, draw_projects)


def given(**fields: Any) -> dict[str, Any]:
    """The fields for which a flag was given."""
    return {name: value for name, value in fields.items() if value is not None}


def draw_projects(projects: Sequence[ProjectView]) -> Table:
    """Projects, one a line."""
    return table(
        ("id", "name", "status", "tasks", "age"),
        (
            [
                cell(each.id),
                cell(each.name),
                state(each.status),
                cell(_counts(each)),
                since(each.created_at),
            ]
            for each in projects
        ),
        flexible=("name", "tasks"),
    )


def draw_project(project: ProjectView) -> RenderableType:
    """Draw all facts about a project."""
    return facts(
        [
            ("id", cell(project.id)),
            ("name", cell(project.name)),
            ("status", state(project.status)),
            ("description", cell(project.description, lines=True)),
            ("tasks", cell(_counts(project))),
            ("made", moment(project.created_at)),
            ("version", cell(project.version)),
        ]
    )


def _counts(project: ProjectView) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(project.tasks.items()))
