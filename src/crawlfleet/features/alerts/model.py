"""Rules that say when people should be told, and how things stand with each.

A rule watches one measurement or one kind of event. All that it finds at one time is one alert,
with the things that it is about, so that a rack that loses its power is one letter and not fifty.
"""

from enum import StrEnum
from typing import Final

import msgspec

BUILT_IN: Final = "built in"


class Source(StrEnum):
    """What a rule looks at."""

    NODES_LOST = "nodes_lost"
    """How many nodes have fallen silent."""
    NODES_ONLINE = "nodes_online"
    """How many nodes are online."""
    QUEUE_AGE = "queue_age_s"
    """For how long the task has been ready that waits longest."""
    QUEUE_LENGTH = "queue_length"
    """How many tasks are ready and wait for a node."""
    ERROR_SHARE = "error_share"
    """Which share of the tasks that ended within `window_s` failed."""
    DISK_FREE = "disk_free"
    """Which share of the disk with the master's data is free."""
    EVENTS = "events"
    """How many events of the kind `event` happened within `window_s`."""


class Severity(StrEnum):
    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


class AlertStatus(StrEnum):
    QUIET = "quiet"
    PENDING = "pending"
    """The condition holds, but not for `for_s` yet."""
    FIRING = "firing"
    CLEARING = "clearing"
    """The condition holds no longer, but not for `clear_s` yet."""


class Silence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Nobody is told of a rule, or of one thing that it is about, for a while."""

    id: str
    until: float
    by: str
    at: float
    subject: str = ""
    """Only this thing; all of them when empty."""
    reason: str = ""


class AlertState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How things stand with a rule."""

    status: AlertStatus = AlertStatus.QUIET
    since: float = 0.0
    """When it came into this status."""
    value: float = 0.0
    subjects: tuple[str, ...] = ()
    """What it is about, the first few."""
    count: int = 0
    """How many things it is about."""
    fired_at: float = 0.0
    """When it began to fire."""
    told_at: float = 0.0
    """When people were told last that it fires; 0 when they were not told of this time."""
    told: tuple[str, ...] = ()
    """Of which things they were told then."""

    @property
    def fires(self) -> bool:
        """Whether the alert is on; also while its condition has not been away for long enough."""
        return self.status in (AlertStatus.FIRING, AlertStatus.CLEARING)


class AlertRule(msgspec.Struct, frozen=True, kw_only=True):
    """When people should be told. `version` grows with each committed change."""

    id: str
    name: str
    created_at: float = 0.0
    updated_at: float = 0.0
    project_id: str | None = None
    """Only what belongs to this project; the whole fleet when not set."""
    is_on: bool = True
    source: Source = Source.EVENTS
    above: float | None = None
    """It holds when the value is higher than this."""
    below: float | None = None
    """Or lower than this: one of the two is set."""
    clear_at: float | None = None
    """It holds no longer when the value is back at this; the limit itself when not set."""
    for_s: float = 0.0
    """It has to hold for so long before anybody is told."""
    clear_s: float = 0.0
    """And must not hold for so long before it is over."""
    window_s: float = 300.0
    """How far back sources look that count."""
    event: str = ""
    """How the kinds of events begin that the source `events` counts."""
    least: int = 0
    """Shares are taken of so many tasks at least."""
    severity: Severity = Severity.WARNING
    group_s: float = 10.0
    """How long to wait for more of the same before people are told."""
    repeat_s: float = 14_400.0
    """While it fires, they are told again after so long."""
    description: str = ""
    cause: str = ""
    """Who made or changed it last."""
    silences: tuple[Silence, ...] = ()
    state: AlertState = AlertState()
    removed_at: float | None = None
    version: int = 0
    """0 for a built-in rule that nobody changed and that never fired."""
