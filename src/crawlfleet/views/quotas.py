"""Quotas and fair shares on the wire: what may be set, and what is shown."""

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from crawlfleet.model.quota import Amount, Count, Over, Weight

Labels = Annotated[dict[str, str], Meta(max_length=16)]


class QuotaPatch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is to be changed; `null` takes a limit away, the rest stays."""

    over: Over | UnsetType = UNSET
    """`queue`: what is more than the quotas allow waits; `reject`: it is refused."""
    waiting: Count | UnsetType | None = UNSET
    """Tasks that wait for a node or for their time."""
    running: Count | UnsetType | None = UNSET
    """Executions that hold a node's resources."""
    cpu_cores: Amount | UnsetType | None = UNSET
    """Reserved for all of them together."""
    memory_mb: Amount | UnsetType | None = UNSET
    """Reserved for all of them together."""
    pages_per_day: Count | UnsetType | None = UNSET
    """Pages that its tasks may fetch from midnight to midnight (UTC)."""
    storage_mb: Amount | UnsetType | None = UNSET
    """Output and bundles that are kept for it, in millions of bytes."""
    weight: Weight | UnsetType = UNSET
    """Its share beside other projects that have work: twice the weight is twice as much."""
    nodes: Labels | UnsetType | None = UNSET
    """Nodes that have all of these labels are kept for this project; none when `null` or empty."""


class QuotaLine(msgspec.Struct, frozen=True, kw_only=True):
    """One quota of a project, and how much of it is used."""

    name: str
    """`waiting`, `running`, `cpu_cores`, `memory_mb`, `pages_per_day` or `storage_mb`."""
    use: float
    limit: float | None
    """`null` when there is none."""
    left: float | None
    """`null` when there is no limit; never below zero."""


class QuotaView(msgspec.Struct, frozen=True, kw_only=True):
    """The quotas of a project and its share of the fleet, and what it has of them now."""

    project_id: str
    over: str
    """`queue` or `reject`."""
    quotas: tuple[QuotaLine, ...]
    weight: float
    share: float
    """The part of the fleet that it holds: of the resource of which it has most."""
    due: float
    """The part that is its own by weight, beside the projects that have work now."""
    nodes: dict[str, str]
    """The labels of nodes that are kept for it."""
    version: int
    """Of the project."""


class QuotaPage(msgspec.Struct, frozen=True, kw_only=True):
    items: list[QuotaView]
    next_cursor: str | None


class QuotaHold(msgspec.Struct, frozen=True, kw_only=True):
    """A quota that holds a task back."""

    quota: str
    use: float
    needs: float
    """What the task would add, as far as that is known."""
    limit: float
    until: datetime | None = None
    """When it is over by itself: of `pages_per_day`, the next midnight (UTC)."""
