"""`schedules`: work that begins by the clock."""

from typing import Annotated, Any

import typer

from crawlfleet.cli.commands.projects import given
from crawlfleet.cli.commands.schedule_display import (
    draw_backfill,
    draw_dues,
    draw_explanation,
    draw_firings,
    draw_schedule,
    draw_schedules,
)
from crawlfleet.cli.commands.schedule_options import (
    Coalesce,
    Cron,
    Description,
    End,
    Every,
    Grace,
    Jitter,
    MostInstances,
    Name,
    Names,
    Overlapping,
    Pairs,
    ParameterSource,
    Start,
    TaskCluster,
    TaskDedup,
    TaskPriority,
    TaskProject,
    TaskRetries,
    TaskSource,
    TaskTimeout,
    WorkflowName,
    WorkflowNumber,
    Zone,
    found_by,
)
from crawlfleet.cli.shell.arguments import (
    ExpectationSource,
    parse_expectations,
    parse_instant,
    parse_object,
    parse_parameters,
    parse_span,
)
from crawlfleet.cli.shell.batch_orders import order_each
from crawlfleet.cli.shell.command import CommandContext, add_fleet_command
from crawlfleet.features.schedules.views import ScheduleView


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    group = typer.Typer(no_args_is_help=True, help="Have work begin by the clock.")
    app.add_typer(group, name="schedules")
    add_fleet_command(
        group,
        "create",
        create,
        try_this=(
            "crawlfleet schedules create nightly sleep --cron '30 2 * * *' --zone Asia/Tokyo",
            "crawlfleet schedules create pulse http_fetch --every 15m -p url=https://example.org",
            "crawlfleet schedules create weekly --task @task.json --cron @weekly --overlap queue",
            "crawlfleet schedules create shops --workflow shop -p day=1 --every 6h",
        ),
    )
    add_fleet_command(
        group, "list", list_schedules, try_this=["crawlfleet schedules list --project shop"]
    )
    add_fleet_command(group, "show", show, try_this=["crawlfleet schedules show nightly --json"])
    add_fleet_command(
        group,
        "next",
        upcoming,
        try_this=(
            "crawlfleet schedules next nightly --count 3",
            "crawlfleet schedules next --cron '30 2 * * *' --zone Europe/Berlin",
        ),
    )
    add_fleet_command(
        group,
        "change",
        change,
        try_this=("crawlfleet schedules change nightly --cron '0 4 * * mon-fri' --overlap queue",),
    )
    add_fleet_command(group, "pause", pause, try_this=["crawlfleet schedules pause nightly"])
    add_fleet_command(group, "resume", resume, try_this=["crawlfleet schedules resume nightly"])
    add_fleet_command(group, "run", run, try_this=["crawlfleet schedules run nightly"])
    add_fleet_command(
        group,
        "backfill",
        backfill,
        try_this=(
            "crawlfleet schedules backfill nightly --since 2026-11-01 --until 2026-11-08 --dry-run",
            "crawlfleet schedules backfill nightly --since 7d",
        ),
    )
    add_fleet_command(
        group, "history", history, try_this=["crawlfleet schedules history nightly --limit 10"]
    )
    add_fleet_command(group, "explain", explain, try_this=["crawlfleet schedules explain nightly"])
    add_fleet_command(group, "remove", remove, try_this=["crawlfleet schedules remove nightly"])


async def create(
    desk: CommandContext,
    name: Annotated[str, typer.Argument(metavar="NAME", show_default=False)],
    task_type: Annotated[
        str | None, typer.Argument(metavar="[TYPE]", help="The kind of work, such as web_crawl.")
    ] = None,
    cron: Cron = None,
    every: Every = None,
    zone: Zone = None,
    start: Start = None,
    end: End = None,
    coalesce: Coalesce = None,
    grace: Grace = None,
    max_instances: MostInstances = None,
    overlap: Overlapping = None,
    jitter: Jitter = None,
    description: Description = None,
    paused: Annotated[bool, typer.Option("--paused", help="Do not let it begin yet.")] = False,
    task: TaskSource = None,
    pairs: Pairs = None,
    parameters: ParameterSource = None,
    expect: ExpectationSource = None,
    priority: TaskPriority = None,
    max_retries: TaskRetries = None,
    timeout: TaskTimeout = None,
    cluster: TaskCluster = None,
    project: TaskProject = None,
    dedup_key: TaskDedup = None,
    workflow: WorkflowName = None,
    version: WorkflowNumber = None,
) -> None:
    """Have a task submitted, or a workflow run, by the clock, again and again."""
    given_parameters = parse_parameters(parameters, pairs) or None
    template = _template(
        task,
        task_type=task_type,
        priority=priority,
        max_retries=max_retries,
        timeout=timeout,
        cluster_id=cluster,
        dedup_key=dedup_key,
        expectations=parse_expectations(expect),
    )
    call = _call(workflow, version, given_parameters, project)
    if call is not None and template:
        raise typer.BadParameter(
            f"cannot be combined with a task ({', '.join(template)}); its document says how its "
            "steps are done",
            param_hint="--workflow",
        )
    template |= given(parameters=given_parameters, project_id=project)
    if call is None and "task_type" not in template:
        raise typer.BadParameter(
            "name a task type, a whole --task, or a --workflow", param_hint="TYPE"
        )
    work: dict[str, Any] = {"task": template} if call is None else {"workflow": call}
    rule = _rule(cron, every, zone, start, end, coalesce, grace, max_instances, overlap, jitter)
    if description is not None:
        rule["description"] = description
    made = await desk.fleet.create_schedule(name, **work, paused=paused, **rule)
    desk.output.show(made, lambda: draw_schedule(made))


async def list_schedules(
    desk: CommandContext,
    project: Annotated[str | None, typer.Option(help="Only those of this project.")] = None,
) -> None:
    """List schedules: what they did last, and when they are due next."""
    found = [each async for each in desk.fleet.schedules(project_id=project)]
    desk.output.show(found, lambda: draw_schedules(found))


async def show(desk: CommandContext, name: Name) -> None:
    """Show a schedule, what it starts, and what it did last."""
    schedule = await desk.fleet.schedule(await found_by(desk, name))
    desk.output.show(schedule, lambda: draw_schedule(schedule))


async def upcoming(
    desk: CommandContext,
    name: Annotated[str | None, typer.Argument(metavar="[NAME|ID]", show_default=False)] = None,
    count: Annotated[int, typer.Option(min=1, max=1000, help="How many.")] = 10,
    after: Annotated[
        str | None, typer.Option(metavar="TIME", help="From this instant on; now when not given.")
    ] = None,
    cron: Cron = None,
    every: Every = None,
    zone: Zone = None,
    start: Start = None,
    end: End = None,
) -> None:
    """Show when a schedule is due next, or would be by --cron or --every."""
    begin = None if after is None else parse_instant(after, "--after")
    if name is not None and (cron or every):
        raise typer.BadParameter("cannot be combined with a name", param_hint="--cron")
    if name is not None:
        id = await found_by(desk, name)
        found = await desk.fleet.schedule_next(id, count=count, after=begin)
    else:
        rule = _rule(cron, every, zone, start, end)
        found = await desk.fleet.preview_schedule(count=count, after=begin, **rule)
    desk.output.show(found, lambda: draw_dues(found))


async def change(
    desk: CommandContext,
    name: Name,
    cron: Cron = None,
    every: Every = None,
    zone: Zone = None,
    start: Start = None,
    end: End = None,
    coalesce: Coalesce = None,
    grace: Grace = None,
    max_instances: MostInstances = None,
    overlap: Overlapping = None,
    jitter: Jitter = None,
    description: Description = None,
    task: TaskSource = None,
    workflow: WorkflowName = None,
    version: WorkflowNumber = None,
    pairs: Pairs = None,
    parameters: ParameterSource = None,
    if_version: Annotated[
        int | None, typer.Option("--if-version", help="Only if it is still in this version.")
    ] = None,
) -> None:
    """Change when a schedule is due, its whole --task or --workflow; what is not named stays."""
    fields = _rule(cron, every, zone, start, end, coalesce, grace, max_instances, overlap, jitter)
    if description is not None:
        fields["description"] = description
    if task is not None:
        fields["task"] = parse_object(task, "--task")
    call = _call(workflow, version, parse_parameters(parameters, pairs) or None)
    if call is not None:
        fields["workflow"] = call
    elif pairs or parameters:
        raise typer.BadParameter("belong to a --workflow here", param_hint="-p")
    id = await found_by(desk, name)
    changed = await desk.fleet.change_schedule(id, if_version=if_version, **fields)
    desk.output.show(changed, lambda: draw_schedule(changed))


async def pause(desk: CommandContext, names: Names) -> None:
    """Start nothing for schedules until they are resumed; what runs goes on."""

    async def order(name: str) -> ScheduleView:
        return await desk.fleet.pause_schedule(await found_by(desk, name))

    await order_each(desk, names, order, draw_schedules)


async def resume(desk: CommandContext, names: Names) -> None:
    """Let schedules go on; what was due during the pause is not made up for."""

    async def order(name: str) -> ScheduleView:
        return await desk.fleet.resume_schedule(await found_by(desk, name))

    await order_each(desk, names, order, draw_schedules)


async def remove(desk: CommandContext, names: Names) -> None:
    """Take schedules away; what they have started goes on."""

    async def order(name: str) -> ScheduleView | None:
        return await desk.fleet.remove_schedule(await found_by(desk, name))

    await order_each(desk, names, order, draw_schedules)


async def run(
    desk: CommandContext,
    name: Name,
    force: Annotated[
        bool, typer.Option("--force", help="Also when as many as may be are at work.")
    ] = False,
) -> None:
    """Start at once what a schedule starts, beside its rule."""
    fired = await desk.fleet.run_schedule(await found_by(desk, name), force=force)
    desk.output.show(fired, lambda: draw_firings([fired]))


async def backfill(
    desk: CommandContext,
    name: Name,
    since: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            show_default=False,
            help="From this instant on, or from so long ago: 2026-11-01, 7d.",
        ),
    ],
    until: Annotated[
        str, typer.Option(metavar="TIME", help="Before this instant, or so long ago.")
    ] = "now",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would be started.")
    ] = False,
) -> None:
    """Make up for due instants of a range that started nothing."""
    reply = await desk.fleet.backfill_schedule(
        await found_by(desk, name),
        parse_instant(since, "--since"),
        parse_instant(until, "--until"),
        dry_run=dry_run,
    )
    desk.output.show(reply, lambda: draw_backfill(reply))
    if dry_run:
        desk.output.remark("nothing was started; leave out --dry-run to do it")


async def history(
    desk: CommandContext,
    name: Name,
    limit: Annotated[int, typer.Option(min=1, help="At most so many.")] = 20,
) -> None:
    """Show what became of a schedule's due instants, newest first."""
    found = [each async for each in desk.fleet.schedule_history(await found_by(desk, name), limit)]
    desk.output.show(found, lambda: draw_firings(found))


async def explain(desk: CommandContext, name: Name) -> None:
    """Say why a schedule is (not) running."""
    found = await desk.fleet.explain_schedule(await found_by(desk, name))
    desk.output.show(found, lambda: draw_explanation(found))


def _rule(
    cron: str | None,
    every: str | None,
    zone: str | None,
    start: str | None,
    end: str | None,
    coalesce: bool | None = None,
    grace: str | None = None,
    max_instances: int | None = None,
    overlap: Any = None,
    jitter: str | None = None,
) -> dict[str, Any]:
    return given(
        cron=cron,
        every_s=None if every is None else parse_span(every, "--every"),
        time_zone=zone,
        start_at=None if start is None else parse_instant(start, "--start"),
        end_at=None if end is None else parse_instant(end, "--end"),
        coalesce=coalesce,
        misfire_grace_s=None if grace is None else parse_span(grace, "--grace"),
        max_instances=max_instances,
        overlap=None if overlap is None else str(overlap),
        jitter_s=None if jitter is None else parse_span(jitter, "--jitter"),
    )


def _call(
    name: str | None,
    version: int | None,
    parameters: dict[str, Any] | None,
    project: str | None = None,
) -> dict[str, Any] | None:
    if name is None and version is not None:
        raise typer.BadParameter("belongs to a --workflow", param_hint="--workflow-version")
    if name is None:
        return None
    return {"name": name, **given(version=version, parameters=parameters, project_id=project)}


def _template(source: str | None, **fields: Any) -> dict[str, Any]:
    whole = {} if source is None else parse_object(source, "--task")
    return {**whole, **given(**fields)}
