"""Events as the API shows them."""

from datetime import datetime
from typing import Any, Self

import msgspec

from crawlfleet.model.event import Event
from crawlfleet.views.fields import moment


class EventView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that happened."""

    seq: int
    kind: str
    subject: str
    at: datetime
    cause: str
    from_state: str | None = None
    to_state: str | None = None
    details: dict[str, Any] = {}

    @classmethod
    def of(cls, event: Event) -> Self:
        return cls(
            seq=event.seq,
            kind=event.kind,
            subject=event.subject,
            at=moment(event.at),
            cause=event.cause,
            from_state=event.from_state,
            to_state=event.to_state,
            details=event.details,
        )


class EventPage(msgspec.Struct, frozen=True, kw_only=True):
    items: list[EventView]
    next_cursor: str | None
