"""Names and descriptions that people write: their patterns and checks."""

import re
from collections.abc import Iterator
from typing import Final

from crawlfleet.errors import FieldProblem

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
_EVENT_KIND: Final = re.compile(r"[a-z][a-z_]*(\.[a-z_]*)?\Z")
DESCRIPTION: Final = re.compile(r"[^\x00]{0,2000}\Z")
_SHOWN: Final = 100
"""Number of characters of a value that an answer repeats."""


def is_event_kind(text: str) -> bool:
    """Whether a text can be a kind of event, or the beginning of one: `task.` means all of
    tasks."""
    return _EVENT_KIND.match(text) is not None


def name_problems(name: str, field: str = "name") -> Iterator[FieldProblem]:
    """Yield a problem if a name is not valid as an identifier."""
    if not NAME.match(name):
        yield FieldProblem(
            field=field,
            value=name[:_SHOWN],
            message="is not a valid name",
            remedy="use letters, digits, dot, dash and underscore, at most 64, "
            "beginning with a letter or digit",
        )


def description_problems(description: str) -> Iterator[FieldProblem]:
    """Yield a problem if a description is too long or has a NUL."""
    if not DESCRIPTION.match(description):
        yield FieldProblem(
            field="description",
            value=description[:_SHOWN],
            message="is too long",
            remedy="use at most 2000 characters, and no NUL",
        )
