"""`explain`: why a task is where it is."""

from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from crawlfleet.cli.shell.command import CommandContext, add_fleet_command
from crawlfleet.cli.shell.output import cell, facts, heading, moment, state, table
from crawlfleet.views.quotas import QuotaHold
from crawlfleet.views.tasks import TaskExplanation


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    add_fleet_command(app, "explain", explain, try_this=["crawlfleet explain task-01j…"])


async def explain(
    desk: CommandContext, id: Annotated[str, typer.Argument(metavar="TASK", show_default=False)]
) -> None:
    """Say why a task is (not) running: which filter rejects which nodes."""
    explanation = await desk.fleet.explain(id)
    desk.output.show(explanation, lambda: draw_explanation(explanation))


def _held(hold: QuotaHold) -> Text:
    return cell(f"{hold.use:g} of {hold.limit:g} used, and it needs {hold.needs:g}")


def draw_explanation(explanation: TaskExplanation) -> RenderableType:
    """The answer in a sentence, then the filters, then the nodes."""
    ready_at = explanation.ready_at
    parts: list[RenderableType] = [
        Text.assemble(cell(explanation.task_id), " is ", state(explanation.status)),
        cell(explanation.summary, "bold"),
        facts(
            [
                (
                    "ready at",
                    None if ready_at is None else moment(datetime.fromtimestamp(ready_at, UTC)),
                ),
                (
                    "ahead of it",
                    None if explanation.ready_tasks is None else cell(explanation.ready_tasks),
                ),
                *((f"quota {each.quota}", _held(each)) for each in explanation.quotas),
                *((f"shards {name}", cell(count)) for name, count in explanation.shards.items()),
            ]
        ),
    ]
    placement = explanation.placement
    if placement is None:
        return Group(*parts)
    if placement.rejected:
        counts = ([cell(name), cell(count)] for name, count in placement.rejected.items())
        parts += [heading("Filters"), table(("filter", "nodes rejected"), counts)]
    if placement.details:
        rows = (
            [
                cell(verdict.node_id),
                cell(verdict.name),
                Text("\n").join(cell(f"{r.filter}: {r.message}") for r in verdict.reasons)
                if verdict.reasons
                else cell("can take it now", "green"),
            ]
            for verdict in placement.details
        )
        parts += [heading("Nodes"), table(("id", "name", "why not"), rows, flexible=("name",))]
    return Group(*parts)
