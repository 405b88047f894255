"""Alert rules, and the current state of each.

A rule watches one measurement or one kind of event. Everything that it finds at one time is one
alert with several subjects, so that a rack that loses power causes one notice and not fifty.
"""

from enum import StrEnum
from typing import Final

import msgspec

BUILT_IN: Final = "built in"


class Source(StrEnum):
    """What a rule looks at."""

    NODES_LOST = "nodes_lost"
    """Number of nodes that have stopped responding."""
    NODES_ONLINE = "nodes_online"
    """Number of nodes that are online."""
    QUEUE_AGE = "queue_age_s"
    """Seconds since the longest-waiting ready task became ready."""
    QUEUE_LENGTH = "queue_length"
    """Number of ready tasks that wait for a node."""
    ERROR_SHARE = "error_share"
    """Share of the tasks that ended within `window_s` and failed, from 0 to 1."""
    DISK_FREE = "disk_free"
    """Free share of the disk that holds the master's data, from 0 to 1."""
    EVENTS = "events"
    """Number of events of the kind `event` within `window_s`."""


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
    """A silence: for a while no notices are sent for a rule, or for one of its subjects."""

    id: str
    until: float
    by: str
    at: float
    subject: str = ""
    """The one subject that is silenced, such as a node id; all subjects of the rule when empty."""
    reason: str = ""


class AlertState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The current state of an alert rule."""

    status: AlertStatus = AlertStatus.QUIET
    since: float = 0.0
    """Time at which the rule came into this status."""
    value: float = 0.0
    subjects: tuple[str, ...] = ()
    """Ids of the first few subjects, such as nodes, that the rule found."""
    count: int = 0
    """Number of subjects that the rule found, including those that `subjects` does not name."""
    fired_at: float = 0.0
    """Time at which the alert began to fire."""
    told_at: float = 0.0
    """Time of the last notice that the alert fires; 0 if none was sent for this alert."""
    told: tuple[str, ...] = ()
    """The subjects named in the last notice that the alert fires."""

    @property
    def fires(self) -> bool:
        """Return true while the alert is on, also while it waits for `clear_s` before it ends."""
        return self.status in (AlertStatus.FIRING, AlertStatus.CLEARING)


class AlertRule(msgspec.Struct, frozen=True, kw_only=True):
    """A rule for an alert: what it watches, its limits, and its current state. `version` grows with
    each committed change."""

    id: str
    name: str
    created_at: float = 0.0
    updated_at: float = 0.0
    project_id: str | None = None
    """The project whose events and tasks the rule watches; the whole fleet when not set."""
    is_on: bool = True
    source: Source = Source.EVENTS
    above: float | None = None
    """Upper limit: the condition holds while the value is higher."""
    below: float | None = None
    """Lower limit: the condition holds while the value is lower. A rule sets `above` or `below`."""
    clear_at: float | None = None
    """The condition stops holding when the value is back at this limit; `above` or `below` itself
    when not set."""
    for_s: float = 0.0
    """Seconds for which the condition must hold before the alert fires."""
    clear_s: float = 0.0
    """Seconds for which the condition must not hold before the alert ends."""
    window_s: float = 300.0
    """Length in seconds of the time window that sources which count events look back over."""
    event: str = ""
    """Prefix of the event kinds that the source `events` counts."""
    least: int = 0
    """Minimum number of ended tasks from which a share is computed."""
    severity: Severity = Severity.WARNING
    group_s: float = 10.0
    """Seconds after the alert fires before its first notice, so that one notice covers several
    subjects."""
    repeat_s: float = 14_400.0
    """Seconds after which the notice is repeated while the alert fires."""
    description: str = ""
    cause: str = ""
    """Name of the user or token that created or changed the rule last, with the action."""
    silences: tuple[Silence, ...] = ()
    state: AlertState = AlertState()
    removed_at: float | None = None
    version: int = 0
    """0 for a built-in rule that nobody changed and that never fired."""
