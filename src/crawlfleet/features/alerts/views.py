"""Alerts as they are asked for and shown."""

from datetime import datetime
from typing import Annotated, Self

import msgspec
from msgspec import UNSET, Meta, UnsetType

from crawlfleet.features.alerts.model import AlertRule, Severity, Source
from crawlfleet.views.fields import instant, moment

Span = Annotated[float, Meta(gt=0, le=31_536_000)]


class AlertRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When people should be told: `above` or `below`, one of the two, is the limit."""

    name: str
    """Letters, digits, dot, dash and underscore, at most 64; no other of the project has it."""
    source: Source
    """What is watched."""
    project_id: str | None = None
    """Only what belongs to this project; for `events` and `error_share`."""
    above: float | None = None
    """It holds when the value is higher."""
    below: float | None = None
    """It holds when the value is lower."""
    clear_at: float | None = None
    """It holds no longer when the value is back at this; the limit itself when not set."""
    for_s: float = 0.0
    """It has to hold for so long before it fires."""
    clear_s: float = 0.0
    """And must not hold for so long before it is over."""
    window_s: float = 300.0
    """How far back `events` and `error_share` look."""
    event: str = ""
    """How the kinds of events begin that `events` counts."""
    least: int = 0
    """`error_share` says nothing of fewer tasks than this."""
    severity: Severity = Severity.WARNING
    group_s: float = 10.0
    """How long to wait for more of the same before people are told."""
    repeat_s: float = 14_400.0
    """While it fires, they are told again after so long."""
    description: str = ""
    is_on: bool = True


class AlertPatch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is to be changed; the rest stays. `null` takes back what need not be set."""

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
    """Whom not to tell of, and for how long."""

    for_s: Span
    """So long, in seconds."""
    subject: Annotated[str, Meta(max_length=100)] = ""
    """Only of this thing, such as a node's id; of nothing of the rule when empty."""
    reason: Annotated[str, Meta(max_length=500)] = ""


class UnsilenceRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    subject: Annotated[str, Meta(max_length=100)] | None = None
    """Only the silence of this thing; all of them when not set."""


class SilenceView(msgspec.Struct, frozen=True, kw_only=True):
    subject: str
    """What is silenced; all of it when empty."""
    until: datetime
    by: str
    reason: str


class AlertView(msgspec.Struct, frozen=True, kw_only=True):
    """A rule, and how things stand with it."""

    id: str
    name: str
    is_built_in: bool
    is_on: bool
    status: str
    """`quiet` or `firing`."""
    fired_at: datetime | None
    """Since when it fires."""
    told_at: datetime | None
    """When people were told last that it does."""
    summary: str
    """What is the matter, while it fires."""
    value: float
    """As of the last time that something was written down of it."""
    subjects: list[str]
    """What it is about, the first 20."""
    count: int
    """How many things it is about."""
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
    """Who made or changed it last."""
    silences: list[SilenceView]
    """Those that are not over."""
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
