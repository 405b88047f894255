"""/api/v1/webhooks: receivers of events, and their deliveries."""

from http import HTTPStatus
from typing import Final, Literal

import msgspec

from crawlfleet.api.examples import webhooks as examples
from crawlfleet.api.http.etags import tagged, wanted_version
from crawlfleet.api.http.parameters import PageSize, check_id, check_name_cursor, invalid, is_id
from crawlfleet.api.http.routing import (
    NOT_KEPT,
    OPERATORS,
    READERS,
    Call,
    Example,
    Handler,
    Reply,
    Route,
    Scope,
)
from crawlfleet.features.webhooks.model import DeliveryStatus, Webhook, WebhookStatus
from crawlfleet.features.webhooks.service import Webhooks
from crawlfleet.features.webhooks.views import (
    DeliveryDetails,
    DeliveryPage,
    DeliveryView,
    NewWebhook,
    ResendReply,
    ResendRequest,
    WebhookDetails,
    WebhookPage,
    WebhookPatch,
    WebhookRequest,
    WebhookRotation,
    WebhookTest,
    WebhookView,
)

Status = Literal["waiting", "delivered", "dead", "superseded"]


class WebhookQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Filters, and which page."""

    project_id: str | None = None
    """List only webhooks of this project."""
    name: str | None = None
    """List only the webhook with this name."""
    cursor: str | None = None
    """The `next_cursor` of the previous page."""
    limit: PageSize = 100
    """Maximum number of webhooks in the page."""


class DeliveryQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    status: Status | msgspec.UnsetType = msgspec.UNSET
    """List only deliveries in this state."""
    cursor: str | None = None
    """The `next_cursor` of the previous page."""
    limit: PageSize = 100
    """Maximum number of deliveries in the page."""


async def find(call: Call) -> WebhookPage:
    query: WebhookQuery = call.query
    after = check_name_cursor(query.cursor)
    own = call.project_id
    if own is not None and query.project_id not in (None, own):
        return WebhookPage(items=[], next_cursor=None)
    found = await call.service(Webhooks).page(
        after=after,
        limit=query.limit + 1,
        project_id=query.project_id if own is None else own,
        name=query.name,
    )
    page = found[: query.limit]
    return WebhookPage(
        items=[WebhookView.of(each) for each in page],
        next_cursor=page[-1].id if len(found) > len(page) else None,
    )


async def create(call: Call) -> Reply:
    request: WebhookRequest = call.body
    own = call.project_id
    if own is not None and request.project_id not in (None, own):
        raise invalid(
            "project_id",
            "is not the project of your key",
            f"leave it out, or say {own!r}",
            request.project_id,
        )
    if own is not None:
        request = msgspec.structs.replace(request, project_id=own)
    webhook, secret = await call.service(Webhooks).create(request, by=call.caller.name)
    return Reply(
        body=NewWebhook(webhook=WebhookView.of(webhook), secret=secret),
        status=HTTPStatus.CREATED if secret else HTTPStatus.OK,
        headers={"Location": f"/api/v1/webhooks/{webhook.id}", **NOT_KEPT},
    )


async def get(call: Call) -> Reply:
    webhook = await call.service(Webhooks).get(_id(call))
    counts = await call.service(Webhooks).counts(webhook.id)
    return tagged(call, WebhookDetails.with_counts(webhook, counts), webhook.version, volatile=True)


async def change(call: Call) -> Reply:
    webhook = await call.service(Webhooks).change(
        _id(call), call.body, by=call.caller.name, if_version=wanted_version(call)
    )
    return _reply(call, webhook)


def _move(status: WebhookStatus) -> Handler:
    async def handle(call: Call) -> Reply:
        webhook = await call.service(Webhooks).move(
            _id(call), status, by=call.caller.name, if_version=wanted_version(call)
        )
        return _reply(call, webhook)

    return handle


async def rotate(call: Call) -> Reply:
    webhook, secret = await call.service(Webhooks).rotate(
        _id(call), grace_s=call.body.grace_s, by=call.caller.name
    )
    return Reply(body=NewWebhook(webhook=WebhookView.of(webhook), secret=secret), headers=NOT_KEPT)


async def remove(call: Call) -> Reply:
    webhook = await call.service(Webhooks).remove(
        _id(call), by=call.caller.name, if_version=wanted_version(call)
    )
    return _reply(call, webhook)


async def test(call: Call) -> WebhookTest:
    sent = await call.service(Webhooks).test(_id(call), by=call.caller.name)
    return WebhookTest(
        delivered=sent.delivered, status=sent.status, error=sent.error, elapsed_s=sent.elapsed_s
    )


async def list_deliveries(call: Call) -> DeliveryPage:
    query: DeliveryQuery = call.query
    after = check_name_cursor(query.cursor)
    status = None if query.status is msgspec.UNSET else DeliveryStatus(query.status)
    found = await call.service(Webhooks).deliveries(
        _id(call), status, after=after, limit=query.limit + 1
    )
    page = found[: query.limit]
    return DeliveryPage(
        items=[DeliveryView.of(each) for each in page],
        next_cursor=page[-1].id if len(found) > len(page) else None,
    )


async def get_delivery(call: Call) -> DeliveryDetails:
    delivery_id = check_id("delivery", call.path["delivery_id"])
    return DeliveryDetails.of(await call.service(Webhooks).delivery(_id(call), delivery_id))


async def resend(call: Call) -> ResendReply:
    request: ResendRequest = call.body
    for id in request.ids:
        if not is_id(id):
            raise invalid("ids", "has what is no id", "send ids of deliveries", id[:80])
    return await call.service(Webhooks).resend(_id(call), request.ids, by=call.caller.name)


def _id(call: Call) -> str:
    return check_id("webhook", call.path["webhook_id"])


def _reply(call: Call, webhook: Webhook) -> Reply:
    return tagged(call, WebhookView.of(webhook), webhook.version)


_WEBHOOK: Final = "/api/v1/webhooks/{webhook_id}"

ROUTES: Final = (
    Route(
        name="list_webhooks",
        method="GET",
        path="/api/v1/webhooks",
        roles=READERS,
        scope=Scope.OWN,
        handler=find,
        client='webhooks(name="engine")',
        command="webhooks list",
        summary="List webhooks, in order of their making",
        details="Never their secrets.",
        query=WebhookQuery,
        response=WebhookPage,
        example=Example(response=examples.WEBHOOKS),
    ),
    Route(
        name="create_webhook",
        method="POST",
        path="/api/v1/webhooks",
        roles=OPERATORS,
        scope=Scope.OWN,
        handler=create,
        client='create_webhook("engine", "https://flow.example/in", kinds=["task."])',
        command="webhooks create",
        summary="Have somebody told of what happens",
        details="`name` is yours to choose, and unique within the project; `url` is where "
        "deliveries go. `format` is `events`, `workflow`, `email`, or `callback` for tasks and "
        "runs with a `callback_url`: then `url` is where those must lead, and may be left out; "
        "`project_id`, `kinds`, `node_id` and `task_type` choose what is told. `description` is "
        "for people; `paused` makes it without letting it begin. Answers 201 with `Location` "
        "and the `secret` that deliveries are signed with, which is in this answer and nowhere "
        "else; or 200 without it when the same webhook was there before. A key of one project "
        "makes webhooks of that project.",
        body=WebhookRequest,
        response=NewWebhook,
        statuses=(HTTPStatus.CREATED, HTTPStatus.OK),
        conflicts=True,
        example=Example(request=examples.WEBHOOK_REQUEST, response=examples.NEW_WEBHOOK),
    ),
    Route(
        name="get_webhook",
        method="GET",
        path=_WEBHOOK,
        roles=READERS,
        scope=Scope.PATH,
        handler=get,
        client="webhook(webhook_id)",
        command="webhooks show",
        summary="A webhook, and how its deliveries stand",
        response=WebhookDetails,
        etag=True,
        example=Example(response=examples.DETAILS),
    ),
    Route(
        name="change_webhook",
        method="PATCH",
        path=_WEBHOOK,
        roles=OPERATORS,
        scope=Scope.PATH,
        handler=change,
        client="change_webhook(webhook_id, kinds=[], if_version=2)",
        command="webhooks change",
        summary="Change where a webhook leads, or what it is told",
        details="The fields are those of [a new webhook](#post-apiv1webhooks). "
        "`url`, `kinds`, `node_id`, `task_type`, `description`. What is left out stays "
        "as it is. What waits goes to the new URL, too.",
        body=WebhookPatch,
        response=WebhookView,
        conflicts=True,
        etag=True,
        example=Example(request=examples.WEBHOOK_PATCH, response=examples.WEBHOOK),
    ),
    Route(
        name="pause_webhook",
        method="POST",
        path=f"{_WEBHOOK}:pause",
        roles=OPERATORS,
        scope=Scope.PATH,
        handler=_move(WebhookStatus.PAUSED),
        client="pause_webhook(webhook_id)",
        command="webhooks pause",
        summary="Hold back what is for a webhook",
        details="What happens meanwhile is kept, up to `webhooks.most_waiting` deliveries.",
        response=WebhookView,
        conflicts=True,
        etag=True,
    ),
    Route(
        name="resume_webhook",
        method="POST",
        path=f"{_WEBHOOK}:resume",
        roles=OPERATORS,
        scope=Scope.PATH,
        handler=_move(WebhookStatus.ACTIVE),
        client="resume_webhook(webhook_id)",
        command="webhooks resume",
        summary="Let a webhook go on",
        details="What was kept is sent. One that was full is told again of what happens from "
        "now on.",
        response=WebhookView,
        conflicts=True,
        etag=True,
    ),
    Route(
        name="rotate_webhook",
        method="POST",
        path=f"{_WEBHOOK}:rotate",
        roles=OPERATORS,
        scope=Scope.PATH,
        handler=rotate,
        client="rotate_webhook(webhook_id, grace_s=60)",
        command="webhooks rotate",
        summary="Give a webhook a new secret",
        details="For `grace_s` more seconds deliveries have two signatures, that of the old "
        "secret being the second.",
        body=WebhookRotation,
        response=NewWebhook,
        conflicts=True,
        example=Example(request=examples.ROTATION, response=examples.NEW_WEBHOOK),
    ),
    Route(
        name="test_webhook",
        method="POST",
        path=f"{_WEBHOOK}:test",
        roles=OPERATORS,
        scope=Scope.PATH,
        handler=test,
        client="test_webhook(webhook_id)",
        command="webhooks test",
        summary="Send a webhook a message at once",
        details="Once, beside what waits for it, also while it is paused. A receiver that "
        "fails is an answer, too.",
        response=WebhookTest,
        example=Example(response=examples.TEST),
    ),
    Route(
        name="resend_deliveries",
        method="POST",
        path=f"{_WEBHOOK}:resend",
        roles=OPERATORS,
        scope=Scope.PATH,
        handler=resend,
        client="resend_deliveries(webhook_id, [delivery_id])",
        command="webhooks resend",
        summary="Send deliveries once more",
        details="`ids` names them. Under the same ids, with fresh counters: those that are "
        "named, or up to 1,000 of those that were given up, the oldest first.",
        body=ResendRequest,
        response=ResendReply,
        conflicts=True,
        example=Example(request=examples.RESEND, response=examples.RESENT),
    ),
    Route(
        name="remove_webhook",
        method="POST",
        path=f"{_WEBHOOK}:remove",
        roles=OPERATORS,
        scope=Scope.PATH,
        handler=remove,
        client="remove_webhook(webhook_id)",
        command="webhooks remove",
        summary="Take a webhook away",
        details="What waits for it is given up; its name is free.",
        response=WebhookView,
        conflicts=True,
        etag=True,
    ),
    Route(
        name="list_deliveries",
        method="GET",
        path=f"{_WEBHOOK}/deliveries",
        roles=READERS,
        scope=Scope.PATH,
        handler=list_deliveries,
        client='deliveries(webhook_id, status="dead")',
        command="webhooks deliveries",
        summary="What became of a webhook's deliveries, the newest event first",
        query=DeliveryQuery,
        response=DeliveryPage,
        example=Example(response=examples.DELIVERIES),
    ),
    Route(
        name="get_delivery",
        method="GET",
        path=f"{_WEBHOOK}/deliveries/{{delivery_id}}",
        roles=READERS,
        scope=Scope.PATH,
        handler=get_delivery,
        client="delivery(webhook_id, delivery_id)",
        command="webhooks deliveries",
        summary="A delivery, with what is sent",
        response=DeliveryDetails,
        example=Example(response=examples.DELIVERY_DETAILS),
    ),
)
