"""The state of the master and of the whole fleet, as the API shows it."""

import msgspec


class Liveness(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Liveness and readiness of the master."""

    status: str
    reason: str = ""
    leader: bool | None = None
    """True if this master leads: it dispatches tasks and runs timers."""
    epoch: int | None = None
    """Leader epoch: how many times a master has taken the lead."""
    led_by: str | None = None
    """Address of the present or the last leader."""


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
    """Leader epoch: how many times a master has taken the lead."""
    totals: Totals
    leader: bool = True
    """True if the master that answers leads: it dispatches tasks and runs timers."""
    led_by: str = ""
    """Address of the present or the last leader."""
