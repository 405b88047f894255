"""Requests and answers about alerts."""

from datetime import datetime
from typing import Annotated, Self

import msgspec
from msgspec import UNSET, Meta, UnsetType

from crawlfleet.features.alerts.model import AlertRule, Severity, Source
from crawlfleet.views.fields import instant, moment

Span = Annotated[float, Meta(gt=0, le=31_536_000)]


class AlertRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An alert rule to create; its limit is either `above` or `below`."""

    name: str
    """Letters, digits, dot, dash and underscore, at most 64; no other of the project has it."""
    source: Source
    """The measurement that the rule watches."""
    project_id: str | None = None
    """Project that the rule is limited to; for `events` and `error_share`."""
    above: float | None = None
    """Upper limit: the condition holds while the value is higher than this."""
    below: float | None = None
    """Lower limit: the condition holds while the value is lower than this."""
    clear_at: float | None = None
    """The condition ends when the value is back at this; when not set, at the limit itself."""
    for_s: float = 0.0
    """Seconds that the condition has to hold before the alert fires."""
    clear_s: float = 0.0
    """Seconds that the condition must not hold before the alert ends."""
    window_s: float = 300.0
    """Seconds back over which `events` and `error_share` count."""
    event: str = ""
    """Beginning of the kinds of events that `events` counts."""
    least: int = 0
    """Minimum number of ended tasks; with fewer, `error_share` is not measured."""
    severity: Severity = Severity.WARNING
    group_s: float = 10.0
    """Seconds to wait for more of the same before people are notified."""
    repeat_s: float = 14_400.0
    """Seconds after which people are notified again while the alert fires."""
    description: str = ""
    is_on: bool = True


class AlertPatch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Changes to a rule: a field that is left out stays as it is, `null` unsets an optional one."""

    above: float | UnsetType | None = UNSET
    """Takes the place of `below`."""
    below: float | UnsetType | None = UNSET
    """Takes the place of `above`."""
    clear_at: float | UnsetType | None = UNSET
    for_s: float | UnsetType = UNSET
    clear_s: float | UnsetType = UNSET
    window_s: float | UnsetType = UNSET
    event: str | UnsetType = UNSET
    least: int | UnsetType = UNSET
    severity: Severity | UnsetType = UNSET
    group_s: float | UnsetType = UNSET
    repeat_s: float | UnsetType = UNSET
    description: str | UnsetType = UNSET
    is_on: bool | UnsetType = UNSET


class SilenceRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A time for which a rule, or one subject of it, sends no notifications."""

    for_s: Span
    """Length of the silence in seconds."""
    subject: Annotated[str, Meta(max_length=100)] = ""
    """The one subject to silence, such as a node's id; the whole rule when empty."""
    reason: Annotated[str, Meta(max_length=500)] = ""


class UnsilenceRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    subject: Annotated[str, Meta(max_length=100)] | None = None
    """End only the silence of this subject; all silences of the rule when not set."""


class SilenceView(msgspec.Struct, frozen=True, kw_only=True):
    subject: str
    """The subject that is silenced; the whole rule when empty."""
    until: datetime
    by: str
    reason: str


class AlertView(msgspec.Struct, frozen=True, kw_only=True):
    """An alert rule with its present state."""

    id: str
    name: str
    is_built_in: bool
    is_on: bool
    status: str
    """`quiet` or `firing`."""
    fired_at: datetime | None
    """Time since which the alert fires."""
    told_at: datetime | None
    """Time of the last notification that the alert fires."""
    summary: str
    """The problem in words, while the alert fires."""
    value: float
    """The value when the state of the rule was last saved."""
    subjects: list[str]
    """Ids of the first 20 subjects, such as nodes or tasks."""
    count: int
    """Number of subjects."""
    source: str
    project_id: str | None
    above: float | None
    below: float | None
    clear_at: float | None
    for_s: float
    clear_s: float
    window_s: float
    event: str
    least: int
    severity: str
    group_s: float
    repeat_s: float
    description: str
    cause: str
    """Last change of the rule in words, such as `changed by admin`."""
    silences: list[SilenceView]
    """Silences that have not ended."""
    version: int

    @classmethod
    def of(cls, rule: AlertRule, *, summary: str, is_built_in: bool, now: float) -> Self:
        """A rule as of `now`; its summary is shown while it fires."""
        state = rule.state
        fires = state.fires
        return cls(
            id=rule.id,
            name=rule.name,
            is_built_in=is_built_in,
            is_on=rule.is_on,
            status="firing" if fires else "quiet",
            fired_at=instant(state.fired_at if fires else None),
            told_at=instant(state.told_at or None),
            summary=summary if fires else "",
            value=state.value,
            subjects=[*state.subjects],
            count=state.count,
            source=str(rule.source),
            project_id=rule.project_id,
            above=rule.above,
            below=rule.below,
            clear_at=rule.clear_at,
            for_s=rule.for_s,
            clear_s=rule.clear_s,
            window_s=rule.window_s,
            event=rule.event,
            least=rule.least,
            severity=str(rule.severity),
            group_s=rule.group_s,
            repeat_s=rule.repeat_s,
            description=rule.description,
            cause=rule.cause,
            silences=[
                SilenceView(
                    subject=each.subject, until=moment(each.until), by=each.by, reason=each.reason
                )
                for each in rule.silences
                if each.until > now
            ],
            version=rule.version,
        )


class AlertPage(msgspec.Struct, frozen=True, kw_only=True):
    items: list[AlertView]
    next_cursor: str | None
