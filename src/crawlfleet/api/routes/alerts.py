"""/api/v1/alerts: alert rules and their state."""

from http import HTTPStatus
from typing import Final, Literal

import msgspec

from crawlfleet.api.examples import alerts as examples
from crawlfleet.api.http.etags import tagged, wanted_version
from crawlfleet.api.http.parameters import check_id, invalid
from crawlfleet.api.http.routing import OPERATORS, READERS, Call, Example, Reply, Route, Scope
from crawlfleet.control.this_master import ThisMaster
from crawlfleet.features.alerts.model import AlertRule
from crawlfleet.features.alerts.rules import alerts, states
from crawlfleet.features.alerts.service import Alerts
from crawlfleet.features.alerts.views import (
    AlertPage,
    AlertPatch,
    AlertRequest,
    AlertView,
    SilenceRequest,
    UnsilenceRequest,
)


class AlertQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Filters."""

    status: Literal["quiet", "firing"] | msgspec.UnsetType = msgspec.UNSET
    """List only alerts with this status."""
    project_id: str | None = None
    """List only alerts of this project."""
    name: str | None = None
    """List only the alert with this name."""


async def find(call: Call) -> AlertPage:
    query: AlertQuery = call.query
    own = call.project_id
    found = [
        _view(call, rule)
        for rule in await call.service(Alerts).all()
        if own in (None, rule.project_id)
        and query.project_id in (None, rule.project_id)
        and query.name in (None, rule.name)
    ]
    if query.status is not msgspec.UNSET:
        found = [each for each in found if each.status == query.status]
    return AlertPage(items=found, next_cursor=None)


async def create(call: Call) -> Reply:
    request: AlertRequest = call.body
    own = call.project_id
    if own is not None:
        if request.project_id not in (None, own):
            raise invalid(
                "project_id",
                "is not the project of your key",
                f"leave it out, or say {own!r}",
                request.project_id,
            )
        request = msgspec.structs.replace(request, project_id=own)
    rule, created = await call.service(Alerts).create(request, by=call.caller.name)
    return tagged(
        call,
        _view(call, rule),
        rule.version,
        status=HTTPStatus.CREATED if created else HTTPStatus.OK,
        headers={"Location": f"/api/v1/alerts/{rule.id}"} if created else None,
    )


async def get(call: Call) -> Reply:
    return _reply(call, await call.service(Alerts).get(_id(call)))


async def change(call: Call) -> Reply:
    rule = await call.service(Alerts).change(
        _id(call), call.body, by=call.caller.name, if_version=wanted_version(call)
    )
    return _reply(call, rule)


async def silence(call: Call) -> Reply:
    rule = await call.service(Alerts).silence(_id(call), call.body, by=call.caller.name)
    return _reply(call, rule)


async def unsilence(call: Call) -> Reply:
    subject = call.body.subject
    rule = await call.service(Alerts).unsilence(_id(call), subject, by=call.caller.name)
    return _reply(call, rule)


async def remove(call: Call) -> Reply:
    rule = await call.service(Alerts).remove(
        _id(call), by=call.caller.name, if_version=wanted_version(call)
    )
    return _reply(call, rule)


def _id(call: Call) -> str:
    return check_id("alert", call.path["alert_id"])


def _view(call: Call, rule: AlertRule) -> AlertView:
    return AlertView.of(
        rule,
        summary=states.summary(rule, rule.state, fires=True),
        is_built_in=rule.id in alerts.IDS,
        now=call.service(ThisMaster).now(),
    )


def _reply(call: Call, rule: AlertRule) -> Reply:
    # Silences end without a new version.
    shown = _view(call, rule)
    return tagged(call, shown, rule.version, volatile=bool(rule.silences))


_ALERT: Final = "/api/v1/alerts/{alert_id}"

ROUTES: Final = (
    Route(
        name="list_alerts",
        method="GET",
        path="/api/v1/alerts",
        roles=READERS,
        scope=Scope.OWN,
        handler=find,
        client='alerts(status="firing")',
        command="alerts list",
        summary="List the rules for alerts, and how things stand with each",
        details="Also those that are built in.",
        query=AlertQuery,
        response=AlertPage,
        example=Example(response=examples.ALERTS),
    ),
    Route(
        name="create_alert",
        method="POST",
        path="/api/v1/alerts",
        roles=OPERATORS,
        scope=Scope.OWN,
        handler=create,
        client='create_alert("few-nodes", "nodes_online", below=3)',
        command="alerts create",
        summary="Say when people should be told",
        details="`name` is yours to choose; `source` is `nodes_lost`, `nodes_online`, "
        "`queue_age_s`, `queue_length`, `error_share`, `disk_free` or `events`, with `event` "
        "for how their kinds begin. `above` or `below` is the limit, `clear_at` where it is "
        "back; `for_s`, `clear_s`, `window_s`, `least`, `group_s` and `repeat_s` say how "
        "patient it is; `severity` is `info`, `warning` or `critical`. `project_id` is for "
        "`events` and `error_share`; `description` is for people; `is_on` false makes it "
        "without letting it begin. Answers 201 with `Location`, or 200 when the same rule was "
        "there before. A key of one project makes rules of that project.",
        body=AlertRequest,
        response=AlertView,
        statuses=(HTTPStatus.CREATED, HTTPStatus.OK),
        conflicts=True,
        example=Example(request=examples.ALERT_REQUEST),
    ),
    Route(
        name="get_alert",
        method="GET",
        path=_ALERT,
        roles=READERS,
        scope=Scope.PATH,
        handler=get,
        client="alert(alert_id)",
        command="alerts show",
        summary="A rule, and how things stand with it",
        response=AlertView,
        etag=True,
        example=Example(response=examples.ALERT),
    ),
    Route(
        name="change_alert",
        method="PATCH",
        path=_ALERT,
        roles=OPERATORS,
        scope=Scope.PATH,
        handler=change,
        client="change_alert(alert_id, above=1.0, if_version=2)",
        command="alerts change",
        summary="Change a rule, also one that is built in",
        details="The fields are those of [a new rule](#post-apiv1alerts). "
        "What is left out stays as it is; `is_on` switches the rule off and on.",
        body=AlertPatch,
        response=AlertView,
        conflicts=True,
        etag=True,
        example=Example(request=examples.ALERT_PATCH),
    ),
    Route(
        name="silence_alert",
        method="POST",
        path=f"{_ALERT}:silence",
        roles=OPERATORS,
        scope=Scope.PATH,
        handler=silence,
        client='silence_alert(alert_id, 60, subject="node-1")',
        command="alerts silence",
        summary="Tell nobody of a rule for a while",
        details="`for_s` seconds; `subject` names one thing; `reason` is for others who look. "
        "Or of one thing that it is about. If it still fires when the silence is over, people "
        "are told then.",
        body=SilenceRequest,
        response=AlertView,
        conflicts=True,
        example=Example(request=examples.SILENCE),
    ),
    Route(
        name="unsilence_alert",
        method="POST",
        path=f"{_ALERT}:unsilence",
        roles=OPERATORS,
        scope=Scope.PATH,
        handler=unsilence,
        client="unsilence_alert(alert_id)",
        command="alerts unsilence",
        summary="Lift the silences of a rule",
        details="All of them, or that of one `subject`.",
        body=UnsilenceRequest,
        response=AlertView,
        conflicts=True,
        example=Example(request=examples.UNSILENCE),
    ),
    Route(
        name="remove_alert",
        method="POST",
        path=f"{_ALERT}:remove",
        roles=OPERATORS,
        scope=Scope.PATH,
        handler=remove,
        client="remove_alert(alert_id)",
        command="alerts remove",
        summary="Take a rule away",
        details="One that is built in can be switched off instead: 409.",
        response=AlertView,
        conflicts=True,
        etag=True,
    ),
)
