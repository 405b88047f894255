"""Options of the commands that make and name schedules."""

from typing import Annotated, Final

import typer

from crawlfleet.cli.shell.arguments import Pairs as Pairs
from crawlfleet.cli.shell.arguments import ParameterSource as ParameterSource
from crawlfleet.cli.shell.command import CommandContext
from crawlfleet.errors import Conflict, NotFound
from crawlfleet.features.schedules.model import Overlap
from crawlfleet.model.ids import SCHEDULE

WHEN: Final = "When it is due"
LATE: Final = "What happens when that cannot be kept"
TASK: Final = "The task"
WORKFLOW: Final = "Or the workflow"

Name = Annotated[str, typer.Argument(metavar="NAME|ID", show_default=False)]
Names = Annotated[list[str], typer.Argument(metavar="NAME|ID...", show_default=False)]
Cron = Annotated[
    str | None,
    typer.Option(
        metavar="'M H D M W'",
        help="Minute, hour, day of month, month, day of week; or @hourly, @daily, @weekly.",
        rich_help_panel=WHEN,
    ),
]
Every = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="Or an interval: 90s, 15m, 6h, 1d.", rich_help_panel=WHEN),
]
Zone = Annotated[
    str | None,
    typer.Option(
        "--zone",
        metavar="AREA/CITY",
        help="Whose clocks --cron goes by, such as Europe/Berlin; UTC when not given.",
        rich_help_panel=WHEN,
    ),
]
Start = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="Nothing is due before. ISO 8601; local time unless it names a zone.",
        rich_help_panel=WHEN,
    ),
]
End = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="Nothing is due from then on.", rich_help_panel=WHEN),
]
Jitter = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="Put each start off by up to so much.", rich_help_panel=WHEN),
]
Coalesce = Annotated[
    bool | None,
    typer.Option(
        "--coalesce/--no-coalesce",
        help="Start one for all that is late together, or one for each; one by default.",
        rich_help_panel=LATE,
    ),
]
Grace = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="Do not start what is later than that; start it however late when not given.",
        rich_help_panel=LATE,
    ),
]
MostInstances = Annotated[
    int | None,
    typer.Option(
        min=1, help="How many of its tasks or runs may be at work at once; 1.", rich_help_panel=LATE
    ),
]
Overlapping = Annotated[
    Overlap | None,
    typer.Option(
        help="When there are so many: skip what is due, or queue one; skip by default.",
        rich_help_panel=LATE,
    ),
]
Description = Annotated[str | None, typer.Option(help="What it is for.")]
TaskSource = Annotated[
    str | None,
    typer.Option(
        "--task",
        metavar="JSON|@FILE|-",
        help="The whole task as a JSON object, as `POST /api/v1/tasks` takes it.",
        rich_help_panel=TASK,
    ),
]
WorkflowName = Annotated[
    str | None,
    typer.Option(
        "--workflow",
        metavar="NAME|ID",
        help="A workflow that is kept; -p gives its parameters, --project says whose it is.",
        rich_help_panel=WORKFLOW,
    ),
]
WorkflowNumber = Annotated[
    int | None,
    typer.Option(
        "--workflow-version",
        min=1,
        help="Which of its versions; the newest at each due instant when not given.",
        rich_help_panel=WORKFLOW,
    ),
]
TaskPriority = Annotated[
    int | None,
    typer.Option("--priority", help="1 to 10; 10 is most urgent.", rich_help_panel=TASK),
]
TaskRetries = Annotated[
    int | None,
    typer.Option("--max-retries", help="How often to try again.", rich_help_panel=TASK),
]
TaskTimeout = Annotated[
    float | None,
    typer.Option(
        "--timeout",
        metavar="SECONDS",
        help="How long one attempt may take.",
        rich_help_panel=TASK,
    ),
]
TaskCluster = Annotated[
    str | None,
    typer.Option("--cluster", help="The cluster whose nodes may do it.", rich_help_panel=TASK),
]
TaskProject = Annotated[
    str | None, typer.Option("--project", help="The project that owns it.", rich_help_panel=TASK)
]
TaskDedup = Annotated[
    str | None,
    typer.Option(
        "--dedup-key",
        help="While a task with this key is alive or recent, no second is made.",
        rich_help_panel=TASK,
    ),
]


async def found_by(desk: CommandContext, name: str) -> str:
    """The id of the schedule that is meant by a name, or by its id."""
    if name.startswith(f"{SCHEDULE}-"):
        return name
    found = [each async for each in desk.fleet.schedules(name=name)]
    if not found:
        raise NotFound("schedule", name)
    if len(found) > 1:
        which = ", ".join(f"{each.id} (project {each.project_id})" for each in found)
        raise Conflict(f"{name!r} is the name of several schedules: {which}; use the id")
    return found[0].id
