"""`webhooks`: the receivers of events, and the deliveries to them."""

from typing import Annotated

import typer

from crawlfleet.cli.commands.projects import given
from crawlfleet.cli.commands.webhook_display import (
    draw_deliveries,
    draw_delivery,
    draw_test,
    draw_webhook,
    draw_webhooks,
)
from crawlfleet.cli.shell.arguments import parse_span
from crawlfleet.cli.shell.batch_orders import order_each
from crawlfleet.cli.shell.command import CommandContext, add_fleet_command
from crawlfleet.cli.shell.errors import FAILED
from crawlfleet.cli.shell.output import cell
from crawlfleet.errors import Conflict, NotFound
from crawlfleet.features.webhooks.model import DeliveryStatus, Format
from crawlfleet.features.webhooks.views import NewWebhook, WebhookView
from crawlfleet.model.ids import WEBHOOK

Name = Annotated[str, typer.Argument(metavar="NAME|ID", show_default=False)]
Names = Annotated[list[str], typer.Argument(metavar="NAME|ID...", show_default=False)]
Kinds = Annotated[
    list[str] | None,
    typer.Option(
        "--kind", help="Only events whose kind begins so, such as task.failed. May be repeated."
    ),
]
Node = Annotated[str | None, typer.Option(help="Only what has to do with this node.")]
Type = Annotated[str | None, typer.Option("--type", help="Only tasks of this type.")]
Description = Annotated[str | None, typer.Option(help="What it is for.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    group = typer.Typer(
        no_args_is_help=True, help="Tell programs and people outside of what happens."
    )
    app.add_typer(group, name="webhooks")
    add_fleet_command(
        group,
        "create",
        create,
        try_this=(
            "crawlfleet webhooks create failures https://hooks.example/in --kind task.failed",
            "crawlfleet webhooks create engine https://flow.example/api/v1 --format workflow",
            "crawlfleet webhooks create callbacks --format callback --project shop",
            "crawlfleet webhooks create ops mailto:ops@example.org --kind alert.",
        ),
    )
    add_fleet_command(
        group, "list", list_webhooks, try_this=["crawlfleet webhooks list --project shop"]
    )
    add_fleet_command(group, "show", show, try_this=["crawlfleet webhooks show failures --json"])
    add_fleet_command(
        group,
        "change",
        change,
        try_this=["crawlfleet webhooks change failures --to https://hooks.example/new"],
    )
    add_fleet_command(group, "pause", pause, try_this=["crawlfleet webhooks pause failures"])
    add_fleet_command(group, "resume", resume, try_this=["crawlfleet webhooks resume failures"])
    add_fleet_command(group, "test", test, try_this=["crawlfleet webhooks test failures"])
    add_fleet_command(
        group, "rotate", rotate, try_this=["crawlfleet webhooks rotate failures --grace 1h"]
    )
    add_fleet_command(
        group,
        "deliveries",
        deliveries,
        try_this=(
            "crawlfleet webhooks deliveries failures --status dead",
            "crawlfleet webhooks deliveries failures --id dlv-01j…",
        ),
    )
    add_fleet_command(
        group,
        "resend",
        resend,
        try_this=(
            "crawlfleet webhooks resend failures --dead",
            "crawlfleet webhooks resend failures dlv-01j…",
        ),
    )
    add_fleet_command(group, "remove", remove, try_this=["crawlfleet webhooks remove failures"])


async def create(
    desk: CommandContext,
    name: Annotated[str, typer.Argument(metavar="NAME", show_default=False)],
    to: Annotated[
        str,
        typer.Argument(
            metavar="URL",
            show_default=False,
            help="https://… or mailto:…; for callback, where they may lead: anywhere without it.",
        ),
    ] = "",
    format: Annotated[
        Format | None,
        typer.Option(
            help="What is sent: events as JSON, call-backs to a workflow engine, those of tasks "
            "with a callback_url, or letters; letters to mailto:, else events, when not given."
        ),
    ] = None,
    project: Annotated[str | None, typer.Option(help="Only what belongs to this project.")] = None,
    kinds: Kinds = None,
    node: Node = None,
    type: Type = None,
    description: Description = None,
    paused: Annotated[bool, typer.Option("--paused", help="Do not let it begin yet.")] = False,
) -> None:
    """Have somebody told of what happens, and print the secret that deliveries are signed with.

    The secret is not shown again.
    """
    usual = Format.EMAIL if to.startswith("mailto:") else Format.EVENTS
    made = await desk.fleet.create_webhook(
        name,
        to,
        format=str(format or usual),
        paused=paused,
        **given(
            project_id=project,
            kinds=kinds or None,
            node_id=node,
            task_type=type,
            description=description,
        ),
    )
    _show_secret(desk, made)


async def list_webhooks(
    desk: CommandContext,
    project: Annotated[str | None, typer.Option(help="Only those of this project.")] = None,
) -> None:
    """List webhooks, in order of their making."""
    found = [each async for each in desk.fleet.webhooks(project_id=project)]
    desk.output.show(found, lambda: draw_webhooks(found))


async def show(desk: CommandContext, name: Name) -> None:
    """Show a webhook, and how its deliveries stand."""
    webhook = await desk.fleet.webhook(await found_by(desk, name))
    desk.output.show(webhook, lambda: draw_webhook(webhook))


async def change(
    desk: CommandContext,
    name: Name,
    to: Annotated[str | None, typer.Option("--to", metavar="URL", help="Where it leads.")] = None,
    kinds: Kinds = None,
    node: Node = None,
    type: Type = None,
    description: Description = None,
) -> None:
    """Change where a webhook leads, or what it is told; what is not named stays."""
    fields = given(
        url=to, kinds=kinds or None, node_id=node, task_type=type, description=description
    )
    changed = await desk.fleet.change_webhook(await found_by(desk, name), **fields)
    desk.output.show(changed, lambda: draw_webhook(changed))


async def pause(desk: CommandContext, names: Names) -> None:
    """Hold back what is for webhooks; what happens meanwhile is kept."""

    async def order(name: str) -> WebhookView:
        return await desk.fleet.pause_webhook(await found_by(desk, name))

    await order_each(desk, names, order, draw_webhooks)


async def resume(desk: CommandContext, names: Names) -> None:
    """Let webhooks go on: what was kept is sent."""

    async def order(name: str) -> WebhookView:
        return await desk.fleet.resume_webhook(await found_by(desk, name))

    await order_each(desk, names, order, draw_webhooks)


async def remove(desk: CommandContext, names: Names) -> None:
    """Take webhooks away; what waits for them is given up."""

    async def order(name: str) -> WebhookView | None:
        return await desk.fleet.remove_webhook(await found_by(desk, name))

    await order_each(desk, names, order, draw_webhooks)


async def test(desk: CommandContext, name: Name) -> None:
    """Send a webhook a message at once; exits with 1 if it does not arrive."""
    tried = await desk.fleet.test_webhook(await found_by(desk, name))
    desk.output.show(tried, lambda: draw_test(tried))
    if not tried.delivered:
        raise typer.Exit(FAILED)


async def rotate(
    desk: CommandContext,
    name: Name,
    grace: Annotated[
        str, typer.Option(metavar="TIME", help="Sign with the old secret, too, for so long.")
    ] = "24h",
) -> None:
    """Give a webhook a new secret, and print that: it is not shown again."""
    id = await found_by(desk, name)
    made = await desk.fleet.rotate_webhook(id, grace_s=parse_span(grace, "--grace"))
    _show_secret(desk, made)


async def deliveries(
    desk: CommandContext,
    name: Name,
    status: Annotated[DeliveryStatus | None, typer.Option(help="Only those in this state.")] = None,
    id: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="This one, with what is sent.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many.")] = 20,
) -> None:
    """Show what became of a webhook's deliveries, the newest event first."""
    webhook_id = await found_by(desk, name)
    if id is not None:
        one = await desk.fleet.delivery(webhook_id, id)
        desk.output.show(one, lambda: draw_delivery(one))
        return
    wanted = None if status is None else str(status)
    found = [each async for each in desk.fleet.deliveries(webhook_id, limit, status=wanted)]
    desk.output.show(found, lambda: draw_deliveries(found))


async def resend(
    desk: CommandContext,
    name: Name,
    ids: Annotated[list[str] | None, typer.Argument(metavar="[ID]...", show_default=False)] = None,
    dead: Annotated[bool, typer.Option("--dead", help="All that were given up.")] = False,
) -> None:
    """Send deliveries once more, under the same ids."""
    if bool(ids) == dead:
        raise typer.BadParameter("name deliveries, or say --dead", param_hint="ID")
    webhook_id = await found_by(desk, name)
    reply = await desk.fleet.resend_deliveries(webhook_id, ids or None)
    desk.output.show(
        reply, lambda: cell(f"{reply.resent} are sent again, {reply.unchanged} wait already")
    )
    if reply.more:
        desk.output.remark("there are more that were given up; say it again")
    if reply.unknown:
        desk.output.remark(f"not known: {', '.join(reply.unknown)}")
        raise typer.Exit(FAILED)


async def found_by(desk: CommandContext, name: str) -> str:
    """The id of the webhook that is meant by a name, or by its id."""
    if name.startswith(f"{WEBHOOK}-"):
        return name
    found = [each async for each in desk.fleet.webhooks(name=name)]
    if not found:
        raise NotFound("webhook", name)
    if len(found) > 1:
        which = ", ".join(f"{each.id} (project {each.project_id or 'all'})" for each in found)
        raise Conflict(f"{name!r} is the name of several webhooks: {which}; use the id")
    return found[0].id


def _show_secret(desk: CommandContext, made: NewWebhook) -> None:
    webhook = made.webhook
    if not made.secret:
        desk.output.show(made, lambda: draw_webhook(webhook))
        desk.output.remark("it was there before; `webhooks rotate` gives it a new secret")
        return
    desk.output.show(made, lambda: cell(made.secret))
    desk.output.remark(f"{webhook.id} ({webhook.name}): keep it safe, it is not shown again")
