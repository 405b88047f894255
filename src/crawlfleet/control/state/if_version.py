"""Optimistic locking: of two changes based on one version, one is made, one is refused."""

from collections.abc import Iterable
from itertools import islice

from crawlfleet.core.tasks.admission import MAX_PROBLEMS
from crawlfleet.errors import Conflict, FieldProblem, InvalidRequest, PreconditionFailed


def accept(problems: Iterable[FieldProblem]) -> None:
    """Raise `InvalidRequest` if there are problems."""
    if found := list(islice(problems, MAX_PROBLEMS)):
        raise InvalidRequest(found)


def expect_version(id: str, present: int, wanted: int | None) -> None:
    """Raise `PreconditionFailed` unless the thing is in the version that the caller names."""
    if wanted is not None and wanted != present:
        raise PreconditionFailed(
            f"{id} is in version {present}, not {wanted}: it has changed since; "
            "read it again, and decide anew"
        )


def has_changed(id: str) -> Conflict:
    """Return the error for a change before which another one was committed."""
    return Conflict(f"{id} has just been changed by somebody else; look at it and try again")
