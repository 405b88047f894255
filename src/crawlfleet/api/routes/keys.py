"""/api/v1/keys"""

from http import HTTPStatus
from typing import Final

from crawlfleet.api.examples import tasks
from crawlfleet.api.http.parameters import check_id
from crawlfleet.api.http.routing import ADMINS, NOT_KEPT, Call, Example, Reply, Route, Scope
from crawlfleet.control.access.keys import Keys
from crawlfleet.control.this_master import ThisMaster
from crawlfleet.model.key import ApiKey
from crawlfleet.model.requests import KeyRequest, RotateRequest
from crawlfleet.views.access import KeyPage, KeyView, NewKey


async def find(call: Call) -> KeyPage:
    keys = call.service(Keys).find(joining=False)
    return KeyPage(items=[_view(call, key) for key in keys], next_cursor=None)


async def get(call: Call) -> KeyView:
    return _view(call, call.service(Keys).get(_id(call), joining=False))


async def create(call: Call) -> Reply:
    key, secret = await call.service(Keys).create(call.body, by=call.caller.name)
    return Reply(
        body=NewKey(key=_view(call, key), secret=secret),
        status=HTTPStatus.CREATED,
        headers={"Location": f"/api/v1/keys/{key.id}", **NOT_KEPT},
    )


async def rotate(call: Call) -> Reply:
    key, secret = await call.service(Keys).rotate(_id(call), call.body, by=call.caller.name)
    return Reply(body=NewKey(key=_view(call, key), secret=secret), headers=NOT_KEPT)


async def revoke(call: Call) -> KeyView:
    by = call.caller.name
    return _view(call, await call.service(Keys).revoke(_id(call), joining=False, by=by))


def _id(call: Call) -> str:
    return check_id("key", call.path["key_id"])


def _view(call: Call, key: ApiKey) -> KeyView:
    return KeyView.of(key, now=call.service(ThisMaster).wall())


_KEY: Final = "/api/v1/keys/{key_id}"

ROUTES: Final = (
    Route(
        name="list_keys",
        method="GET",
        path="/api/v1/keys",
        roles=ADMINS,
        scope=Scope.FLEET,
        handler=find,
        client="keys()",
        command="keys list",
        summary="List keys, oldest first",
        details="Also those that are dead; never their secrets.",
        response=KeyPage,
    ),
    Route(
        name="create_key",
        method="POST",
        path="/api/v1/keys",
        roles=ADMINS,
        scope=Scope.FLEET,
        handler=create,
        client='create_key("shop", "viewer", project_id="shop")',
        command="keys create",
        summary="Make a key",
        details="Its `secret` is in this answer and nowhere else. A name that a living key has "
        "is a 409.",
        body=KeyRequest,
        response=NewKey,
        statuses=(HTTPStatus.CREATED,),
        conflicts=True,
        example=Example(request=tasks.KEY_REQUEST, response=tasks.NEW_KEY),
    ),
    Route(
        name="get_key",
        method="GET",
        path=_KEY,
        roles=ADMINS,
        scope=Scope.FLEET,
        handler=get,
        client="key(key_id)",
        no_command="`keys list` shows all that there is to a key",
        summary="One key",
        details="Fields that are not set are left out. `status` is `live`, `expired` or "
        "`revoked`; the last use is a few seconds old at most.",
        response=KeyView,
        example=Example(response=tasks.KEY),
    ),
    Route(
        name="rotate_key",
        method="POST",
        path=f"{_KEY}:rotate",
        roles=ADMINS,
        scope=Scope.FLEET,
        handler=rotate,
        client="rotate_key(key_id, grace_s=60)",
        command="keys rotate",
        summary="Give a key a new secret",
        details="The old secret is good for `grace_s` more seconds, for none by default; a "
        "secret before that is dead at once. With `expires_in_s` the key expires anew, else "
        "when it would have. The answer is that of a new key.",
        body=RotateRequest,
        response=NewKey,
        conflicts=True,
        example=Example(request=tasks.ROTATE_REQUEST),
    ),
    Route(
        name="revoke_key",
        method="POST",
        path=f"{_KEY}:revoke",
        roles=ADMINS,
        scope=Scope.FLEET,
        handler=revoke,
        client="revoke_key(key_id)",
        command="keys revoke",
        summary="Make a key worthless at once",
        details="A live stream of events that it opened ends within 15 seconds.",
        response=KeyView,
        conflicts=True,
    ),
)
