"""Call-backs of one task or one run: the webhook that carries them, their addresses, and the body
for a run.

A call-back is a delivery like any other, of a webhook of the format `callback`: it has the secret,
and tasks and runs have the addresses. Which one is decided when they are submitted, and stays.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

from crawlfleet.errors import FieldProblem
from crawlfleet.features.webhooks.model import Format, Webhook
from crawlfleet.features.webhooks.rules.webhooks import web_problem
from crawlfleet.features.workflows.model import LIVE_RUN, Run, RunStatus, RunStep
from crawlfleet.model.event import Event
from crawlfleet.model.task import COMPLETE, PROGRESSED, TERMINAL, UPDATE, Callback, Task, TaskStatus

FIELD: Final = "callback_url"
AMBIGUOUS: Final = re.compile(r"[\\;]|%(?:2f|5c|3b|25)", re.IGNORECASE)
"""Characters that some servers treat as path separators, or decode into one, and others do not."""
ENDS: Final = frozenset(map(str, TERMINAL))
RUN_ENDS: Final = frozenset(str(each) for each in RunStatus if each not in LIVE_RUN)


def choose(
    webhooks: Iterable[Webhook], project_id: str, url: str, *, allow_private: bool = False
) -> Callback | FieldProblem:
    """Return the call-back to an address for a project, with the webhook that carries it, or the
    problem.

    Where private addresses are allowed, only webhooks with a URL qualify. The project's own
    webhooks come before those of the whole fleet, and of them the one with the longest URL.
    """
    if problem := web_problem(url):
        message, remedy = problem
        return FieldProblem(field=FIELD, value=url[:200], message=message, remedy=remedy)
    carriers = [
        each
        for each in webhooks
        if each.format is Format.CALLBACK
        and each.removed_at is None
        and each.project_id in (None, project_id)
        and (each.url or not allow_private)
    ]
    if not carriers:
        return FieldProblem(
            field=FIELD,
            value=url[:200],
            message=f"nobody signs call-backs for the project {project_id!r}",
            remedy="make a webhook for them once: `crawlfleet webhooks create callbacks "
            f"{'ADDRESS ' if allow_private else ''}--format callback --project {project_id}`",
        )
    fitting = [each for each in carriers if leads_below(url, each.url)]
    if not fitting:
        return FieldProblem(
            field=FIELD,
            value=url[:200],
            message="leads to where call-backs of this project may not go",
            remedy=f"use an address below {' or '.join(sorted(each.url for each in carriers))}",
        )
    first = min(fitting, key=lambda each: (each.project_id is None, -len(each.url), each.id))
    return Callback(url=url, webhook_id=first.id)


def leads_below(url: str, allowed: str) -> bool:
    """Return true if an address has the allowed origin and lies below its path; always if `allowed`
    is empty."""
    if not allowed:
        return True
    ours, theirs = urlsplit(url), urlsplit(allowed)
    origin = (ours.scheme, ours.hostname, ours.port) == (
        theirs.scheme,
        theirs.hostname,
        theirs.port,
    )
    folder = theirs.path.rstrip("/")
    below = ours.path == folder or ours.path.startswith(f"{folder}/")
    # Whoever answers may resolve dots, and then the path leads elsewhere.
    dotted = {".", ".."} & {*ours.path.lower().replace("%2e", ".").split("/")}
    return origin and below and not dotted and not AMBIGUOUS.search(ours.path)


def address(url: str, verb: str) -> str:
    """Return the address with `verb` appended to its path."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}{verb}"))


def receiver(url: str) -> str:
    """Return the origin of an address: call-backs to one origin share failures and pauses."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def verb_of(event: Event) -> str:
    """Return the verb to append to the address for an event: `:complete` for an end, `:update`
    otherwise."""
    ends = RUN_ENDS if event.kind.startswith("run.") else ENDS
    return COMPLETE if event.to_state in ends and not event.kind.startswith("step.") else UPDATE


def is_outdated(event: Event, task: Task) -> bool:
    """Return true for a progress event of an attempt that the task has left behind: it is not
    delivered."""
    if event.kind != PROGRESSED:
        return False
    if task.is_parent:
        return task.status is not TaskStatus.WAITING
    return (
        task.status is not TaskStatus.PROCESSING
        or task.execution_id != event.details["execution_id"]
    )


def progressed(
    task: Task, execution_id: str, *, done: float, total: float | None, now: float
) -> Event:
    """Return the progress event of a task; for a shard, that of the whole task."""
    assert task.callback is not None, "nobody asks"
    return Event(
        kind=PROGRESSED,
        subject=task.parent_id or task.id,
        at=now,
        cause="its executor says so",
        details={
            "done": done,
            "total": total,
            "execution_id": execution_id,
            "callback": task.callback.webhook_id,
        },
        project_id=task.project_id,
    )


def told_of_run(event: Event, run: Run, rows: Sequence[RunStep]) -> dict[str, Any]:
    """Return the body of a call-back about a run, without its id."""
    ends = verb_of(event) == COMPLETE
    told: dict[str, Any] = {
        "seq": event.seq,
        "run_id": run.id,
        "workflow_id": run.workflow_id,
        "workflow": run.name,
        "workflow_version": run.number,
        "project_id": run.project_id,
        "status": event.to_state or str(run.status),
        "attempt": run.attempt,
        "cause": event.cause,
        "steps": run.steps,
        "step_states": run.counts or dict(Counter(str(row.status) for row in rows)),
        "step": None,
    }
    if event.kind.startswith("step."):
        told["step"] = {"name": event.details["step"], "status": event.kind.partition(".")[2]}
    if ends:
        told["success"] = event.to_state == RunStatus.COMPLETED
        told["error"] = run.error or None
    return told
