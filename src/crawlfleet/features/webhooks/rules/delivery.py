"""The content of deliveries, and their retries.

The body is made once, when the delivery is made, and is the same however often it is sent. An
answer of 2xx settles a delivery; after any other it is tried again, with growing waits, until it is
given up.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote

import msgspec

from crawlfleet.core.tasks.recovery import delay_s
from crawlfleet.features.webhooks.model import (
    Delivery,
    DeliveryStatus,
    Format,
    Webhook,
    delivery_id,
)
from crawlfleet.features.webhooks.rules import callbacks
from crawlfleet.features.webhooks.rules.letters import letter_of
from crawlfleet.features.webhooks.rules.signing import signature
from crawlfleet.features.workflows.model import Run, RunStep
from crawlfleet.model.change import Change
from crawlfleet.model.event import Event
from crawlfleet.model.task import PROGRESSED, TERMINAL, RetryPolicy, Task, TaskStatus
from crawlfleet.ports.sender import OutgoingMessage, SendResult

MAX_BODY_BYTES: Final = 65_536
"""Maximum size of a body; a result that makes it larger is left out, and the receiver can read the
task."""
MAX_ERROR: Final = 500
WHEN: Final = "%Y-%m-%dT%H:%M:%S.%fZ"
ENDS: Final = frozenset(map(str, TERMINAL))
RESTS_FROM: Final = 5
MAX_REST_S: Final = 60.0


def delivery_of(
    webhook: Webhook,
    event: Event,
    task: Task | None,
    *,
    now: float,
    run: tuple[Run, Sequence[RunStep]] | None = None,
) -> Delivery:
    """Return the delivery of an event to a webhook that wants it; `task` or `run` is the event's
    subject."""
    id = delivery_id(webhook.id, event.seq)
    path, url = "", ""
    if webhook.format is Format.CALLBACK:
        path = callbacks.verb_of(event)
        if run is not None:
            told = callbacks.told_of_run(event, *run)
            body = msgspec.json.encode({"id": id, "at": _instant(event.at), **told})
            to = run[0].callback
        else:
            assert task is not None, "nothing else is wanted"
            body, to = _of_task(id, event, task), task.callback
        assert to is not None, "nothing else is wanted"
        url = to.url
    elif webhook.format is Format.WORKFLOW:
        assert task is not None, "nothing else is wanted"
        verb = "complete" if event.to_state in ENDS else "update"
        path = f"/workflowInstances/{quote(task.workflow_id or '', safe='')}:{verb}"
        body = _of_task(id, event, task)
    else:
        body = msgspec.json.encode({"id": id, "webhook": webhook.name, "event": _plain(event)})
        if len(body) > MAX_BODY_BYTES:
            slim = {**_plain(event), "details": {}, "details_omitted": True}
            body = msgspec.json.encode({"id": id, "webhook": webhook.name, "event": slim})
    return Delivery(
        id=id,
        webhook_id=webhook.id,
        subject=event.subject,
        kind=event.kind,
        seq=event.seq,
        created_at=now,
        due_at=now,
        body=msgspec.Raw(body),
        path=path,
        url=url,
    )


def _plain(event: Event) -> dict[str, Any]:
    return {
        "seq": event.seq,
        "kind": event.kind,
        "subject": event.subject,
        "at": _instant(event.at),
        "cause": event.cause,
        "from_state": event.from_state,
        "to_state": event.to_state,
        "details": event.details,
        "project_id": event.project_id,
    }


def _of_task(id: str, event: Event, task: Task) -> bytes:
    told: dict[str, Any] = {
        "id": id,
        "seq": event.seq,
        "workflow_id": task.workflow_id,
        "task_id": task.id,
        "task_type": task.task_type,
        "project_id": task.project_id,
        "status": event.to_state or str(task.status),
        "previous_status": event.from_state,
        "at": _instant(event.at),
        "cause": event.cause,
        "node_id": event.details.get("node_id"),
        "retry_count": task.retry_count,
    }
    if event.kind == PROGRESSED:
        told["progress"] = {"done": event.details["done"], "total": event.details["total"]}
    if event.to_state not in ENDS:
        return msgspec.json.encode(told)
    told["success"] = event.to_state == TaskStatus.COMPLETED
    # Somebody may have sent it back to the queue since: then this end has no result any more.
    ended = task.status == event.to_state
    told["error"] = task.error if ended else None
    result = task.result if ended else None
    body = msgspec.json.encode({**told, "result": result, "result_omitted": False})
    if len(body) > MAX_BODY_BYTES:
        body = msgspec.json.encode({**told, "result": None, "result_omitted": True})
    return body


def message_of(webhook: Webhook, delivery: Delivery, *, now: float) -> OutgoingMessage:
    """Return the message to send for a delivery, signed for this moment."""
    body = bytes(delivery.body)
    if webhook.format is Format.EMAIL:
        title, text = letter_of(msgspec.json.decode(body))
        return OutgoingMessage(id=delivery.id, url=webhook.url, title=title, body=text.encode())
    timestamp = int(now)
    return OutgoingMessage(
        id=delivery.id,
        url=_address(webhook, delivery),
        headers=(
            ("Content-Type", "application/json"),
            ("Idempotency-Key", delivery.id),
            ("Crawlfleet-Delivery", delivery.id),
            ("Crawlfleet-Event", delivery.kind),
            ("Crawlfleet-Attempt", str(delivery.attempts + 1)),
            ("Crawlfleet-Timestamp", str(timestamp)),
            ("Crawlfleet-Signature", signature(webhook.secrets(now), timestamp, body)),
        ),
        body=body,
    )


def _address(webhook: Webhook, delivery: Delivery) -> str:
    if delivery.url:
        return callbacks.address(delivery.url, delivery.path)
    return webhook.url.rstrip("/") + delivery.path if delivery.path else webhook.url


def receiver_of(delivery: Delivery) -> str:
    """Return the receiver of a delivery: its webhook's id, and the server's origin for a call-back.
    Deliveries to one receiver share failures and pauses."""
    if not delivery.url:
        return delivery.webhook_id
    return f"{delivery.webhook_id} {callbacks.receiver(delivery.url)}"


class DeliveryRetries(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of the retries of a delivery: the number of attempts, and the shortest and longest
    wait."""

    max_attempts: int
    first_s: float
    longest_s: float


def attempted(
    delivery: Delivery,
    sent: SendResult,
    patience: DeliveryRetries,
    *,
    project_id: str | None,
    now: float,
    chance: float,
) -> Change:
    """Return the change after an attempt at a delivery. `project_id` is the project of its webhook,
    and `chance` in [0, 1) spreads the waits."""
    tried = msgspec.structs.replace(
        delivery,
        attempts=delivery.attempts + 1,
        last_at=now,
        last_status=sent.status,
        last_error="" if sent.delivered else sent.error[:MAX_ERROR],
        version=delivery.version + 1,
    )
    if sent.delivered:
        done = msgspec.structs.replace(tried, status=DeliveryStatus.DELIVERED, settled_at=now)
        return Change(rows=(done,))
    if sent.is_final or tried.attempts >= patience.max_attempts:
        why = sent.error[:MAX_ERROR] or "no answer"
        cause = f"attempt {tried.attempts}: {why}"
        return given_up(tried, project_id=project_id, now=now, cause=cause)
    policy = RetryPolicy(initial_delay_s=patience.first_s, max_delay_s=patience.longest_s)
    wait_s = delay_s(policy, tried.attempts, chance)
    if sent.retry_after_s is not None:
        wait_s = max(wait_s, min(sent.retry_after_s, patience.longest_s))
    return Change(rows=(msgspec.structs.replace(tried, due_at=now + wait_s),))


def given_up(tried: Delivery, *, project_id: str | None, now: float, cause: str) -> Change:
    """Return the change that gives up a delivery, which is in its next version already."""
    dead = msgspec.structs.replace(tried, status=DeliveryStatus.DEAD, settled_at=now)
    return Change(rows=(dead,), events=(_event("dead", dead, project_id, now, cause),))


def overflowed(delivery: Delivery, most: int, *, project_id: str | None, now: float) -> Change:
    """Return the change that stores a new delivery as given up, because too many wait for its
    receiver. It can be resent later."""
    cause = f"{most} wait for its receiver already (`webhooks.most_waiting`)"
    unsent = msgspec.structs.replace(delivery, last_error=cause)
    return given_up(unsent, project_id=project_id, now=now, cause=cause)


def superseded(delivery: Delivery, *, now: float) -> Change:
    """Return the change that marks a delivery as superseded by a newer one."""
    return given_way(msgspec.structs.replace(delivery, version=delivery.version + 1), now=now)


def given_way(tried: Delivery, *, now: float) -> Change:
    """Return the change that marks a delivery as superseded, which is in its next version
    already."""
    done = msgspec.structs.replace(tried, status=DeliveryStatus.SUPERSEDED, settled_at=now)
    return Change(rows=(done,))


def resent(delivery: Delivery, *, project_id: str | None, now: float, cause: str) -> Change | None:
    """Return the change that queues a delivery once more; `None` for one that waits already."""
    if delivery.status is DeliveryStatus.WAITING:
        return None
    again = msgspec.structs.replace(
        delivery,
        status=DeliveryStatus.WAITING,
        attempts=0,
        due_at=now,
        settled_at=None,
        version=delivery.version + 1,
    )
    return Change(rows=(again,), events=(_event("resent", again, project_id, now, cause),))


def rest_s(failures: int) -> float:
    """Return the pause in seconds for a receiver after that many failures in a row."""
    if failures < RESTS_FROM:
        return 0.0
    return min(2.0 ** min(failures - RESTS_FROM, 10), MAX_REST_S)


def _event(what: str, delivery: Delivery, project_id: str | None, now: float, cause: str) -> Event:
    return Event(
        kind=f"delivery.{what}",
        subject=delivery.id,
        at=now,
        cause=cause,
        details={"webhook_id": delivery.webhook_id, "kind": delivery.kind, "of": delivery.subject},
        project_id=project_id,
    )


def _instant(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime(WHEN)
