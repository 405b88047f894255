"""`workflows`: steps that depend on each other."""

import asyncio
from typing import Annotated, Final

import typer

from crawlfleet.cli.commands.workflow_display import (
    draw_run,
    draw_runs,
    draw_validation,
    draw_version,
    draw_versions,
    draw_workflows,
    told,
)
from crawlfleet.cli.shell.arguments import Pairs, ParameterSource, parse_parameters
from crawlfleet.cli.shell.batch_orders import order_each
from crawlfleet.cli.shell.command import CommandContext, add_fleet_command
from crawlfleet.cli.shell.errors import FAILED, say
from crawlfleet.cli.shell.output import message_console
from crawlfleet.cli.shell.waiting import PATIENCE_S, PAUSE_S, submitted
from crawlfleet.cli.shell.workflow_file import read_document
from crawlfleet.errors import MasterUnreachable, NotFound
from crawlfleet.features.workflows.model import RunStatus
from crawlfleet.features.workflows.views import LIVE, RunView

LOOK_EVERY_S: Final = 2.0
"""Seconds between two updates of the live line."""

Source = Annotated[
    str,
    typer.Argument(metavar="FILE|-", show_default=False, help="YAML or JSON; `-` reads input."),
]
Name = Annotated[str, typer.Argument(metavar="NAME|ID", show_default=False)]
RunId = Annotated[str, typer.Argument(metavar="RUN", show_default=False)]
RunIds = Annotated[list[str], typer.Argument(metavar="RUN…", show_default=False)]
Project = Annotated[str | None, typer.Option(help="Only those of this project.")]
Wait = Annotated[
    bool,
    typer.Option("--wait", help="Show progress until it has ended; exit 1 unless it completed."),
]
Key = Annotated[
    str | None,
    typer.Option("--idempotency-key", help="The same key gives the same run, for a week."),
]
CallbackUrl = Annotated[
    str | None,
    typer.Option(
        "--callback-url", metavar="URL", help="Who is told of it: :update and :complete are added."
    ),
]


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    group = typer.Typer(no_args_is_help=True, help="Run steps that depend on each other.")
    app.add_typer(group, name="workflows")
    add_fleet_command(
        group,
        "submit",
        submit,
        try_this=(
            "crawlfleet workflows submit shop.yaml --wait",
            "crawlfleet workflows submit shop.yaml -p url=https://shop.example/ --json",
        ),
    )
    add_fleet_command(
        group, "validate", validate, try_this=["crawlfleet workflows validate shop.yaml"]
    )
    add_fleet_command(group, "save", save, try_this=["crawlfleet workflows save shop.yaml"])
    add_fleet_command(
        group,
        "start",
        start,
        try_this=(
            "crawlfleet workflows start shop --wait",
            "crawlfleet workflows start shop --version 2 -p pages=10",
        ),
    )
    add_fleet_command(
        group, "list", list_workflows, try_this=["crawlfleet workflows list --project shop"]
    )
    add_fleet_command(
        group,
        "show",
        show,
        try_this=(
            "crawlfleet workflows show shop",
            "crawlfleet workflows show run-1m7g4xv0c0ph9v69ycjkfks15",
        ),
    )
    add_fleet_command(group, "versions", versions, try_this=["crawlfleet workflows versions shop"])
    add_fleet_command(
        group,
        "runs",
        runs,
        try_this=("crawlfleet workflows runs shop --status failed --limit 5",),
    )
    add_fleet_command(
        group,
        "cancel",
        cancel,
        try_this=["crawlfleet workflows cancel run-1m7g4xv0c0ph9v69ycjkfks15"],
    )
    add_fleet_command(
        group,
        "rerun",
        rerun,
        try_this=(
            "crawlfleet workflows rerun run-1m7g4xv0c0ph9v69ycjkfks15 --wait",
            "crawlfleet workflows rerun run-1m7g4xv0c0ph9v69ycjkfks15 --from parse",
        ),
    )
    add_fleet_command(
        group,
        "schema",
        schema,
        try_this=["crawlfleet workflows schema --json > workflow.schema.json"],
    )


async def submit(
    desk: CommandContext,
    source: Source,
    pairs: Pairs = None,
    parameters: ParameterSource = None,
    idempotency_key: Key = None,
    callback_url: CallbackUrl = None,
    wait: Wait = False,
) -> None:
    """Keep a workflow, and run it."""
    document = read_document(source)
    run = await desk.fleet.submit_workflow(
        document,
        parse_parameters(parameters, pairs),
        idempotency_key=idempotency_key,
        callback_url=callback_url,
    )
    await _show_started(desk, run, wait)


async def start(
    desk: CommandContext,
    name: Name,
    pairs: Pairs = None,
    parameters: ParameterSource = None,
    version: Annotated[
        int | None, typer.Option(min=1, help="Which version; the newest when not given.")
    ] = None,
    idempotency_key: Key = None,
    callback_url: CallbackUrl = None,
    wait: Wait = False,
) -> None:
    """Run a workflow that is kept."""
    run = await desk.fleet.start_workflow(
        await _found(desk, name),
        parse_parameters(parameters, pairs),
        version=version,
        idempotency_key=idempotency_key,
        callback_url=callback_url,
    )
    await _show_started(desk, run, wait)


async def validate(desk: CommandContext, source: Source) -> None:
    """Say what is wrong with a workflow; exits with 1 if something is."""
    found = await desk.fleet.validate_workflow(read_document(source))
    desk.output.show(found, lambda: draw_validation(found))
    if not found.valid:
        raise typer.Exit(FAILED)


async def save(desk: CommandContext, source: Source) -> None:
    """Keep a workflow without running it."""
    kept = await desk.fleet.save_workflow(read_document(source))
    desk.output.show(kept, lambda: draw_workflows([kept]))


async def list_workflows(desk: CommandContext, project: Project = None) -> None:
    """List workflows."""
    found = [each async for each in desk.fleet.workflows(project_id=project)]
    desk.output.show(found, lambda: draw_workflows(found))


async def show(
    desk: CommandContext,
    name: Annotated[str, typer.Argument(metavar="NAME|ID|RUN", show_default=False)],
    version: Annotated[
        int | None, typer.Option(min=1, help="Of a workflow; the newest when not given.")
    ] = None,
) -> None:
    """Show a workflow and its document, or a run and its steps."""
    if name.startswith("run-"):
        run = await desk.fleet.workflow_run(name)
        await _show_run(desk, run)
        return
    workflow = await desk.fleet.workflow(await _found(desk, name))
    document = await desk.fleet.workflow_document(workflow.id, version)
    desk.output.show(document, lambda: draw_version(workflow, document))


async def versions(desk: CommandContext, name: Name) -> None:
    """List the versions of a workflow, newest first."""
    found = [each async for each in desk.fleet.workflow_versions(await _found(desk, name))]
    desk.output.show(found, lambda: draw_versions(found))


async def runs(
    desk: CommandContext,
    name: Annotated[str | None, typer.Argument(metavar="[NAME|ID]", show_default=False)] = None,
    status: Annotated[RunStatus | None, typer.Option(help="Only those in this state.")] = None,
    project: Project = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many.")] = 20,
) -> None:
    """List runs, newest first."""
    workflow_id = None if name is None else await _found(desk, name)
    wanted = None if status is None else str(status)
    found = [
        each
        async for each in desk.fleet.runs(
            limit, project_id=project, workflow_id=workflow_id, status=wanted
        )
    ]
    desk.output.show(found, lambda: draw_runs(found))


async def cancel(desk: CommandContext, ids: RunIds) -> None:
    """Begin no more steps of runs, and stop those at work."""
    await order_each(desk, ids, desk.fleet.cancel_run, draw_runs)


async def rerun(
    desk: CommandContext,
    run_id: RunId,
    steps: Annotated[
        list[str] | None,
        typer.Option("--from", metavar="STEP", help="This step and all after it. May be repeated."),
    ] = None,
    wait: Wait = False,
) -> None:
    """Let a run that has ended go on from what failed, or from chosen steps."""
    await _show_started(desk, await desk.fleet.rerun(run_id, steps or ()), wait)


async def schema(desk: CommandContext) -> None:
    """Show the JSON schema of workflow documents, for editors."""
    from rich.json import JSON

    found = await desk.fleet.workflow_schema()
    desk.output.show(found, lambda: JSON.from_data(found))


async def _found(desk: CommandContext, name: str) -> str:
    """The id of a workflow that is named by its id or its name."""
    if name.startswith("flow-"):
        return name
    found = [each async for each in desk.fleet.workflows(2, name=name)]
    if not found:
        raise NotFound("workflow", name)
    if len(found) > 1:
        raise typer.BadParameter(
            f"there is {name!r} in several projects; name one by its id: "
            + ", ".join(each.id for each in found),
            param_hint="NAME",
        )
    return found[0].id


async def _show_started(desk: CommandContext, run: RunView, wait: bool) -> None:
    if not wait:
        desk.output.show(run, lambda: draw_run(run, ()))
        desk.output.remark(f"`crawlfleet workflows show {run.id}` tells how it goes")
        return
    with submitted([run.id], "workflows show"):
        ended = await _ended(desk, run.id)
    await _show_run(desk, ended)
    if ended.status != "completed":
        say(
            f"{ended.id} {ended.status}" + (f": {ended.error}" if ended.error else ""),
            f"`crawlfleet workflows rerun {ended.id}` goes on from what failed",
        )
        raise typer.Exit(FAILED)


async def _show_run(desk: CommandContext, run: RunView) -> None:
    steps = [each async for each in desk.fleet.run_steps(run.id)]
    desk.output.show({"run": run, "steps": steps}, lambda: draw_run(run, steps))


async def _ended(desk: CommandContext, run_id: str) -> RunView:
    """The run once it has ended, with a line that says how far it is meanwhile."""
    console = message_console()
    with console.status(run_id) as line:
        silent_since: float | None = None
        loop = asyncio.get_running_loop()
        while True:
            try:
                run = await desk.fleet.workflow_run(run_id, wait_s=LOOK_EVERY_S)
            except MasterUnreachable:
                silent_since = silent_since or loop.time()
                if loop.time() - silent_since > PATIENCE_S:
                    raise
                await asyncio.sleep(PAUSE_S)
                continue
            silent_since = None
            if run.status not in LIVE:
                return run
            line.update(f"{run.name} {run.status}: {told(run)}")
