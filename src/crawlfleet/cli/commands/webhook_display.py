"""Draws webhooks and their deliveries."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table

from crawlfleet.cli.shell.output import cell, facts, heading, moment, since, state, table, tree
from crawlfleet.features.webhooks.views import (
    DeliveryDetails,
    DeliveryView,
    WebhookDetails,
    WebhookTest,
    WebhookView,
)


def draw_webhooks(webhooks: Sequence[WebhookView]) -> Table:
    """Webhooks, one a line."""
    return table(
        ("id", "name", "status", "project", "format", "kinds", "url"),
        (
            [
                cell(each.id),
                cell(each.name),
                state("full" if each.is_full else each.status),
                cell(each.project_id),
                cell(each.format),
                cell(", ".join(each.kinds) or "all"),
                cell(each.url),
            ]
            for each in webhooks
        ),
        flexible=("name", "kinds"),
    )


def draw_webhook(webhook: WebhookView) -> RenderableType:
    """Draw all facts about a webhook."""
    known: list[tuple[str, RenderableType | None]] = [
        ("id", cell(webhook.id)),
        ("name", cell(webhook.name)),
        ("status", state(webhook.status)),
        ("full", cell("nothing more is kept for it until it is resumed", "red"))
        if webhook.is_full
        else ("full", None),
        ("why", cell(webhook.cause)),
        ("project", cell(webhook.project_id or "all")),
        ("url", cell(webhook.url or "that of each task or run")),
        ("format", cell(webhook.format)),
        ("kinds", cell(", ".join(webhook.kinds) or "all")),
        ("node", cell(webhook.node_id) if webhook.node_id else None),
        ("task type", cell(webhook.task_type) if webhook.task_type else None),
        ("description", cell(webhook.description, lines=True) if webhook.description else None),
        ("made", moment(webhook.created_at)),
        ("version", cell(webhook.version)),
    ]
    if isinstance(webhook, WebhookDetails):
        known += [
            ("waiting", cell(webhook.waiting)),
            ("delivered", cell(webhook.delivered)),
            ("dead", cell(webhook.dead, "red" if webhook.dead else "")),
            ("superseded", cell(webhook.superseded) if webhook.superseded else None),
        ]
    return facts(known)


def draw_deliveries(deliveries: Sequence[DeliveryView]) -> Table:
    """Deliveries, one a line."""
    return table(
        ("id", "kind", "subject", "status", "attempts", "age", "answer", "error"),
        (
            [
                cell(each.id),
                cell(each.kind),
                cell(each.subject),
                state(each.status),
                cell(each.attempts),
                since(each.created_at),
                cell(each.last_status or None),
                cell(each.last_error),
            ]
            for each in deliveries
        ),
    )


def draw_delivery(delivery: DeliveryDetails) -> RenderableType:
    """A delivery, with what is sent."""
    known = facts(
        [
            ("id", cell(delivery.id)),
            ("event", cell(f"{delivery.kind} (number {delivery.seq})")),
            ("about", cell(delivery.subject)),
            ("status", state(delivery.status)),
            ("attempts", cell(delivery.attempts)),
            ("last", moment(delivery.last_at) if delivery.last_at else None),
            ("answer", cell(delivery.last_status) if delivery.last_status else None),
            ("error", cell(delivery.last_error) if delivery.last_error else None),
            ("next", moment(delivery.due_at) if delivery.due_at else None),
            ("settled", moment(delivery.settled_at) if delivery.settled_at else None),
            ("to", cell(delivery.url) if delivery.url else None),
            ("path", cell(delivery.path) if delivery.path else None),
        ]
    )
    return Group(known, heading("what is sent"), tree(delivery.body))


def draw_test(tried: WebhookTest) -> RenderableType:
    """Draw the result of a test message to a webhook."""
    return facts(
        [
            ("delivered", cell("yes", "green") if tried.delivered else cell("no", "red")),
            ("answer", cell(tried.status) if tried.status else None),
            ("error", cell(tried.error) if tried.error else None),
            ("took", cell(f"{tried.elapsed_s:.3f} s")),
        ]
    )
