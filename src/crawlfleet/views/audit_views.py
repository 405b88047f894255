"""The audit log as the API shows it."""

from datetime import datetime
from typing import Annotated

import msgspec

from crawlfleet.model.key import Role


class AuditView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One request that changed something."""

    id: str
    at: datetime
    actor: str
    """The name of the key, or the id of the node."""
    actor_id: str
    role: Annotated[str, msgspec.Meta(extra_json_schema={"enum": [str(each) for each in Role]})]
    action: str
    """The name of the route, as in the OpenAPI document."""
    count: int
    """How many things it changed."""
    subjects: tuple[str, ...] = ()
    """The ids of the first 20 of them."""
    address: str = ""
    project_id: str | None = None
    """The project that the key is bound to."""


class AuditPage(msgspec.Struct, frozen=True, kw_only=True):
    items: list[AuditView]
    next_cursor: str | None
