"""`logs`: the log of an execution, line by line."""

from contextlib import aclosing
from typing import Annotated, Any, Final

import typer
from rich.text import Text

from crawlfleet.cli.shell.arguments import parse_instant
from crawlfleet.cli.shell.command import CommandContext, add_fleet_command
from crawlfleet.cli.shell.output import moment, printable
from crawlfleet.model.ids import EXECUTION
from crawlfleet.model.log import LogLevel
from crawlfleet.views.executions import LogLineView

STYLES: Final = {"debug": "dim", "warning": "yellow", "error": "red"}
LEVEL_WIDTH: Final = 7


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    add_fleet_command(
        app,
        "logs",
        logs,
        try_this=(
            "crawlfleet logs task-01j…",
            "crawlfleet logs task-01j… --follow --level warning",
            "crawlfleet logs task-01j… --grep 'status=503' --since 15m",
            "crawlfleet logs task-01j… --grep 'took [0-9]{2,} s' --regex --follow",
            "crawlfleet logs task-01j… --json | jq -r .message",
        ),
    )


async def logs(
    desk: CommandContext,
    task: Annotated[
        str, typer.Argument(metavar="TASK", show_default=False, help="A task, or an execution.")
    ],
    follow: Annotated[
        bool,
        typer.Option("--follow", "-f", help="Go on with what is said until the task has ended."),
    ] = False,
    execution: Annotated[
        str | None, typer.Option(help="This attempt; the newest when it is not said.")
    ] = None,
    level: Annotated[
        LogLevel, typer.Option(help="Only lines of this level and of those that matter more.")
    ] = LogLevel.DEBUG,
    grep: Annotated[
        str | None,
        typer.Option(
            "--grep",
            "-g",
            metavar="TEXT",
            help="Only lines with this text in their message or their fields, in any case.",
        ),
    ] = None,
    regex: Annotated[
        bool,
        typer.Option(
            "--regex", "-E", help="The text of --grep is a regular expression, as RE2 has them."
        ),
    ] = False,
    since: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Not before this instant, or not longer ago than `15m`."),
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="Before this instant, or longer ago.")
    ] = None,
) -> None:
    """Show the log of a task's newest attempt, or search it (--json: one document a line)."""
    if regex and not grep:
        raise typer.BadParameter("needs an expression: --grep 'took [0-9]+ s' --regex")
    search: dict[str, Any] = {
        "level": level,
        "q": grep,
        "regex": regex or None,
        "since": since and parse_instant(since, "--since").isoformat(),
        "until": until and parse_instant(until, "--until").isoformat(),
    }
    if task.startswith(f"{EXECUTION}-"):
        execution = task
    if follow:
        await _follow(desk, task, execution, search)
        return
    if execution is None:
        attempts = await desk.fleet.executions(task)
        if not attempts:
            desk.output.remark(f"{task} was not attempted yet; --follow waits for it")
            return
        execution = attempts[-1].id
    count = 0
    async for line in desk.fleet.logs(execution, **search):
        desk.output.line(line, draw_line(line))
        count += 1
    if not count:
        sought = grep or since or until
        told = "nothing that is sought" if sought else "nothing"
        desk.output.remark(f"{execution} has said {told}")


async def _follow(desk: CommandContext, task: str, execution: str | None, search: Any) -> None:
    if execution is not None:
        async with aclosing(desk.fleet.stream_logs(execution, **search)) as lines:
            async for line in lines:
                desk.output.line(line, draw_line(line))
        return
    present = None
    async for attempt, line in desk.fleet.follow_task(task, **search):
        if attempt != present:
            desk.output.remark(attempt)
            present = attempt
        desk.output.line(line, draw_line(line))


def draw_line(line: LogLineView) -> Text:
    """A line as people read it."""
    style = STYLES.get(line.level, "")
    fields = "".join(f"  {name}={value}" for name, value in line.fields.items())
    return Text.assemble(
        moment(line.at),
        "  ",
        (line.level.ljust(LEVEL_WIDTH), style),
        "  ",
        (printable(line.message), style),
        (printable(fields), "dim"),
    )
