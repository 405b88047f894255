"""/api/v1/audit"""

from datetime import UTC, datetime
from typing import Final

import msgspec

from crawlfleet.api.examples import tasks
from crawlfleet.api.http.parameters import PageSize, check_audit_cursor, invalid, is_id
from crawlfleet.api.http.routing import ADMINS, Call, Example, Route, Scope
from crawlfleet.control.state.audit_trail import AuditLog
from crawlfleet.model.audit import AuditFilter
from crawlfleet.views.access import AuditPage, AuditView


class AuditQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    actor: str | None = None
    """List only requests with the key of this name or id, or of the node with this id."""
    action: str | None = None
    """List only requests of the route with this name, such as `cancel_tasks`."""
    subject: str | None = None
    """List only requests that changed the thing with this id."""
    since: datetime | None = None
    """List only requests from this instant on."""
    until: datetime | None = None
    """List only requests before this instant."""
    cursor: str | None = None
    """The `next_cursor` of the previous page."""
    limit: PageSize = 100
    """Maximum number of entries in the page."""


async def find(call: Call) -> AuditPage:
    query: AuditQuery = call.query
    for field in ("actor", "action", "subject"):
        given = getattr(query, field)
        if given is not None and not is_id(given):
            raise invalid(field, "is not a name or an id", "send what an entry shows", given)
    entries, cursor = await call.service(AuditLog).find(
        AuditFilter(
            actor=query.actor,
            action=query.action,
            subject=query.subject,
            since=_seconds(query.since),
            until=_seconds(query.until),
        ),
        after=check_audit_cursor(query.cursor),
        limit=query.limit,
    )
    return AuditPage(items=[AuditView.of(entry) for entry in entries], next_cursor=cursor)


def _seconds(at: datetime | None) -> float | None:
    """An instant; without a time zone it is in UTC."""
    if at is None:
        return None
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


ROUTES: Final = (
    Route(
        name="list_audit",
        method="GET",
        path="/api/v1/audit",
        roles=ADMINS,
        scope=Scope.FLEET,
        handler=find,
        client='audit(actor="ann")',
        command="audit",
        summary="Who changed what, newest first",
        details="One entry for each request that changed something, written in the same "
        "commit. `count` is how many things were changed, `subjects` names the first 20. What "
        "nodes say of their work is not in it.",
        query=AuditQuery,
        response=AuditPage,
        example=Example(response=tasks.AUDIT),
    ),
)
