"""Alerts from the model to what the API shows."""

from crawlfleet.features.alerts.model import AlertRule
from crawlfleet.features.alerts.rules.alerts import IDS
from crawlfleet.features.alerts.rules.states import ON, summary
from crawlfleet.features.alerts.views import AlertView, SilenceView
from crawlfleet.views.presenting import instant, moment


def present_alert(rule: AlertRule, *, now: float) -> AlertView:
    state = rule.state
    fires = state.status in ON
    return AlertView(
        id=rule.id,
        name=rule.name,
        is_built_in=rule.id in IDS,
        is_on=rule.is_on,
        status="firing" if fires else "quiet",
        fired_at=instant(state.fired_at if fires else None),
        told_at=instant(state.told_at or None),
        summary=summary(rule, state, fires=True) if fires else "",
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
