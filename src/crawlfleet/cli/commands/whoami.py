"""`whoami` and `task-types`: the key of the caller, and the types of tasks that it may submit."""

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import RenderableType

from crawlfleet.cli.shell.command import CommandContext, add_fleet_command
from crawlfleet.cli.shell.output import cell, facts, moment, table, tree
from crawlfleet.errors import NotFound
from crawlfleet.model.statistics import TaskTypeView
from crawlfleet.views.access import SessionView


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    add_fleet_command(
        app,
        "whoami",
        whoami,
        try_this=("crawlfleet whoami", "crawlfleet whoami --key 8c1f… --json | jq -r .role"),
    )
    add_fleet_command(
        app,
        "task-types",
        task_types,
        try_this=(
            "crawlfleet task-types",
            "crawlfleet task-types http_fetch",
            "crawlfleet task-types --json | jq -r '.[].name'",
        ),
    )


async def whoami(desk: CommandContext) -> None:
    """Show whose key this is, its role, and the projects that there are for it."""
    found = await desk.fleet.session()
    desk.output.show(found, lambda: draw_session(found))


async def task_types(
    desk: CommandContext,
    name: Annotated[
        str | None,
        typer.Argument(metavar="[TYPE]", show_default=False, help="One, with its parameters."),
    ] = None,
) -> None:
    """List what tasks there can be; of one, show the JSON schema of its parameters."""
    found = await desk.fleet.task_types()
    if name is None:
        desk.output.show(found, lambda: draw_types(found))
        return
    chosen = next((each for each in found if each.name == name), None)
    if chosen is None:
        raise NotFound("task-type", name)
    desk.output.show(chosen, lambda: draw_type(chosen))


def draw_session(found: SessionView) -> RenderableType:
    """Draw the key of the caller: its name, role, projects and end."""
    projects = "all" if found.projects is None else ", ".join(found.projects)
    return facts(
        [
            ("key", cell(found.name)),
            ("role", cell(found.role)),
            ("projects", cell(projects)),
            ("ends", moment(found.expires_at) if found.expires_at else cell("never")),
        ]
    )


def draw_types(found: Sequence[TaskTypeView]) -> RenderableType:
    """One type a line."""
    rows = ([cell(each.name), cell(each.nodes), cell(each.summary)] for each in found)
    return table(("type", "nodes", "what it does"), rows)


def draw_type(found: TaskTypeView) -> RenderableType:
    """One type, and how its tasks are written."""
    schema = None if found.parameters is None else tree(found.parameters)
    return facts(
        [
            ("type", cell(found.name)),
            ("what it does", cell(found.summary, lines=True)),
            ("nodes", cell(found.nodes)),
            ("parameters", schema or cell("not known to this master")),
        ]
    )
