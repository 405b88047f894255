"""Validation of webhooks, the changes to them, and the choice of the events that each receives."""

import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

import msgspec
from msgspec import UNSET

from crawlfleet.core.text.names import NAME, description_problems, is_event_kind, name_problems
from crawlfleet.errors import FieldProblem
from crawlfleet.features.webhooks.model import Format, Webhook, WebhookStatus
from crawlfleet.features.webhooks.views import WebhookPatch, WebhookRequest
from crawlfleet.model.change import NEVER, Change, Claim
from crawlfleet.model.event import Event
from crawlfleet.model.task import Task
from crawlfleet.ports.sender import recipients

MAX_URL: Final = 2000
MAX_KINDS: Final = 50
MAX_RECIPIENTS: Final = 20
ADDRESS: Final = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]+@[A-Za-z0-9.-]+\Z")
UNHEARD: Final = ("delivery.", "webhook.")
"""Prefixes of the kinds of events about deliveries and webhooks: no webhook receives them, since a
failing delivery would cause another one without end."""
TASK: Final = "task."
FLEET: Final = ""
OF_TASKS: Final = frozenset({Format.WORKFLOW, Format.CALLBACK})


def name_scope(project_id: str | None) -> str:
    """Return the claim scope in which webhook names of a project, or of the fleet, are unique."""
    return f"webhook:{project_id or FLEET}"


def problems_of(
    wanted: WebhookRequest | Webhook, *, allow_private: bool = False
) -> Iterator[FieldProblem]:
    """Yield the problems of a webhook; `allow_private` says if call-backs may lead to private
    addresses."""
    url = wanted.url
    yield from name_problems(wanted.name)
    yield from description_problems(wanted.description)
    for field in ("project_id", "node_id", "task_type"):
        given = getattr(wanted, field)
        if given is not None and not NAME.match(given):
            yield FieldProblem(
                field=field,
                value=given[:80],
                message="cannot be an id or a name",
                remedy="send what a list shows, or leave it out",
            )
    yield from _kind_problems(tuple(wanted.kinds), wanted.format)
    yield from _callback_problems(wanted)
    if wanted.format is Format.CALLBACK and not url:
        if allow_private:
            # Else whoever submits a task could have us call any machine of the network.
            yield FieldProblem(
                field="url",
                message="is needed for call-backs while `webhooks.allow_private` is set",
                remedy="say below which address they may lead, such as http://flow.internal/api",
            )
        return
    problem = _mail_problem(url) if wanted.format is Format.EMAIL else web_problem(url)
    if problem is not None:
        message, remedy = problem
        yield FieldProblem(field="url", value=url[:200], message=message, remedy=remedy)


def _callback_problems(wanted: WebhookRequest | Webhook) -> Iterator[FieldProblem]:
    if wanted.format is not Format.CALLBACK:
        return
    for field in ("kinds", "node_id", "task_type"):
        if getattr(wanted, field):
            yield FieldProblem(
                field=field,
                value=str(getattr(wanted, field))[:80],
                message="chooses among events, and call-backs are chosen by the tasks",
                remedy="leave it out; who wants to hear of a task submits it with a callback_url",
            )
    if wanted.url and ("?" in wanted.url):
        yield FieldProblem(
            field="url",
            value=wanted.url[:200],
            message="has a query, and says where call-backs may lead",
            remedy="leave out what follows the ?",
        )


def _kind_problems(kinds: tuple[str, ...], format: Format) -> Iterator[FieldProblem]:
    if len(kinds) > MAX_KINDS:
        yield FieldProblem(
            field="kinds", message="has too many entries", remedy=f"name {MAX_KINDS} at most"
        )
    for number, kind in enumerate(kinds[:MAX_KINDS]):
        if not is_event_kind(kind):
            yield FieldProblem(
                field=f"kinds.{number}",
                value=kind[:80],
                message="is not how a kind of events begins",
                remedy="use such as `task.failed`, `task.` or `node.unresponsive`; "
                "`crawlfleet events` shows them",
            )
        elif any(kind.startswith(each) for each in UNHEARD):
            yield FieldProblem(
                field=f"kinds.{number}",
                value=kind,
                message="is about webhooks themselves, of which no webhook is told",
                remedy="leave it out; an alert can watch `delivery.dead`",
            )
        elif format is Format.WORKFLOW and not kind.startswith(TASK):
            yield FieldProblem(
                field=f"kinds.{number}",
                value=kind,
                message="is not about tasks, and a workflow engine hears of nothing else",
                remedy="leave `kinds` out, or use the format `events`",
            )


def web_problem(url: str) -> tuple[str, str] | None:
    """Return the problem of a URL for deliveries over HTTP, and its remedy; `None` if it is
    fine."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname)
        parts.port  # noqa: B018 (raises for one that is no number)
    except ValueError:
        usable = False
    if not usable or not url.isascii() or not url.isprintable() or " " in url:
        return "is not a web address", "begin it with https://, such as https://hooks.example/in"
    if parts.username or parts.password:
        return (
            "has a name or a password in it",
            "leave them out: deliveries are signed, and the receiver checks the signature",
        )
    if parts.fragment:
        return "has a fragment", "leave out what follows the #"
    if len(url) > MAX_URL:
        return "is too long", f"use at most {MAX_URL} characters"
    return None


def _mail_problem(url: str) -> tuple[str, str] | None:
    addresses = recipients(url)
    usable = url.startswith("mailto:") and url.isprintable() and " " not in url
    if not usable or not all(map(ADDRESS.match, addresses)):
        return "is not where letters go", "use such as mailto:ops@example.org,ann@example.org"
    if len(addresses) > MAX_RECIPIENTS:
        return "names too many people", f"name {MAX_RECIPIENTS} at most, or a mailing list"
    return None


def new_webhook(request: WebhookRequest, *, id: str, secret: str, now: float, cause: str) -> Change:
    """Return the change that creates a webhook and claims its name."""
    made = Webhook(
        id=id,
        name=request.name,
        project_id=request.project_id,
        created_at=now,
        updated_at=now,
        status=WebhookStatus.PAUSED if request.paused else WebhookStatus.ACTIVE,
        url=request.url,
        format=request.format,
        kinds=tuple(request.kinds),
        node_id=request.node_id,
        task_type=request.task_type,
        description=request.description,
        cause=cause,
        secret=secret,
    )
    return Change(
        rows=(made,),
        claims=(_claim(made, now, NEVER),),
        events=(event_of("created", made, now, cause),),
    )


def patched(webhook: Webhook, patch: WebhookPatch) -> Webhook:
    """Return the webhook with the patch applied."""
    fields = {
        name: tuple(value) if name == "kinds" else value
        for name, value in msgspec.structs.asdict(patch).items()
        if value is not UNSET
    }
    return msgspec.structs.replace(webhook, **fields)


def changed_webhook(
    before: Webhook, after: Webhook, *, what: str, now: float, cause: str
) -> Change | None:
    """Return the change that replaces a webhook by its new version; `None` when they are equal."""
    if before == after:
        return None
    made = msgspec.structs.replace(after, updated_at=now, version=before.version + 1, cause=cause)
    return Change(rows=(made,), events=(event_of(what, made, now, cause),))


def rotated_webhook(
    webhook: Webhook, *, secret: str, grace_s: float, now: float, cause: str
) -> Change:
    """Return the change that gives a webhook a new secret; the old one also signs for `grace_s`."""
    made = msgspec.structs.replace(
        webhook,
        secret=secret,
        old_secret=webhook.secret if grace_s else "",
        old_until=now + grace_s,
        updated_at=now,
        cause=cause,
        version=webhook.version + 1,
    )
    return Change(rows=(made,), events=(event_of("rotated", made, now, cause),))


def removed_webhook(webhook: Webhook, *, now: float, cause: str) -> Change:
    """Return the change that removes a webhook, frees its name and deletes its secrets."""
    made = msgspec.structs.replace(
        webhook,
        removed_at=now,
        updated_at=now,
        cause=cause,
        secret="",
        old_secret="",
        version=webhook.version + 1,
    )
    return Change(
        rows=(made,),
        claims=(_claim(made, now, now),),
        events=(event_of("removed", made, now, cause),),
    )


def event_of(what: str, webhook: Webhook, now: float, cause: str) -> Event:
    """Return the event about a change of a webhook."""
    return Event(
        kind=f"webhook.{what}",
        subject=webhook.id,
        at=now,
        cause=cause,
        details={"name": webhook.name},
        project_id=webhook.project_id,
    )


def _claim(webhook: Webhook, now: float, expires_at: float) -> Claim:
    return Claim(
        scope=name_scope(webhook.project_id),
        key=webhook.name,
        holder=webhook.id,
        at=now,
        expires_at=expires_at,
    )


def essence(webhook: Webhook) -> tuple[object, ...]:
    """Return the requested fields of a webhook; two webhooks of one name are the same request if
    equal."""
    return (
        webhook.project_id,
        webhook.name,
        webhook.url,
        webhook.format,
        webhook.kinds,
        webhook.node_id,
        webhook.task_type,
        webhook.description,
    )


def may_want(webhook: Webhook, event: Event) -> bool:
    """Return true if a webhook may want an event, as far as the event alone shows."""
    if not webhook.is_heard or event.at < webhook.created_at:
        return False
    if event.kind.startswith(UNHEARD):
        return False
    if webhook.format is Format.CALLBACK:
        # A part of a task is nothing that anybody asked for: its whole is told of.
        return event.details.get("callback") == webhook.id and "parent_id" not in event.details
    if webhook.project_id is not None and event.project_id != webhook.project_id:
        return False
    if webhook.kinds and not event.kind.startswith(webhook.kinds):
        return False
    if webhook.node_id is not None and webhook.node_id not in (
        event.subject,
        event.details.get("node_id"),
    ):
        return False
    of_task = event.kind.startswith(TASK)
    if webhook.format is Format.WORKFLOW:
        # A part of a task is no task of the engine's: it hears of the whole.
        return of_task and event.to_state is not None and "parent_id" not in event.details
    return webhook.task_type is None or of_task


def asks_for_task(webhook: Webhook) -> bool:
    """Return true if the task must be read to decide if the webhook wants an event."""
    return webhook.format in OF_TASKS or webhook.task_type is not None


def wants(webhook: Webhook, task: Task | None) -> bool:
    """Return true if a webhook wants an event about this task; call `may_want` first."""
    if not asks_for_task(webhook):
        return True
    if task is None:
        return False
    if webhook.format is Format.CALLBACK:
        return task.callback is not None and task.callback.webhook_id == webhook.id
    if webhook.format is Format.WORKFLOW and (task.workflow_id is None or task.step is not None):
        # A step's `workflow_id` is a run of this fleet, of which no engine outside knows.
        return False
    return webhook.task_type in (None, task.task_type)
