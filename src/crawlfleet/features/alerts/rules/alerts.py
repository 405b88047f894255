"""Alert rules: the built-in ones, validation of requests, and the changes to the store."""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec
from msgspec import UNSET

from crawlfleet.core.text.names import NAME, description_problems, is_event_kind, name_problems
from crawlfleet.errors import FieldProblem
from crawlfleet.features.alerts.model import BUILT_IN, AlertRule, Severity, Silence, Source
from crawlfleet.features.alerts.rules.states import OF_ALERTS
from crawlfleet.features.alerts.views import AlertPatch, AlertRequest
from crawlfleet.model.change import NEVER, Change, Claim
from crawlfleet.model.event import Event

DAY_S: Final = 86_400.0
MAX_SILENCES: Final = 50
OF_PROJECTS: Final = frozenset({Source.EVENTS, Source.ERROR_SHARE})
_TIMES: Final = {"for_s": DAY_S, "clear_s": DAY_S, "group_s": 3600.0, "repeat_s": 30 * DAY_S}


def _built_in(name: str, **fields: object) -> AlertRule:
    rule = AlertRule(id=f"alert-{name}", name=name, cause=BUILT_IN)
    return msgspec.structs.replace(rule, **fields)


BUILT_INS: Final = tuple(
    sorted(
        (
            _built_in(
                "node-lost",
                source=Source.NODES_LOST,
                above=0.0,
                clear_s=60.0,
                severity=Severity.CRITICAL,
                description="a node fell silent; its work went back into the queue",
            ),
            _built_in(
                "queue-age",
                source=Source.QUEUE_AGE,
                above=600.0,
                clear_at=300.0,
                for_s=60.0,
                clear_s=60.0,
                description="a task has been ready for more than ten minutes",
            ),
            _built_in(
                "error-share",
                source=Source.ERROR_SHARE,
                above=0.2,
                clear_at=0.1,
                least=20,
                window_s=600.0,
                for_s=60.0,
                clear_s=120.0,
                description="more than a fifth of the tasks that end fail",
            ),
            _built_in(
                "schedule-missed",
                source=Source.EVENTS,
                event="schedule.missed",
                above=0.0,
                window_s=600.0,
                description="a schedule was due, and nobody was there in time",
            ),
            _built_in(
                "delivery-dead",
                source=Source.EVENTS,
                event="delivery.dead",
                above=0.0,
                window_s=600.0,
                description="a webhook was not told something, and it is not tried again",
            ),
            _built_in(
                "drift",
                source=Source.EVENTS,
                event="task.drifted",
                above=0.0,
                window_s=600.0,
                description="a task found other items than were expected of it",
            ),
            _built_in(
                "disk-full",
                source=Source.DISK_FREE,
                below=0.1,
                clear_at=0.15,
                for_s=60.0,
                clear_s=60.0,
                severity=Severity.CRITICAL,
                description="less than a tenth of the disk with the master's data is free",
            ),
        ),
        key=lambda rule: rule.id,
    )
)
IDS: Final = frozenset(rule.id for rule in BUILT_INS)


def with_built_ins(stored: Iterable[AlertRule]) -> list[AlertRule]:
    """All rules that there are: the stored ones, and the built-in ones that are not."""
    known = {rule.id: rule for rule in BUILT_INS}
    known.update((rule.id, rule) for rule in stored if rule.removed_at is None)
    return [known[id] for id in sorted(known)]


def name_scope(project_id: str | None) -> str:
    """Return the claim scope in which rule names of a project, or of the fleet, are unique."""
    return f"alert:{project_id or ''}"


def problems_of(wanted: AlertRequest | AlertRule) -> Iterator[FieldProblem]:
    """Yield the problems of an alert rule; nothing if it is valid."""
    yield from name_problems(wanted.name)
    yield from description_problems(wanted.description)
    yield from _limit_problems(wanted)
    yield from _source_problems(wanted)
    for field, most in _TIMES.items():
        value = getattr(wanted, field)
        if not 0 <= value <= most:
            yield _out_of_range(field, value, 0, most)
    if not 1 <= wanted.window_s <= DAY_S:
        yield _out_of_range("window_s", wanted.window_s, 1, DAY_S)
    if not 0 <= wanted.least <= 1_000_000:
        yield _out_of_range("least", wanted.least, 0, 1_000_000)


def _limit_problems(wanted: AlertRequest | AlertRule) -> Iterator[FieldProblem]:
    above, below, back = wanted.above, wanted.below, wanted.clear_at
    if (above is None) == (below is None):
        message = "is missing, and so is below" if above is None else "is set beside below"
        yield FieldProblem(
            field="above", value=above, message=message, remedy="set one of the two as the limit"
        )
        return
    if back is None:
        return
    if (above is not None and back > above) or (below is not None and back < below):
        yield FieldProblem(
            field="clear_at",
            value=back,
            message="lies beyond the limit: it would fire and be over at once",
            remedy="use a value on the good side of the limit, or leave it out",
        )


def _source_problems(wanted: AlertRequest | AlertRule) -> Iterator[FieldProblem]:
    if (wanted.source is Source.EVENTS) != bool(wanted.event):
        missing = wanted.source is Source.EVENTS
        yield FieldProblem(
            field="event",
            value=wanted.event[:80],
            message="is missing" if missing else f"means nothing for {wanted.source}",
            remedy="name how the kind begins, such as task.failed"
            if missing
            else "leave it out, or use the source events",
        )
    elif wanted.event and (not is_event_kind(wanted.event) or _is_of_alerts(wanted.event)):
        yield FieldProblem(
            field="event",
            value=wanted.event[:80],
            message="is not how a kind of events begins that can be watched",
            remedy="use such as task.failed or node.; `crawlfleet events` shows them",
        )
    if wanted.project_id is not None and (
        wanted.source not in OF_PROJECTS or not NAME.match(wanted.project_id)
    ):
        yield FieldProblem(
            field="project_id",
            value=wanted.project_id[:80],
            message=f"cannot be combined with {wanted.source}, which is about the whole fleet",
            remedy="leave it out, or use one of the sources events and error_share",
        )


def _is_of_alerts(event: str) -> bool:
    """Return true if this prefix of event kinds matches events that alerts themselves emit."""
    return event.startswith(OF_ALERTS) or OF_ALERTS.startswith(event)


def _out_of_range(field: str, value: float, least: float, most: float) -> FieldProblem:
    return FieldProblem(
        field=field,
        value=value,
        message="is out of range",
        remedy=f"use a number from {least:g} to {most:g}",
    )


def new_rule(request: AlertRequest, *, id: str, now: float, cause: str) -> Change:
    """Return the change that creates a rule and claims its name."""
    rule = AlertRule(
        id=id,
        created_at=now,
        updated_at=now,
        cause=cause,
        version=1,
        **msgspec.structs.asdict(request),
    )
    return Change(
        rows=(rule,), claims=(_claim(rule, now, NEVER),), events=(_event("made", rule, now),)
    )


def patched(rule: AlertRule, patch: AlertPatch) -> AlertRule:
    """Return the rule with the patch applied. Setting `above` removes `below`, and vice versa."""
    fields = {
        name: value for name, value in msgspec.structs.asdict(patch).items() if value is not UNSET
    }
    for one, other in (("above", "below"), ("below", "above")):
        if fields.get(one) is not None and other not in fields:
            fields[other] = None
    return msgspec.structs.replace(rule, **fields)


def changed_rule(
    before: AlertRule, after: AlertRule, *, what: str, now: float, cause: str
) -> Change | None:
    """Return the change that replaces a rule by its new version; `None` when they are equal."""
    if before == after:
        return None
    rule = msgspec.structs.replace(
        after,
        created_at=before.created_at or now,
        updated_at=now,
        cause=cause,
        version=before.version + 1,
    )
    return Change(rows=(rule,), events=(_event(what, rule, now),))


def silenced(rule: AlertRule, silence: Silence, now: float) -> AlertRule:
    """Return the rule with one more silence, and without expired ones."""
    kept = [each for each in rule.silences if each.until > now and each.subject != silence.subject]
    return msgspec.structs.replace(rule, silences=(*kept, silence))


def unsilenced(rule: AlertRule, subject: str | None, now: float) -> AlertRule:
    """The rule without its silences, or without that of one thing."""
    kept = [
        each
        for each in rule.silences
        if each.until > now and subject is not None and each.subject != subject
    ]
    return msgspec.structs.replace(rule, silences=tuple(kept))


def removed_rule(rule: AlertRule, *, now: float, cause: str) -> Change:
    """Return the change that removes a rule and frees its name."""
    gone = msgspec.structs.replace(
        rule, removed_at=now, updated_at=now, cause=cause, version=rule.version + 1
    )
    return Change(
        rows=(gone,),
        claims=(_claim(gone, now, now),),
        events=(_event("removed", gone, now),),
    )


def _claim(rule: AlertRule, now: float, expires_at: float) -> Claim:
    return Claim(
        scope=name_scope(rule.project_id),
        key=rule.name,
        holder=rule.id,
        at=now,
        expires_at=expires_at,
    )


def _event(what: str, rule: AlertRule, now: float) -> Event:
    return Event(
        kind=f"rule.{what}",
        subject=rule.id,
        at=now,
        cause=rule.cause,
        details={"name": rule.name},
        project_id=rule.project_id,
    )


def essence(rule: AlertRule) -> AlertRequest:
    """Return the requested fields of a rule; two rules of one name are the same request if
    equal."""
    names = AlertRequest.__struct_fields__
    return AlertRequest(**{name: getattr(rule, name) for name in names})
