"""/api/v1/settings: the effective settings of this master, with the origin of each value."""

from typing import Any, Final

from crawlfleet import config
from crawlfleet.api.examples import projects as examples
from crawlfleet.api.http.routing import ADMINS, Call, Example, Route, Scope
from crawlfleet.control.this_master import ThisMaster
from crawlfleet.model.admin_requests import SettingPage, SettingView
from crawlfleet.telemetry import mask_secrets


async def find(call: Call) -> SettingPage:
    return SettingPage(
        items=[_view(call, setting) for setting in config.SETTINGS.values()], next_cursor=None
    )


def _view(call: Call, setting: config.Setting) -> SettingView:
    value: Any = call.service(ThisMaster).settings
    for part in setting.name.split("."):
        value = getattr(value, part)
    return SettingView(
        name=setting.name,
        value=mask_secrets({setting.name: value})[setting.name],
        origin=call.service(ThisMaster).origins.get(setting.name, config.DEFAULT),
        default=setting.default,
        description=setting.description,
    )


ROUTES: Final = (
    Route(
        name="list_settings",
        method="GET",
        path="/api/v1/settings",
        roles=ADMINS,
        scope=Scope.FLEET,
        handler=find,
        client="settings()",
        command="config master",
        summary="The settings of this master, and where each came from",
        details="Secrets are masked.",
        response=SettingPage,
        example=Example(response=examples.SETTINGS),
    ),
)
