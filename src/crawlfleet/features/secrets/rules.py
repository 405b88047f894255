"""Validation of secrets and of the secrets that a task declares, and the changes to the store.

No problem repeats a value.
"""

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from crawlfleet.core.tasks.credentials import NAME, NAME_RULES
from crawlfleet.errors import FieldProblem
from crawlfleet.model.change import Change
from crawlfleet.model.event import Event
from crawlfleet.model.secret import (
    LEAST_CHARS,
    MAX_CHARS,
    Secret,
    SecretRequest,
    secret_id,
)

_RESERVED: Final = re.compile(
    r"(PATH|HOME|TMPDIR|LANG|TZ|IFS|ENV|SHELL|VIRTUAL_ENV|LC_.*|LD_.*|PYTHON.*|BASH.*|CRAWLFLEET_.*"
    r"|SCRAPY_SETTINGS_MODULE|.*_PROXY)\Z"
)
"""Names of variables that control how a program is run; secrets may not use them."""


def request_problems(request: SecretRequest) -> Iterator[FieldProblem]:
    """Yield the problems of a request to set a secret; nothing if it is valid."""
    if not NAME.match(request.name):
        yield _problem("name", "is not the name of a secret", NAME_RULES, request.name[:80])
    elif _RESERVED.match(request.name):
        yield _problem(
            "name",
            "is a variable with a meaning of its own",
            "name it after what it is for, such as SHOP_PASSWORD",
            request.name,
        )
    size = len(request.value)
    if not LEAST_CHARS <= size <= MAX_CHARS:
        yield _problem(
            "value",
            f"has {size:,} characters",
            f"use {LEAST_CHARS} to {MAX_CHARS:,}: what is shorter cannot be masked in logs",
        )
    elif "\0" in request.value or any("\ud800" <= each <= "\udfff" for each in request.value):
        yield _problem("value", "has characters that no variable can hold", "encode it as base64")


def kept(
    secret: Secret | None, *, project_id: str, name: str, sealed: str, now: float, cause: str
) -> Change:
    """Return the change that sets a secret."""
    before = secret or Secret(
        id=secret_id(project_id, name),
        project_id=project_id,
        name=name,
        created_at=now,
        updated_at=now,
        cause=cause,
        version=0,
    )
    return _change(before, sealed, "secret.set", now, cause)


def removed(secret: Secret, *, now: float, cause: str) -> Change | None:
    """Return the change that removes a secret; `None` when it is gone already."""
    return _change(secret, "", "secret.removed", now, cause) if secret.sealed else None


def _change(secret: Secret, sealed: str, kind: str, now: float, cause: str) -> Change:
    begun = secret.created_at if secret.sealed else now
    changed = msgspec.structs.replace(
        secret,
        sealed=sealed,
        created_at=begun,
        updated_at=now,
        cause=cause,
        version=secret.version + 1,
    )
    event = Event(kind=kind, subject=secret.id, at=now, cause=cause, project_id=secret.project_id)
    return Change(rows=(changed,), events=(event,))


def _problem(field: str, message: str, remedy: str, value: str | None = None) -> FieldProblem:
    return FieldProblem(field=field, message=message, remedy=remedy, value=value)
