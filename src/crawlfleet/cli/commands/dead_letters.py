"""`dead-letters`: tasks that were given up, to look at, send back, or leave."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any

import typer
from rich.table import Table

from crawlfleet.cli.commands.projects import given
from crawlfleet.cli.shell import task_selection
from crawlfleet.cli.shell.command import CommandContext, add_fleet_command
from crawlfleet.cli.shell.errors import FAILED, say
from crawlfleet.cli.shell.output import cell, since, state, table
from crawlfleet.views.dead_letters import DeadLetter
from crawlfleet.views.tasks import BulkReply

SHOWN = 20
Ids = Annotated[list[str] | None, typer.Argument(metavar="[ID]...", show_default=False)]
Cluster = Annotated[str | None, typer.Option(help="Only those of this cluster.")]
ErrorClass = Annotated[
    str | None, typer.Option("--error", help="Only those whose last error is of this class.")
]
Reason = Annotated[str | None, typer.Option(help="Only those with this text in their reason.")]
All = Annotated[bool, typer.Option("--all", help="All of them.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    group = typer.Typer(
        no_args_is_help=True, help="Look at tasks that were given up, send them back or leave them."
    )
    app.add_typer(group, name="dead-letters")
    add_fleet_command(
        group,
        "list",
        list_dead_letters,
        try_this=("crawlfleet dead-letters list --project shop --error network",),
    )
    for verb, help in (
        ("requeue", "Send dead letters back to the queue, with fresh counters."),
        ("discard", "Take dead letters off the list; the tasks stay as they ended."),
    ):
        add_fleet_command(
            group,
            verb,
            _ordering(verb),
            try_this=(
                f"crawlfleet dead-letters {verb} task-01j…",
                f"crawlfleet dead-letters {verb} --project shop --error network",
                f"crawlfleet dead-letters {verb} --all",
            ),
            help=help,
        )


async def list_dead_letters(
    desk: CommandContext,
    project: task_selection.Project = None,
    cluster: Cluster = None,
    type: task_selection.Type = None,
    node: task_selection.Node = None,
    error: ErrorClass = None,
    reason: Reason = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many.")] = 50,
) -> None:
    """List tasks that were given up, newest first."""
    filters = _filter(project, cluster, type, node, error, reason)
    found = [letter async for letter in desk.fleet.dead_letters(limit=limit, **filters)]
    desk.output.show(found, lambda: draw_dead_letters(found))
    if len(found) == limit:
        desk.output.remark(f"the newest {limit}; --limit shows more")


def _ordering(verb: str) -> Callable[..., Awaitable[None]]:
    async def order(
        desk: CommandContext,
        ids: Ids = None,
        project: task_selection.Project = None,
        cluster: Cluster = None,
        type: task_selection.Type = None,
        node: task_selection.Node = None,
        error: ErrorClass = None,
        reason: Reason = None,
        everything: All = False,
    ) -> None:
        filters = _filter(project, cluster, type, node, error, reason)
        if bool(ids) + bool(filters) + everything != 1:
            raise typer.BadParameter(
                "name tasks, choose them by flags such as --project, or say --all", param_hint="ID"
            )
        carry_out = getattr(desk.fleet, f"{verb}_dead_letters")
        _show(desk, await carry_out(ids or None, **filters))

    return order


def _filter(
    project: str | None,
    cluster: str | None,
    type: str | None,
    node: str | None,
    error: str | None,
    reason: str | None,
) -> dict[str, Any]:
    return given(
        project_id=project,
        cluster_id=cluster,
        task_type=type,
        assigned_node=node,
        error_class=error,
        reason=reason,
    )


def _show(desk: CommandContext, reply: BulkReply) -> None:
    counts = f"{reply.changed} changed, {reply.unchanged} unchanged, {reply.refused_count} refused"
    desk.output.show(reply, lambda: cell(counts))
    for refused in reply.refused[:SHOWN]:
        say(refused.detail)
    if reply.refused_count:
        raise typer.Exit(FAILED)


def draw_dead_letters(letters: Sequence[DeadLetter]) -> Table:
    """Dead letters, one a line."""
    return table(
        ("id", "type", "project", "status", "error", "age", "reason", "message"),
        (
            [
                cell(each.id),
                cell(each.task_type),
                cell(each.project_id),
                state(each.status),
                cell(each.error_class),
                since(each.completed_at),
                cell(each.reason),
                cell(each.message),
            ]
            for each in letters
        ),
        flexible=("reason",),
    )
