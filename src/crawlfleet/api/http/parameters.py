"""Reads ids, cursors and states from requests; an invalid one raises a problem with a remedy."""

import re
from datetime import UTC, datetime
from typing import Annotated, Any, Final, NoReturn

import msgspec

from crawlfleet.errors import FieldProblem, InvalidRequest, NotFound
from crawlfleet.model.ids import ALPHABET, AUDIT, BODY_LENGTH, TASK
from crawlfleet.model.task import TaskStatus
from crawlfleet.ports.store import TaskFilter

PageSize = Annotated[int, msgspec.Meta(ge=1, le=1000)]
EventNumber = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
MAX_ID_CHARACTERS: Final = 100
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
_BODY: Final = rf"-[{ALPHABET}]{{{BODY_LENGTH}}}\Z"
CURSOR: Final = re.compile(TASK + _BODY)
AUDIT_CURSOR: Final = re.compile(AUDIT + _BODY)


class PageQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Selects a page of a list."""

    cursor: str | None = None
    """The `next_cursor` of the previous page."""
    limit: PageSize = 100
    """Maximum number of items in the page."""


def invalid(field: str, message: str, remedy: str, value: Any = None) -> InvalidRequest:
    """The error for one field."""
    return InvalidRequest([FieldProblem(field=field, message=message, remedy=remedy, value=value)])


def is_id(text: str) -> bool:
    """Return whether the text can be an id; not every store accepts any text in a query."""
    return 0 < len(text) <= MAX_ID_CHARACTERS and text.isprintable()


def check_id(kind: str, id: str) -> str:
    """An id from a path, if it can be one at all; `NotFound` otherwise."""
    if not is_id(id):
        raise NotFound(kind, id[:MAX_ID_CHARACTERS])
    return id


def check_name_cursor(text: str | None) -> str | None:
    """Check the cursor of a list whose ids are chosen by people."""
    return _check(text, NAME)


def check_cursor(text: str | None) -> str | None:
    """Check the cursor of a list of tasks."""
    return _check(text, CURSOR)


def check_audit_cursor(text: str | None) -> str | None:
    """Check the cursor of a list of audit entries."""
    return _check(text, AUDIT_CURSOR)


def check_id_cursor(text: str | None) -> str | None:
    """Check the cursor of a list whose ids have several formats."""
    return text if text is None or is_id(text) else _no_cursor(text)


def _check(text: str | None, pattern: re.Pattern[str]) -> str | None:
    return text if text is None or pattern.match(text) else _no_cursor(text)


def _no_cursor(text: str) -> NoReturn:
    raise invalid(
        "cursor",
        "is not a cursor",
        "send the next_cursor of the page before, or none for the first page",
        text,
    )


def seconds_of(at: datetime | None) -> float:
    """An instant as the master counts it; the beginning of time when there is none."""
    if at is None:
        return 0.0
    return max((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp(), 0.0)


def restricted(filter: TaskFilter, project_id: str | None) -> TaskFilter | None:
    """The filter for a key of one project; `None` when nothing can match it."""
    if project_id is None:
        return filter
    if filter.project_id not in (None, project_id):
        return None
    return msgspec.structs.replace(filter, project_id=project_id)


def parse_states(text: str) -> tuple[TaskStatus, ...]:
    """States of tasks, parted by commas."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in set(TaskStatus)]
    if unknown:
        raise invalid(
            "status",
            "is not a state of tasks",
            f"use one of {', '.join(TaskStatus)}",
            unknown[0][:40],
        )
    return tuple(TaskStatus(name) for name in names)
