"""`tasks cancel` and its like: for tasks that are named, or for all that flags choose."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.console import RenderableType

from crawlfleet.cli.shell import task_selection
from crawlfleet.cli.shell.batch_orders import order_each
from crawlfleet.cli.shell.command import CommandContext, add_fleet_command
from crawlfleet.cli.shell.errors import FAILED, say
from crawlfleet.cli.shell.output import cell
from crawlfleet.views.tasks import TaskView

if TYPE_CHECKING:
    from crawlfleet.client.http.fields import TasksVerb, TaskVerb

VERBS: Final[dict["TaskVerb", str]] = {
    "cancel": "End tasks; what runs of them is stopped.",
    "pause": "Take tasks out of the queue, or off their nodes.",
    "resume": "Put paused tasks back into the queue.",
}
FAILED_STATES: Final = ("failed", "timeout")
SHOWN: Final = 20

Ids = Annotated[list[str] | None, typer.Argument(metavar="[ID]...", show_default=False)]
Draw = Callable[[Sequence[TaskView]], RenderableType]


def register(group: typer.Typer, draw: Draw) -> None:
    """Add the commands to `tasks`; `draw` shows tasks that were named."""
    for verb, help in VERBS.items():
        add_fleet_command(
            group,
            verb,
            _ordering(verb, draw),
            try_this=(
                f"crawlfleet tasks {verb} task-01j… task-01k…",
                f"crawlfleet tasks {verb} --project shop --type http_fetch",
            ),
            help=help,
        )
    add_fleet_command(
        group,
        "retry",
        _retrying(draw),
        try_this=("crawlfleet tasks retry task-01j…", "crawlfleet tasks retry --all-failed"),
    )
    add_fleet_command(
        group,
        "priority",
        _reprioritising(draw),
        try_this=(
            "crawlfleet tasks priority task-01j… 9",
            "crawlfleet tasks priority --project shop 9",
        ),
    )


def _ordering(verb: "TaskVerb", draw: Draw) -> Callable[..., Awaitable[None]]:
    async def order(
        desk: CommandContext,
        ids: Ids = None,
        status: task_selection.Status = None,
        project: task_selection.Project = None,
        cluster: task_selection.Cluster = None,
        type: task_selection.Type = None,
        node: task_selection.Node = None,
        workflow: task_selection.Workflow = None,
        dead: task_selection.Dead = False,
    ) -> None:
        filter = task_selection.chosen(status, project, type, node, workflow, dead, cluster=cluster)
        await _carry_out(desk, verb, ids, filter, lambda id: desk.fleet.act(id, verb), draw)

    return order


def _retrying(draw: Draw) -> Callable[..., Awaitable[None]]:
    async def retry(
        desk: CommandContext,
        ids: Ids = None,
        all_failed: Annotated[
            bool, typer.Option("--all-failed", help="All tasks that failed or took too long.")
        ] = False,
        status: task_selection.Status = None,
        project: task_selection.Project = None,
        cluster: task_selection.Cluster = None,
        type: task_selection.Type = None,
        node: task_selection.Node = None,
        workflow: task_selection.Workflow = None,
        dead: task_selection.Dead = False,
    ) -> None:
        """Send tasks that did not succeed back to the queue."""
        states = [*(status or ()), *(FAILED_STATES if all_failed else ())]
        filter = task_selection.chosen(states, project, type, node, workflow, dead, cluster=cluster)
        await _carry_out(desk, "retry", ids, filter, lambda id: desk.fleet.act(id, "retry"), draw)

    return retry


def _reprioritising(draw: Draw) -> Callable[..., Awaitable[None]]:
    async def reprioritise(
        desk: CommandContext,
        ids: Ids = None,
        *,
        priority: Annotated[int, typer.Argument(help="1 to 10; 10 is most urgent.")],
        status: task_selection.Status = None,
        project: task_selection.Project = None,
        cluster: task_selection.Cluster = None,
        type: task_selection.Type = None,
        workflow: task_selection.Workflow = None,
    ) -> None:
        """Change the priority of tasks that wait."""
        filter = task_selection.chosen(
            status, project, type, None, workflow, False, cluster=cluster
        )
        await _carry_out(
            desk,
            "reprioritise",
            ids,
            filter,
            lambda id: desk.fleet.reprioritise(id, priority),
            draw,
            priority=priority,
        )

    return reprioritise


async def _carry_out(
    desk: CommandContext,
    verb: "TasksVerb",
    ids: Sequence[str] | None,
    filter: dict[str, Any],
    order: Callable[[str], Awaitable[TaskView]],
    draw: Draw,
    *,
    priority: int | None = None,
) -> None:
    """Named tasks are shown one by one, chosen ones are counted; exits with 1 if any refused."""
    if bool(ids) == bool(filter):
        raise typer.BadParameter(
            "name tasks, or choose them by flags such as --status", param_hint="ID"
        )
    if ids:
        await order_each(desk, ids, order, draw)
        return
    reply = await desk.fleet.act_on(verb, priority=priority, **filter)
    counts = f"{reply.changed} changed, {reply.unchanged} unchanged, {reply.refused_count} refused"
    desk.output.show(reply, lambda: cell(counts))
    for refused in reply.refused[:SHOWN]:
        say(refused.detail)
    if reply.refused_count:
        raise typer.Exit(FAILED)
