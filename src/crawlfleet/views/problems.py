"""A refused request, as the API answers it (RFC 9457)."""

import msgspec

from crawlfleet.errors import FieldProblem


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An error answer: `type` and `status` for programs, `detail` and `errors` for people."""

    type: str
    title: str
    status: int
    detail: str
    instance: str = ""
    errors: tuple[FieldProblem, ...] = ()
