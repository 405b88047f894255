"""`tasks`: show tasks and control them."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.table import Table

from crawlfleet.cli.commands import task_orders
from crawlfleet.cli.commands.events import draw_events
from crawlfleet.cli.shell import task_selection, waiting
from crawlfleet.cli.shell.arguments import Pairs, ParameterSource, parse_parameters
from crawlfleet.cli.shell.batch_orders import Ids
from crawlfleet.cli.shell.command import CommandContext, add_fleet_command
from crawlfleet.cli.shell.output import (
    cell,
    facts,
    heading,
    moment,
    since,
    span,
    state,
    table,
    tree,
)
from crawlfleet.views.events import EventView
from crawlfleet.views.executions import ExecutionView
from crawlfleet.views.tasks import TaskView

TaskId = Annotated[str, typer.Argument(metavar="ID", show_default=False)]


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    group = typer.Typer(
        no_args_is_help=True, help="Look at tasks, and change what becomes of them."
    )
    app.add_typer(group, name="tasks")
    add_fleet_command(
        group,
        "list",
        list_tasks,
        try_this=(
            "crawlfleet tasks list --status failed,timeout --limit 20",
            "crawlfleet tasks list --dead --json",
            "crawlfleet tasks list --parent task-01j…",
        ),
    )
    add_fleet_command(group, "show", show, try_this=["crawlfleet tasks show task-01j…"])
    add_fleet_command(
        group, "executions", executions, try_this=["crawlfleet tasks executions task-01j…"]
    )
    add_fleet_command(
        group, "events", events, try_this=["crawlfleet tasks events task-01j… --json"]
    )
    task_orders.register(group, draw_tasks)
    add_fleet_command(
        group, "clone", clone, try_this=["crawlfleet tasks clone task-01j… -p seconds=2"]
    )
    add_fleet_command(group, "wait", wait, try_this=["crawlfleet tasks wait task-01j… task-01k…"])


async def list_tasks(
    desk: CommandContext,
    status: task_selection.Status = None,
    project: task_selection.Project = None,
    cluster: task_selection.Cluster = None,
    type: task_selection.Type = None,
    node: task_selection.Node = None,
    workflow: task_selection.Workflow = None,
    dead: task_selection.Dead = False,
    parent: task_selection.Parent = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many.")] = 50,
) -> None:
    """List tasks, newest first."""
    chosen = task_selection.chosen(
        status, project, type, node, workflow, dead, parent, cluster=cluster
    )
    filters = task_selection.as_query(chosen)
    found = [task async for task in desk.fleet.tasks(limit=limit, **filters)]
    desk.output.show(found, lambda: draw_tasks(found))
    if len(found) == limit:
        desk.output.remark(f"the newest {limit}; --limit shows more")


async def show(desk: CommandContext, id: TaskId) -> None:
    """Show a task with its attempts and all that happened to it (--json: the task alone)."""
    task = await desk.fleet.task(id)
    if desk.output.json:
        desk.output.show(task, lambda: "")
        return
    attempts, happened = await desk.fleet.executions(id), await desk.fleet.events(id)
    desk.output.show(task, lambda: draw_task(task, attempts, happened))


async def executions(desk: CommandContext, id: TaskId) -> None:
    """List the attempts of a task, oldest first."""
    attempts = await desk.fleet.executions(id)
    desk.output.show(attempts, lambda: draw_executions(attempts))


async def events(desk: CommandContext, id: TaskId) -> None:
    """List what happened to a task, in order."""
    happened = await desk.fleet.events(id)
    desk.output.show(happened, lambda: draw_events(happened, subjects=False))


async def clone(
    desk: CommandContext,
    id: TaskId,
    pairs: Pairs = None,
    parameters: ParameterSource = None,
    priority: Annotated[int | None, typer.Option(help="1 to 10; 10 is most urgent.")] = None,
) -> None:
    """Submit the same task again; -p changes single parameters, --parameters all of them."""
    changes: dict[str, Any] = {} if priority is None else {"priority": priority}
    changed = parse_parameters(parameters, pairs)
    if parameters is None and changed:
        changed = {**(await desk.fleet.task(id)).parameters, **changed}
    if parameters is not None or changed:
        changes["parameters"] = changed
    receipt = await desk.fleet.clone(id, **changes)
    desk.output.show(receipt, lambda: cell(receipt.id))


async def wait(desk: CommandContext, ids: Ids) -> None:
    """Wait until tasks have ended; fails unless all completed."""
    await waiting.wait_for_all(desk, ids)


def draw_tasks(tasks: Sequence[TaskView]) -> Table:
    """Tasks, one a line."""
    columns = ("id", "type", "status", "prio", "retries", "age", "node")
    return table(
        columns,
        (
            [
                cell(task.id),
                cell(task.task_type),
                state(task.status),
                cell(task.priority),
                cell(f"{task.retry_count}/{task.max_retries}"),
                since(task.created_at),
                cell(task.assigned_node),
            ]
            for task in tasks
        ),
    )


def draw_task(
    task: TaskView, attempts: Sequence[ExecutionView], happened: Sequence[EventView]
) -> RenderableType:
    """Draw all facts about a task."""
    parts: list[RenderableType] = [
        facts(
            [
                ("id", cell(task.id)),
                ("type", cell(task.task_type)),
                ("status", state(task.status)),
                ("project", cell(task.project_id)),
                ("priority", cell(task.priority)),
                ("retries", cell(f"{task.retry_count} of {task.max_retries}")),
                ("node", cell(task.assigned_node) if task.assigned_node else None),
                ("submitted", moment(task.created_at)),
                ("started", moment(task.started_at) if task.started_at else None),
                ("ended", moment(task.completed_at) if task.completed_at else None),
                ("progress", cell(_progress(task)) if task.progress else None),
                ("shards", cell(_shards(task)) if task.shard_states else None),
                ("shard", cell(_shard(task)) if task.parent_id else None),
                ("time limit", cell(span(task.timeout)) if task.timeout else None),
                ("deadline", moment(task.deadline) if task.deadline else None),
                ("strategy", cell(task.schedule_strategy) if task.schedule_strategy else None),
                ("error", cell(task.error.message, "red") if task.error else None),
                ("given up", cell(task.dead_reason, "red") if task.dead_reason else None),
                ("quality", state(verdict) if (verdict := _verdict(task)) else None),
                ("parameters", tree(task.parameters)),
                ("result", tree(task.result) if task.result is not None else None),
            ]
        )
    ]
    if verdict:
        parts += [heading("Expectations"), _draw_checks(task.result["quality"]["checks"])]
    if attempts:
        parts += [heading("Executions"), draw_executions(attempts)]
    if happened:
        parts += [heading("Events"), draw_events(happened, subjects=False)]
    return Group(*parts)


def _verdict(task: TaskView) -> str:
    """Return the quality verdict on the task's items; empty while there is none."""
    quality = task.result.get("quality") if isinstance(task.result, dict) else None
    return str(quality.get("verdict", "")) if isinstance(quality, dict) else ""


def _draw_checks(checks: Sequence[dict[str, Any]]) -> Table:
    return table(
        ("check", "outcome", "what"),
        ([cell(each["name"]), state(each["outcome"]), cell(each["words"])] for each in checks),
        flexible=("what",),
    )


def _progress(task: TaskView) -> str:
    if task.progress is None:
        return ""
    done, total = task.progress.done, task.progress.total
    return f"{done:g}" if not total else f"{done:g} of {total:g} ({done / total:.0%})"


def _shards(task: TaskView) -> str:
    states = ", ".join(f"{count} {state}" for state, count in task.shard_states.items())
    return f"{task.shards}: {states}"


def _shard(task: TaskView) -> str:
    return f"{task.shard} of {task.shards}, of {task.parent_id}"


def draw_executions(attempts: Sequence[ExecutionView]) -> Table:
    """Attempts, one a line."""
    return table(
        ("id", "status", "age", "took", "node", "error"),
        (
            [
                cell(each.id),
                state(each.status),
                since(each.start_time),
                _took(each),
                cell(each.node_id),
                cell(each.error.message if each.error else None),
            ]
            for each in attempts
        ),
        flexible=("node",),
    )


def _took(attempt: ExecutionView) -> RenderableType:
    if attempt.running_at is None or attempt.end_time is None:
        return cell(None)
    return cell(span((attempt.end_time - attempt.running_at).total_seconds()))
