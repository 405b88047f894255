"""The state of the master and of the whole fleet, as the API shows it."""

import msgspec


class Liveness(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the master is."""

    status: str
    reason: str = ""
    leader: bool | None = None
    """Whether this master leads: dispatches, and watches the clock."""
    epoch: int | None = None
    """How often the lead was taken."""
    led_by: str | None = None
    """The address of the master that leads, or led last."""


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """The fleet in a few numbers."""

    tasks: dict[str, int]
    nodes: dict[str, int]
    ready: int
    delayed: int
    running: int


class FleetStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The master, and the fleet in a few numbers."""

    version: str
    epoch: int
    """How often the lead was taken."""
    totals: Totals
    leader: bool = True
    """Whether the master that answers leads: dispatches, and watches the clock."""
    led_by: str = ""
    """The address of the master that leads, or led last."""
