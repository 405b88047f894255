"""A refused request, as the API answers it (RFC 9457)."""

import msgspec

from crawlfleet.errors import FieldProblem


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What went wrong, for programs (`type`, `status`) and for people (`detail`, `errors`)."""

    type: str
    title: str
    status: int
    detail: str
    instance: str = ""
    errors: tuple[FieldProblem, ...] = ()
